"""What must not be asked is not asked: no connection, and no look-up of a name that needs none."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address

import pytest
from aiohttp import ClientTimeout
from tests.fetch.connects import connected_to, watched
from tests.fetch.corpus import FORBIDDEN, HOSTS, WHOLE
from tests.fetch.site import Names, Site, counts_as_public, get, text_of

import finclaw
from finclaw.errors import ToolDenied, ToolError
from finclaw.fetch.address import Address, is_public
from finclaw.fetch.client import HttpFetcher, pinned_session
from finclaw.fetch.gate import AddressGate, look_up
from finclaw.fetch.location import read_location
from finclaw.kernel.fetch import FetchRules

PUBLIC = "93.184.215.14"
SENDABLE = [host for host in HOSTS if "\x00" not in host]
"""As a header's value."""


class Once:
    """The first address counts as public, whatever it is: the way to the test's own site and no further."""

    def __init__(self) -> None:
        self._is_first = True

    def __call__(self, address: Address) -> bool:
        was_first, self._is_first = self._is_first, False
        return was_first or is_public(address)


def test_the_corpus_is_long_and_says_nothing_twice() -> None:
    assert len(FORBIDDEN) == len(set(FORBIDDEN)) > 200


@pytest.mark.spec("DX-52", "G-05")
@pytest.mark.parametrize("url", FORBIDDEN, ids=ascii)
async def test_nothing_is_looked_up_and_nobody_is_connected_to(url: str) -> None:
    names = Names()
    with watched() as heard, pytest.raises(ToolDenied):
        await HttpFetcher(AddressGate(resolve=names)).fetch(get(url))
    assert (heard, names.asked) == ([], [])


@pytest.mark.spec("DX-52")
@pytest.mark.parametrize("host", SENDABLE, ids=ascii)
async def test_no_redirect_leads_there_either(site: Site, host: str) -> None:
    site.redirects("/", f"http://{host}:{site.port}/x")
    gate = AddressGate(FetchRules(ports=(site.port,)), resolve=Names(), public=Once())
    with watched() as heard, pytest.raises(ToolDenied):
        await HttpFetcher(gate).fetch(get(site.url()))
    assert connected_to(heard) == ["127.0.0.1"]
    assert len(site.requests) == 1


@pytest.mark.spec("DX-52")
@pytest.mark.parametrize("address", [each for each in WHOLE if each.isprintable() and "://" in each], ids=ascii)
async def test_no_redirect_leads_out_of_the_rules(site: Site, address: str) -> None:
    site.redirects("/", address)
    gate = AddressGate(FetchRules(ports=(site.port,)), resolve=Names(), public=Once())
    with watched() as heard, pytest.raises(ToolDenied):
        await HttpFetcher(gate).fetch(get(site.url()))
    assert connected_to(heard) == ["127.0.0.1"]


# ── names that change their mind ────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("DX-52")
@pytest.mark.parametrize(
    "answer",
    [
        ["127.0.0.1"],
        [PUBLIC, "127.0.0.1"],
        ["10.0.0.1", PUBLIC],
        ["2606:4700::1111", "::1"],
        ["::ffff:169.254.169.254"],
        ["64:ff9b::a9fe:a9fe"],
        ["fe80::1%eth0"],
        ["198.18.0.7"],
        ["no address"],
        [PUBLIC] + [f"93.184.215.{last}" for last in range(20, 60)],
    ],
)
async def test_one_bad_address_spoils_the_answer(answer: list[str]) -> None:
    names = Names({"rebind.example.com": [answer]})
    with watched() as heard, pytest.raises(ToolDenied):
        await HttpFetcher(AddressGate(resolve=names)).fetch(get("http://rebind.example.com/"))
    assert heard == []


@pytest.mark.spec("DX-52")
async def test_a_name_is_looked_up_once_and_what_was_judged_is_what_is_asked(site: Site) -> None:
    site.gives("/", "<p>hello</p>")
    names = Names({"rebind.example.com": [["127.0.0.1"], ["127.0.0.2"]]})
    with watched() as heard:
        page = await site.fetcher(names).fetch(get(site.url(host="rebind.example.com")))
    assert text_of(page) == "<p>hello</p>"
    assert names.asked == ["rebind.example.com."]
    assert heard == [("socket.connect", ("127.0.0.1", site.port))]
    assert f"\r\nHost: rebind.example.com:{site.port}\r\n" in site.requests[0]


@pytest.mark.spec("DX-52")
async def test_a_name_that_turns_private_between_two_redirects_is_not_asked_again(site: Site) -> None:
    site.redirects("/", "/again")
    names = Names({"rebind.example.com": [["127.0.0.1"], ["127.0.0.2"]]})
    with watched() as heard, pytest.raises(ToolDenied):
        await site.fetcher(names).fetch(get(site.url(host="rebind.example.com")))
    assert connected_to(heard) == ["127.0.0.1"]
    assert names.asked == ["rebind.example.com."] * 2


@pytest.mark.spec("DX-52")
async def test_a_session_connects_to_what_was_judged_even_if_it_is_asked_for_another_number(site: Site) -> None:
    judged = [ip_address("127.0.0.3")]
    async with pinned_session(judged, ClientTimeout(total=5)) as session:
        with watched() as heard, pytest.raises(ToolDenied, match="not judged"):
            await session.get(f"http://127.0.0.1:{site.port}/")
    assert heard == []


async def test_the_systems_resolver_gives_plain_addresses() -> None:
    found = {ip_address(each) for each in await look_up("localhost", 80)}
    assert found
    assert all(each.is_loopback for each in found)


