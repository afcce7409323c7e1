"""The contract of the fetch port, against servers of the test's own on this machine."""

import asyncio
from collections.abc import AsyncGenerator

import pytest
from tests.fetch.connects import watched
from tests.fetch.site import Site, answer, get, opened_site

from finclaw.errors import ToolDenied, ToolError, ToolTimeout
from finclaw.kernel.fetch import Fetcher, FetchLimits
from finclaw.testing import FakeClock


@pytest.fixture
async def site() -> AsyncGenerator[Site]:
    async with opened_site() as opened:
        yield opened


@pytest.fixture
def fetcher(site: Site) -> Fetcher:
    return site.fetcher()


def fields(head: str) -> dict[str, str]:
    return dict(line.lower().split(": ", 1) for line in head.strip().split("\r\n")[1:])


# ── one request ─────────────────────────────────────────────────────────────────────────────────────────────


async def test_an_answer_of_any_status_is_a_reply(site: Site, fetcher: Fetcher) -> None:
    site.gives("/gone", "gone", status="410 Gone", x_reason="sold")
    reply = await fetcher.fetch(get(site.url("/gone")))
    assert (reply.status, reply.body, reply.url, reply.host) == (410, b"gone", site.url("/gone"), "www.example.com")
    assert (reply.media_type, reply.charset, reply.headers["x-reason"]) == ("text/html", "utf-8", "sold")


async def test_method_headers_and_body_are_sent_as_given(site: Site, fetcher: Fetcher) -> None:
    site.gives("/quotes", "{}", content_type="application/json")
    headers = {"Authorization": "Bearer k", "Content-Type": "application/json"}
    await fetcher.fetch(get(site.url("/quotes"), method="POST", headers=headers, body=b'{"q": 1}'))
    head = site.requests[0]
    assert head.startswith("POST /quotes ")
    assert (fields(head)["authorization"], fields(head)["content-length"]) == ("bearer k", "8")


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "169.254.169.254"},
        {"content-length": "0"},
        {"Transfer-Encoding": "chunked"},
        {"Proxy-Authorization": "x"},
        {"If-None-Match": "*"},
        {"X": "a\r\nHost: b"},
        {"X\r\nY": "a"},
        {"X": "\ud800"},
        {"": "a"},
    ],
)
async def test_headers_that_change_the_request_itself_are_denied(
    site: Site, fetcher: Fetcher, headers: dict[str, str]
) -> None:
    with pytest.raises(ToolDenied, match="header"):
        await fetcher.fetch(get(site.url(), headers=headers))
    assert site.requests == []


@pytest.mark.spec("DX-52")
@pytest.mark.parametrize("url", ["http://127.0.0.2/", "http://169.254.169.254/", "file:///etc/passwd", "http://wiki/"])
async def test_addresses_of_private_networks_are_not_asked(fetcher: Fetcher, url: str) -> None:
    with watched() as heard, pytest.raises(ToolDenied):
        await fetcher.fetch(get(url))
    assert heard == []


@pytest.mark.spec("DX-52")
async def test_limits_of_size_and_type_are_the_requests_own(site: Site, fetcher: Fetcher) -> None:
    site.gives("/chart", b"\x89PNG\0" * 10, content_type="image/png")
    wanted = get(site.url("/chart"), accept=("image/png", "image/webp"), limits=FetchLimits(body=20))
    reply = await fetcher.fetch(wanted)
    assert (len(reply.body), reply.truncated) == (20, True)
    assert fields(site.requests[0])["accept"] == "image/png, image/webp"
    for accept in ((), ("image/gif",), ("text/*",)):
        with pytest.raises(ToolError, match="cannot be read here"):
            await fetcher.fetch(get(site.url("/chart"), accept=accept))


# ── redirects ───────────────────────────────────────────────────────────────────────────────────────────────


async def test_headers_stay_with_the_host_they_were_meant_for(site: Site, fetcher: Fetcher) -> None:
    site.redirects("/", "/here")
    site.redirects("/here", site.url("/there", host="cdn.example.net"))
    site.gives("/there", "hello")
    await fetcher.fetch(get(site.url(), headers={"Authorization": "Bearer k"}))
    assert ["authorization" in fields(head) for head in site.requests] == [True, True, False]


async def test_what_was_posted_goes_nowhere_else(site: Site, fetcher: Fetcher) -> None:
    site.redirects("/", site.url("/there", host="cdn.example.net"), "307 Temporary Redirect")
    with pytest.raises(ToolError, match="not followed"):
        await fetcher.fetch(get(site.url(), method="POST", body=b"x"))
    assert len(site.requests) == 1


async def test_the_number_of_redirects_is_the_requests_own(site: Site, fetcher: Fetcher) -> None:
    site.redirects("/", "/next")
    with pytest.raises(ToolError, match="again and again"):
        await fetcher.fetch(get(site.url(), limits=FetchLimits(redirects=0)))


