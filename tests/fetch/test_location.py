"""Addresses: what can be read has one meaning, and it is the one that is sent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from finclaw.errors import ExtensionError, ToolDenied
from finclaw.fetch.gate import AddressGate
from finclaw.fetch.location import Location, join, read_location
from finclaw.kernel.fetch import FetchRules


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("HTTP://Example.COM", "http://example.com/"),
        ("  https://example.com.:443?q=1#part ", "https://example.com/?q=1"),
        ("http://example.com:80/a/../b", "http://example.com/a/../b"),
        ("http://example.com:443/", "http://example.com:443/"),
        ("https://한국거래소.한국/시세?종목=삼성", None),
        ("http://example.com/a b\"<>^`{|}'", "http://example.com/a%20b%22%3C%3E%5E%60%7B%7C%7D'"),
        ("http://example.com/%2e%2E/%zz?x=[1]", "http://example.com/%2e%2E/%zz?x=[1]"),
        ("http://8.8.8.8/", "http://8.8.8.8/"),
        ("http://[2606:4700:0:0::1111]:443/", "http://[2606:4700::1111]:443/"),
        ("http://münchen.de/", "http://xn--mnchen-3ya.de/"),
        ("http://my_host.example.com/", "http://my_host.example.com/"),
    ],
)
def test_an_address_has_one_spelling(text: str, means: str | None) -> None:
    location = read_location(text)
    assert str(location).isascii()
    assert means is None or str(location) == means
    assert read_location(str(location)) == location


@given(st.text(max_size=60) | st.from_regex(r"https?://[^\x00]{0,40}", fullmatch=True))
def test_what_is_read_reads_the_same_again_and_is_what_is_sent(text: str) -> None:
    try:
        location = read_location(text)
    except ToolDenied:
        return
    assert read_location(str(location)) == location
    check_sent(location)


@pytest.mark.parametrize("host", ["[2606:4700::1111]", "8.8.8.8", "example.com", "xn--mnchen-3ya.de"])
@pytest.mark.parametrize("port", ["", ":80", ":443", ":8080"])
def test_every_kind_of_host_is_sent_as_it_was_read(host: str, port: str) -> None:
    location = read_location(f"http://{host}{port}//a?b=//c")
    check_sent(location)
    assert str(location.url) == str(location)


def check_sent(location: Location) -> None:
    sent = location.url
    assert (sent.scheme, sent.raw_host, sent.port) == (location.scheme, location.host, location.port)
    assert sent.raw_path_qs == location.target.removesuffix("?")
    assert not any(sign.isspace() for sign in str(location))


@given(st.text(max_size=60) | st.from_regex(r"(//|/|\?|#|\.\./|[a-z]+:)[!-~]{0,40}", fullmatch=True))
def test_a_reference_leads_somewhere_that_can_be_read_or_nowhere(reference: str) -> None:
    try:
        location = join(read_location("https://www.example.com/a/b?c"), reference)
    except ToolDenied:
        return
    assert read_location(str(location)) == location


@pytest.mark.parametrize(
    "settings",
    [
        FetchRules(allow=("http://example.com",)),
        FetchRules(allow=("*",)),
        FetchRules(deny=("exa*mple.com",)),
        FetchRules(deny=("0x7f.1",)),
        FetchRules(private=("wiki",)),
        FetchRules(private=("*.wiki:80",)),
        FetchRules(private=("http://wiki:80",)),
        FetchRules(private=("wiki:80/path",)),
    ],
)
def test_a_host_in_the_settings_that_is_none_stops_the_start(settings: FetchRules) -> None:
    with pytest.raises(ExtensionError, match="write"):
        AddressGate(settings)