async def test_names_are_looked_up_even_when_the_threads_of_the_house_are_busy() -> None:
    done = threading.Event()
    with ThreadPoolExecutor(1) as everybodys:
        asyncio.get_running_loop().set_default_executor(everybodys)
        everybodys.submit(done.wait)
        try:
            assert await asyncio.wait_for(look_up("localhost", 80), 60)
        finally:
            done.set()


async def test_a_name_without_an_answer_is_an_ordinary_failure() -> None:
    async def nobody(name: str, port: int) -> list[str]:
        raise OSError("no such name")

    with pytest.raises(ToolError, match="was not found") as caught:
        await HttpFetcher(AddressGate(resolve=nobody)).fetch(get("https://nowhere.example.com/"))
    assert not isinstance(caught.value, ToolDenied)


# ── redirects ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"])
async def test_redirects_are_followed_to_the_fifth(site: Site, status: str) -> None:
    for step in range(5):
        site.redirects(f"/{step}", f"{step + 1}?q=a b", status)
        site.pages[f"/{step}?q=a%20b"] = site.pages[f"/{step}"]
    site.gives("/5?q=a%20b", "there")
    page = await site.fetcher().fetch(get(site.url("/0")))
    assert (text_of(page), page.url) == ("there", site.url("/5?q=a%20b"))
    assert len(site.requests) == 6


@pytest.mark.spec("DX-52")
async def test_redirects_without_end_end(site: Site) -> None:
    for step in range(10_000):
        site.redirects(f"/{step}", f"/{step + 1}")
    with pytest.raises(ToolError, match="redirects again and again"):
        await site.fetcher().fetch(get(site.url("/0")))
    assert len(site.requests) == 6


async def test_a_redirect_without_a_place_is_a_page(site: Site) -> None:
    site.gives("/", "somewhere else", status="302 Found")
    assert text_of(await site.fetcher().fetch(get(site.url()))) == "somewhere else"


@pytest.mark.spec("DX-52")
async def test_nothing_of_ours_goes_along(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    site.gives("/", status="302 Found", location="/next", set_cookie="id=1; Path=/")
    site.gives("/next", "there")
    await site.fetcher().fetch(get(site.url()))
    for head in site.requests:
        fields = dict(line.lower().split(": ", 1) for line in head.strip().split("\r\n")[1:])
        assert fields.keys() <= {"host", "user-agent", "accept", "accept-encoding", "connection"}
        assert fields["user-agent"] == f"finclaw/{finclaw.__version__}"
        assert head.startswith("GET ")


# ── what the operator says ──────────────────────────────────────────────────────────────────────────────────


def strict(*private: str, names: Names | None = None) -> HttpFetcher:
    """Here the test's own machine is as private as it is."""
    return HttpFetcher(AddressGate(FetchRules(private=private), resolve=names or Names()))


@pytest.mark.spec("DX-52")
async def test_a_private_host_is_reached_only_by_its_exact_name_and_port(site: Site) -> None:
    site.gives("/", "the intranet")
    fetcher = strict(f"wiki:{site.port}")
    assert text_of(await fetcher.fetch(get(site.url(host="WIKI")))) == "the intranet"
    for url in (site.url(host="127.0.0.1"), site.url(host="a.wiki"), "http://wiki/", f"http://wiki.:{site.port + 1}/"):
        with pytest.raises(ToolDenied):
            await fetcher.fetch(get(url))


@pytest.mark.parametrize("address", ["169.254.169.254", "100.100.100.200", "fd00:ec2::254", "0.0.0.0", "fe80::1"])
async def test_not_even_a_private_host_may_be_the_clouds_metadata(address: str) -> None:
    fetcher = strict("wiki:80", names=Names({"wiki": [[address]]}))
    with watched() as heard, pytest.raises(ToolDenied):
        await fetcher.fetch(get("http://wiki/"))
    assert heard == []


async def test_the_outside_cannot_send_us_inside(site: Site) -> None:
    site.redirects("/", f"http://wiki:{site.port}/secret")
    settings = FetchRules(private=(f"wiki:{site.port}",), ports=(site.port,))
    with pytest.raises(ToolDenied, match="own network"):
        await site.fetcher(settings=settings).fetch(get(site.url()))
    assert len(site.requests) == 1


async def test_denied_wins_and_an_allow_list_leaves_nothing_else(site: Site) -> None:
    site.gives("/", "hello")
    settings = FetchRules(allow=("example.com", "*.example.org"), deny=("bad.example.org",), ports=(site.port,))
    fetcher = site.fetcher(settings=settings)
    for host in ("example.com", "EXAMPLE.com.", "example.org", "a.b.example.org"):
        assert text_of(await fetcher.fetch(get(site.url(host=host)))) == "hello"
    for host in ("www.example.com", "bad.example.org", "BAD.example.org.", "badexample.org", "example.net"):
        with pytest.raises(ToolDenied, match="list of"):
            await fetcher.fetch(get(site.url(host=host)))


async def test_made_up_addresses_need_a_word_of_the_operator_and_a_name() -> None:
    names = Names({"www.example.com": [["198.18.0.7"]]})
    told = AddressGate(FetchRules(fake_addresses=True), resolve=names)
    assert [str(each) for each in await told.addresses(read_location("http://www.example.com/"))] == ["198.18.0.7"]
    with pytest.raises(ToolDenied):
        await told.addresses(read_location("http://198.18.0.7/"))


def test_the_seam_of_these_tests_opens_this_machine_only() -> None:
    assert counts_as_public(ip_address("127.0.0.1"))
    assert not counts_as_public(ip_address("127.0.0.2"))