# ── courtesy ────────────────────────────────────────────────────────────────────────────────────────────────


async def test_few_requests_go_to_one_host_at_a_time_and_other_hosts_do_not_wait(site: Site, fetcher: Fetcher) -> None:
    running = most = 0
    full, go_on = asyncio.Event(), asyncio.Event()

    async def slow(writer: asyncio.StreamWriter) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 4:
            full.set()
        await go_on.wait()
        running -= 1
        writer.write(answer(b"hello"))

    site.pages["/slow"] = slow
    site.gives("/fast", "hello")
    asked = [asyncio.create_task(fetcher.fetch(get(site.url("/slow")))) for _ in range(12)]
    await full.wait()
    await fetcher.fetch(get(site.url("/fast", host="cdn.example.net")))
    assert len(site.requests) == 5
    go_on.set()
    assert [reply.status for reply in await asyncio.gather(*asked)] == [200] * 12
    assert most == 4


def test_waiting_for_a_host_counts_as_time() -> None:
    clock = FakeClock()

    async def silence(writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(1_000)

    async def main() -> None:
        async with opened_site() as site:
            site.pages["/"] = silence
            fetcher = site.fetcher()
            limits = FetchLimits(seconds=5)
            asked = (fetcher.fetch(get(site.url(), limits=limits)) for _ in range(9))
            ended = await asyncio.gather(*asked, return_exceptions=True)
            assert [type(each) for each in ended] == [ToolTimeout] * 9

    began = clock.monotonic()
    clock.run(main())
    assert clock.monotonic() - began == pytest.approx(5, abs=1)


@pytest.mark.parametrize(
    ("given", "asked"),
    [({"etag": '"v1"'}, "if-none-match"), ({"last_modified": "Mon, 06 Jan 2025 09:00:00 GMT"}, "if-modified-since")],
)
async def test_a_page_that_has_not_changed_is_not_sent_again(
    site: Site, fetcher: Fetcher, given: dict[str, str], asked: str
) -> None:
    site.gives("/", "first", **given)
    first = await fetcher.fetch(get(site.url()))
    site.gives("/", status="304 Not Modified", content_type="")
    again = await fetcher.fetch(get(site.url()))
    assert (again.status, again.body, again.media_type) == (200, b"first", "text/html")
    assert (first.revalidated, again.revalidated) == (False, True)
    assert asked not in fields(site.requests[0])
    assert fields(site.requests[1])[asked] == next(iter(given.values())).lower()
    site.gives("/", "second", **given)
    assert (await fetcher.fetch(get(site.url()))).body == b"second"


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ({}, {"headers": {"Authorization": "Bearer other"}}),
        ({}, {"accept": ("text/*",)}),
        ({}, {"limits": FetchLimits(body=3)}),
        ({"limits": FetchLimits(body=3)}, {}),
        ({"method": "POST"}, {}),
        ({}, {"method": "POST"}),
    ],
    ids=["other headers", "other types", "smaller limit", "cut", "was posted", "is posted"],
)
async def test_what_another_request_was_given_is_not_reused(
    site: Site, fetcher: Fetcher, first: dict[str, object], then: dict[str, object]
) -> None:
    site.gives("/", "first", etag='"v1"')
    await fetcher.fetch(get(site.url(), **first))
    await fetcher.fetch(get(site.url(), **then))
    assert "if-none-match" not in fields(site.requests[1])


async def test_what_must_not_be_kept_is_not(site: Site, fetcher: Fetcher) -> None:
    site.gives("/", "balance", etag='"v1"', cache_control="private, no-store")
    for _ in range(2):
        await fetcher.fetch(get(site.url()))
    assert "if-none-match" not in fields(site.requests[1])


@pytest.mark.parametrize("etag", [b'"\xff\xfe"', '"삼성"'.encode(), b'"' + b"x" * 5_000 + b'"', b'"a\tb"'])
async def test_a_validator_that_cannot_be_sent_back_is_not(site: Site, fetcher: Fetcher, etag: bytes) -> None:
    site.pages["/"] = answer(b"hello").replace(b"Connection:", b"ETag: " + etag + b"\r\nConnection:")
    for _ in range(2):
        assert (await fetcher.fetch(get(site.url()))).body == b"hello"
    assert "if-none-match" not in fields(site.requests[1])


async def test_kept_replies_have_a_bounded_size(site: Site, fetcher: Fetcher) -> None:
    for number in range(12):
        site.gives(f"/{number}", b"x" * 900_000, etag='"v1"')
        await fetcher.fetch(get(site.url(f"/{number}")))
    for path in ("/0", "/11"):
        await fetcher.fetch(get(site.url(path)))
    assert ["if-none-match" in fields(head) for head in site.requests[-2:]] == [False, True]
