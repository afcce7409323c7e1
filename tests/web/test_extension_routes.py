"""Extensions serve paths of their own, behind the same token and with the same errors."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

import aiohttp
import pytest
from tests.web.conftest import AUTH, TOKEN, Client
from tests.web.gateway import MemoryGateway

import finclaw
from finclaw.agent.settings import AgentSettings
from finclaw.kernel.port import ExtensionRoute, Method, RouteReply, RouteRequest
from finclaw.redaction import Secret
from finclaw.web.server import serve_web
from finclaw.web.settings import WebServerSettings

Handle = Callable[[RouteRequest], Awaitable[RouteReply]]
HERE = "/api/v1/extensions/mine/"


async def echo(request: RouteRequest) -> RouteReply:
    text = f'{{"principal": "{request.principal}", "q": "{request.query.get("q", "")}", "size": {len(request.body)}}}'
    return RouteReply(body=text.encode(), status=201)


async def broken(_: RouteRequest) -> RouteReply:
    raise RuntimeError("a secret of the trace")


async def wordless(_: RouteRequest) -> RouteReply:
    return None  # pyright: ignore[reportReturnType]


async def forger(_: RouteRequest) -> RouteReply:
    return RouteReply(body=b"{}", content_type="text/html\r\nSet-Cookie: a=b")


def route(method: Method, path: str, handle: Handle) -> ExtensionRoute:
    return ExtensionRoute(extension="mine", method=method, path=path, handle=handle)


@pytest.fixture
async def client(settings: WebServerSettings) -> AsyncGenerator[Client]:
    gateway = MemoryGateway(
        routes=(
            route("GET", "echo", echo),
            route("POST", "echo", echo),
            route("GET", "deep/er/broken", broken),
            route("GET", "wordless", wordless),
            route("GET", "forger", forger),
        )
    )
    async with serve_web(gateway, settings, Secret(TOKEN)) as server, aiohttp.ClientSession() as session:
        yield Client(session, server.url, gateway)


async def test_a_request_reaches_its_extension(client: Client) -> None:
    assert await client.call("GET", HERE + "echo?q=1&q=2") == (201, {"principal": "owner", "q": "1", "size": 0})
    assert await client.call("POST", HERE + "echo", data=b"\xff\x00") == (
        201,
        {"principal": "owner", "q": "", "size": 2},
    )


async def test_it_wants_the_token_like_everything_else(client: Client) -> None:
    assert "Authorization: Bearer" in await client.refused("GET", HERE + "echo", 401, headers={})
    wrong = {"Authorization": "Bearer wrong"}
    assert "not the token" in await client.refused("POST", HERE + "echo", 401, headers=wrong)


async def test_only_what_was_added_is_there(client: Client) -> None:
    assert "there is no" in await client.refused("GET", HERE + "other", 404)
    assert "there is no" in await client.refused("GET", "/api/v1/extensions/other/echo", 404)
    assert "takes GET" in await client.refused("POST", HERE + "wordless", 405)


async def test_a_body_has_the_usual_limit(client: Client) -> None:
    assert "2048 bytes" in await client.refused("POST", HERE + "echo", 413, data=b"x" * 3_000)


@pytest.mark.parametrize("path", ["deep/er/broken", "wordless", "forger"])
async def test_a_failure_is_one_line_and_the_log_has_the_rest(
    client: Client, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert "its log says more" in await client.refused("GET", HERE + path, 500)
    assert caplog.records
    assert (await client.call("GET", HERE + "echo"))[0] == 201


async def test_a_file_in_the_settings_is_served(tmp_path: Path, settings: WebServerSettings) -> None:
    file = tmp_path / "teller.py"
    file.write_text(
        "from finclaw.kernel.extension import RouteReply\n"
        "def register(api):\n"
        "    async def tell(request):\n"
        "        await api.state.set((await api.state.get() or 0) + 1)\n"
        "        return RouteReply(body=str(await api.state.get()).encode())\n"
        "    api.routes.add('GET', 'count', tell)\n"
    )
    house = finclaw.Settings(state=tmp_path / "state", agent=AgentSettings(extensions=(str(file),)))
    async with (
        finclaw.build(house) as app,
        serve_web(app, settings, Secret(TOKEN)) as server,
        aiohttp.ClientSession() as session,
    ):
        url = server.url + "/api/v1/extensions/teller/count"
        for number in (1, 2):
            async with session.get(url, headers=AUTH) as response:
                assert (response.status, await response.json()) == (200, number)
