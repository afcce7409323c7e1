"""The cache of replies counts all that it keeps and keeps no more than it was given."""

import tracemalloc
from collections.abc import Mapping

from tests.fetch.site import get

from finclaw.fetch.location import read_location
from finclaw.fetch.revalidation import ReplyCache, validators
from finclaw.kernel.fetch import FetchReply


def make_reply(headers: Mapping[str, str], body: bytes = b"ok") -> FetchReply:
    kept = {"etag": '"v1"', **headers}
    return FetchReply(status=200, url="", host="", media_type="", charset="", body=body, truncated=False, headers=kept)


def test_only_the_headers_that_confirm_a_reply_are_kept() -> None:
    cache, location = ReplyCache(), read_location("https://a.example/")
    cache.keep(location, get("https://a.example/"), make_reply({"x": "y", "last-modified": "today"}))
    known = cache.find(location, get("https://a.example/"))
    assert known is not None
    assert validators(known) == {"If-None-Match": '"v1"', "If-Modified-Since": "today"}
    assert "x" not in known.headers


def test_large_headers_and_addresses_are_not_kept_beyond_the_limit() -> None:
    cache = ReplyCache(most_bytes=1_000_000)
    tracemalloc.start()
    for number in range(300):
        url = f"https://a.example/{number}?{'q' * 1_900}{number}"
        headers = {f"x-{each}": f"{number}" + "v" * 2_000 for each in range(20)}
        reply = make_reply({**headers, "last-modified": f"{number}" + "x" * 16_000})
        cache.keep(read_location(url), get(url), reply)
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert kept < 2_500_000


def test_the_number_of_replies_is_limited() -> None:
    cache = ReplyCache(most_replies=3)
    urls = [f"https://a.example/{number}" for number in range(5)]
    for url in urls:
        cache.keep(read_location(url), get(url), make_reply({}, b""))
    assert [cache.find(read_location(url), get(url)) is not None for url in urls] == [False, False, True, True, True]
