"""MCP over HTTP: a name is looked up once, and nothing but the addresses that were judged is ever connected to."""

import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from aiohttp import web
from mcp.client.session import ClientSession
from tests.builtins.mcp.bench import Bench
from tests.builtins.mcp.http_site import fine, site
from tests.fetch.connects import connected_to, watched
from tests.fetch.site import Names
from tests.providers.tls_server import certified

from finclaw.builtins.mcp.settings import ServerSettings
from finclaw.builtins.mcp.transport import ServerLost, find, web_server
from finclaw.errors import ExtensionError, ToolError
from finclaw.fetch.location import read_location

pytestmark = pytest.mark.spec("DX-52", "DX-22")


def _port(url: str) -> str:
    return url.rsplit(":", 1)[1].partition("/")[0]


async def _listed(server: ServerSettings, names: Names, tls: ssl.SSLContext | bool = True) -> list[str]:
    async with web_server(server, {}, 1_000_000, names, tls) as streams, ClientSession(*streams) as session:
        with anyio.fail_after(20):
            await session.initialize()
            return [tool.name for tool in (await session.list_tools()).tools]


async def test_a_name_that_changes_its_mind_is_not_followed() -> None:
    """The second answer, a moment later, is another machine of ours."""
    names = Names({"tools.corp": [["127.0.0.1"], ["127.0.0.2"]]})
    seen: list[web.Request] = []
    async with site(fine, seen) as url:
        server = ServerSettings(url=f"http://tools.corp:{_port(url)}/mcp", private=True)
        with watched() as heard:
            assert await _listed(server, names) == ["act"]
    assert set(connected_to(heard)) == {"127.0.0.1"}
    assert names.asked == ["tools.corp"]
    assert {request.headers["Host"] for request in seen} == {f"tools.corp:{_port(url)}"}


@pytest.mark.parametrize(
    ("url", "private", "answer"),
    [
        ("https://tools.example.com/mcp", False, ["127.0.0.1"]),
        ("https://tools.example.com/mcp", False, ["10.0.0.5"]),
        ("https://tools.example.com/mcp", False, ["8.8.8.8", "192.168.0.7"]),
        ("https://tools.example.com/mcp", False, ["::ffff:127.0.0.1"]),
        ("https://tools.example.com/mcp", False, ["::1"]),
        ("https://tools.example.com/mcp", True, ["169.254.169.254"]),
        ("https://tools.example.com/mcp", True, ["fd00:ec2::254"]),
        ("https://tools.example.com/mcp", True, ["10.0.0.5", "100.100.100.200"]),
        ("http://intranet/mcp", False, ["10.0.0.5"]),
        ("http://printer.local/mcp", False, ["8.8.8.8"]),
        ("http://169.254.169.254/mcp", True, []),
        ("http://[fe80::1]/mcp", True, []),
        ("http://localhost/mcp", False, ["10.0.0.5"]),
        ("http://localhost/mcp", True, ["8.8.8.8"]),
        ("https://tools.example.com/mcp", False, []),
        ("https://tools.example.com/mcp", False, [f"8.8.8.{each}" for each in range(1, 40)]),
    ],
)
async def test_what_leads_into_a_network_is_connected_to_only_where_it_is_said(
    url: str, private: bool, answer: Sequence[str]
) -> None:
    host = url.split("/")[2]
    with watched() as heard, pytest.raises(ServerLost):
        await _listed(ServerSettings(url=url, private=private), Names({host: [answer]}))
    assert connected_to(heard) == []


@pytest.mark.parametrize(
    ("url", "private", "answer"),
    [
        ("https://tools.example.com/mcp", False, ["8.8.8.8"]),
        ("https://tools.example.com:8443/mcp", False, ["2606:4700::1111", "8.8.8.8"]),
        ("http://tools.corp/mcp", True, ["10.0.0.5"]),
        ("http://tools/mcp", True, ["fd12::5"]),
        ("http://localhost:9/mcp", False, ["127.0.0.1", "::1"]),
        ("http://127.0.0.1:9/mcp", False, []),
        ("http://10.0.0.5/mcp", False, []),
        ("http://[::1]:9/mcp", False, []),
    ],
)
async def test_what_is_public_or_said_to_be_ones_own_is_found(url: str, private: bool, answer: Sequence[str]) -> None:
    host = read_location(url).host
    found = await find(ServerSettings(url=url, private=private), Names({host: [answer]}))
    assert [str(each) for each in found.addresses] == list(answer or [found.location.host])


async def test_the_complaint_says_what_to_do() -> None:
    with pytest.raises(ServerLost, match="private: true"):
        await find(ServerSettings(url="https://tools.example.com/mcp"), Names({"tools.example.com": [["10.0.0.5"]]}))


async def test_where_nobody_answers_the_next_address_is_tried() -> None:
    names = Names({"tools.corp": [["127.0.0.9", "127.0.0.1"]]})
    async with site(fine) as url:
        server = ServerSettings(url=f"http://tools.corp:{_port(url)}/mcp", private=True)
        assert await _listed(server, names) == ["act"]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_no_redirect_is_followed_not_even_at_home(bench: Bench, status: int) -> None:
    asked: list[str] = []

    async def away(request: web.Request, message: dict[str, Any]) -> web.StreamResponse:
        asked.append(request.path_qs)
        return web.Response(status=status, headers={"Location": "/mcp?again=1"})

    async with site(away) as url, bench.open(servers={"far": {"url": url}}):
        await bench.has("far__act")
        with pytest.raises(ToolError, match="refused"):
            await bench.run("far__act")
    assert asked == ["/mcp"]


@pytest.mark.parametrize(
    ("certified_for", "works"), [("DNS:tools.corp", True), ("DNS:other.corp", False), ("IP:127.0.0.1", False)]
)
async def test_the_certificate_must_be_the_name_s_and_not_the_address_s(
    tmp_path: Path, certified_for: str, works: bool
) -> None:
    served, authority = certified(tmp_path, certified_for)
    names = Names({"tools.corp": [["127.0.0.1"]]})
    trusted = ssl.create_default_context(cafile=authority)
    async with site(fine, tls=served) as url:
        server = ServerSettings(url=f"https://tools.corp:{_port(url)}/mcp", private=True)
        if works:
            assert await _listed(server, names, trusted) == ["act"]
        else:
            with pytest.RaisesGroup(Exception, allow_unwrapped=True, flatten_subgroups=True):
                await _listed(server, names, trusted)


@pytest.mark.parametrize(
    "url",
    [
        "http://user@tools.example.com/mcp",
        "http://tools.example.com\\@10.0.0.5/mcp",
        "http://0x7f.1/mcp",
        "http://2130706433/mcp",
        "http://127.1/mcp",
        "http://tools.example.com:0/mcp",
        "http://[::1%25eth0]/mcp",
        "ftp://tools.example.com/mcp",
        "http:///mcp",
    ],
)
def test_an_address_that_can_be_read_in_two_ways_stops_the_start(url: str) -> None:
    with pytest.raises(ExtensionError, match="url"):
        ServerSettings(url=url).check("far")


def test_a_program_is_nowhere() -> None:
    with pytest.raises(ExtensionError, match="private"):
        ServerSettings(command=("true",), private=True).check("far")
