"""Security trial H4: whatever a token has opened ends with it. After a change of the file the old one does nothing."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from tests.web.gateway import MemoryGateway, answer

from finclaw.kernel.event import MessageAccepted, MessageEnded
from finclaw.kernel.port import ExtensionRoute, RouteReply, RouteRequest
from finclaw.kernel.scope import Ids
from finclaw.web.server import serve_web
from finclaw.web.settings import WebServerSettings
from finclaw.web.token import TokenOnDisk

OLD, NEW = "o" * 43, "n" * 43
OLD_AUTH, NEW_AUTH = ({"Authorization": f"Bearer {each}"} for each in (OLD, NEW))
HANG = 60.0
IDS = Ids(agent="main", session="main:web:owner:direct:main", inbound_id="in-1", turn_id="")


@dataclass
class House:
    """A gateway whose token is in a file, and a client that may hold an old one."""

    state: Path
    session: aiohttp.ClientSession
    url: str
    gateway: MemoryGateway
    slow: asyncio.Event = field(default_factory=asyncio.Event)

    def write_token(self, text: str = NEW, mode: int = 0o600) -> None:
        path = self.state / "token"
        path.write_text(text, encoding="ascii")
        path.chmod(mode)

    def remove_token(self) -> None:
        (self.state / "token").unlink()

    def connect(self, headers: dict[str, str]) -> Any:
        return self.session.ws_connect(f"{self.url}/live", headers=headers)

    def tell_secret(self) -> None:
        """Something happens in the account: a message is taken and answered."""
        self.gateway.events.emit(MessageAccepted(ticket=1, channel="web", account="owner", conversation="main", **IDS))
        self.gateway.events.emit(MessageEnded(outcome="answered", reason="", reply="a secret", **IDS))


@pytest.fixture
async def house(tmp_path: Path) -> AsyncGenerator[House]:
    slow = asyncio.Event()

    async def wait(_: RouteRequest) -> RouteReply:
        slow.set()
        await asyncio.Event().wait()
        return RouteReply(body=b"a secret")

    routes = (ExtensionRoute(extension="slow", method="GET", path="wait", handle=wait),)
    gateway = MemoryGateway(routes=routes)
    async with asyncio.timeout(2 * HANG), aiohttp.ClientSession() as session:
        (tmp_path / "token").write_text(OLD, encoding="ascii")
        (tmp_path / "token").chmod(0o600)
        async with serve_web(gateway, WebServerSettings(port=0), TokenOnDisk(tmp_path)) as server:
            yield House(tmp_path, session, f"{server.url}/api/v1", gateway, slow)


CHANGES: list[Callable[[House], None]] = [
    House.write_token,
    House.remove_token,
    lambda house: house.write_token(OLD, 0o644),
    lambda house: house.write_token("no token"),
]


async def greeted(socket: aiohttp.ClientWebSocketResponse, **hello: str) -> None:
    await socket.send_json({"type": "hello", **hello})
    assert (await socket.receive_json())["type"] == "hello"


async def closing(socket: aiohttp.ClientWebSocketResponse) -> list[Any]:
    """What still comes until the socket is closed, and nothing of it is a secret."""
    frames: list[Any] = []
    async with asyncio.timeout(HANG):
        while (frame := await socket.receive()).type is aiohttp.WSMsgType.TEXT:
            frames.append(frame.json())
    assert "secret" not in str(frames)
    assert frame.type is aiohttp.WSMsgType.CLOSE
    assert frame.data == 4401
    assert "token was replaced" in str(frame.extra)
    return frames


@pytest.mark.parametrize("change", CHANGES)
async def test_a_websocket_writes_nothing_after_the_change(house: House, change: Callable[[House], None]) -> None:
    async with house.connect(OLD_AUTH) as socket:
        await greeted(socket)
        change(house)
        await socket.send_json({"type": "message", "message": {"message_id": "1", "text": "/approve 1"}})
        (error,) = await closing(socket)
    assert (error["type"], error["code"]) == ("error", "token_replaced")
    assert not house.gateway.taken


async def test_a_websocket_reads_nothing_after_the_change(house: House) -> None:
    async with house.connect(OLD_AUTH) as socket:
        await greeted(socket)
        house.write_token()
        house.tell_secret()
        await closing(socket)


@pytest.mark.parametrize("change", CHANGES)
async def test_a_silent_websocket_is_closed_by_itself(house: House, change: Callable[[House], None]) -> None:
    async with house.connect({}) as socket:
        await greeted(socket, token=OLD)
        change(house)
        assert [each["code"] for each in await closing(socket)] == ["token_replaced"]


async def test_a_token_that_is_replaced_before_the_hello_opens_nothing(house: House) -> None:
    async with house.connect(OLD_AUTH) as socket:
        house.write_token()
        await socket.send_json({"type": "hello", "token": OLD})
        frames = [await socket.receive(timeout=HANG), await socket.receive(timeout=HANG)]
    assert [each.type for each in frames] == [aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.CLOSE]
    assert (frames[0].json()["code"], frames[1].data) == ("wrong_token", 4401)


async def test_the_new_tokens_own_socket_stays(house: House) -> None:
    async with house.connect(OLD_AUTH) as old:
        await greeted(old)
        house.write_token()
        async with house.connect(NEW_AUTH) as new:
            await greeted(new)
            await closing(old)
            await new.send_json({"type": "message", "message": {"message_id": "1", "text": "hi"}})
            assert (await new.receive_json())["type"] == "taken"


async def read_stream(response: aiohttp.ClientResponse) -> str:
    async with asyncio.timeout(HANG):
        return (await response.content.read()).decode()


async def test_an_event_stream_tells_nothing_after_the_change(house: House) -> None:
    async with house.session.get(f"{house.url}/stream", headers=OLD_AUTH) as response:
        assert await response.content.readuntil(b"\n\n") == b": welcome\n\n"
        house.write_token()
        house.tell_secret()
        rest = await read_stream(response)
    assert rest.startswith("event: error\ndata: ")
    assert msgspec.json.decode(rest.splitlines()[1].removeprefix("data: "))["code"] == "token_replaced"
    assert "secret" not in rest


@pytest.mark.parametrize("change", CHANGES)
async def test_a_silent_event_stream_ends_by_itself(house: House, change: Callable[[House], None]) -> None:
    async with house.session.get(f"{house.url}/stream", headers=OLD_AUTH) as response:
        await response.content.readuntil(b"\n\n")
        change(house)
        assert "token_replaced" in await read_stream(response)


async def refused(response: aiohttp.ClientResponse) -> str:
    body = await response.json()
    assert response.status == 401, body
    return body["error"]["code"]


async def post(house: House) -> str:
    body = {"message_id": "1", "text": "hi"}
    async with house.session.post(f"{house.url}/messages", json=body, headers=OLD_AUTH) as response:
        return (await response.json())["inbound_id"]


@pytest.mark.parametrize("answered", [True, False])
async def test_a_long_poll_ends_and_does_not_tell_the_answer(house: House, answered: bool) -> None:
    inbound_id = await post(house)

    async def poll() -> str:
        path = f"{house.url}/messages/{inbound_id}?wait=60"
        async with house.session.get(path, headers=OLD_AUTH) as response:
            return await refused(response)

    polling = asyncio.create_task(poll())
    await house.gateway.awaited.wait()
    house.write_token()
    if answered:
        await house.gateway.end(inbound_id, answer("a secret"))
    assert await asyncio.wait_for(polling, HANG) == "token_replaced"


async def test_waiting_for_a_stop_ends_too(house: House) -> None:
    inbound_id = await post(house)
    house.gateway.stoppable.append(inbound_id)

    async def stop() -> str:
        path = f"{house.url}/messages/{inbound_id}/stop?wait=60"
        async with house.session.post(path, headers=OLD_AUTH) as response:
            return await refused(response)

    stopping = asyncio.create_task(stop())
    await house.gateway.stopping.wait()
    house.write_token()
    assert await asyncio.wait_for(stopping, HANG) == "token_replaced"


async def test_an_extensions_slow_answer_ends_too(house: House) -> None:
    async def ask() -> str:
        async with house.session.get(f"{house.url}/extensions/slow/wait", headers=OLD_AUTH) as response:
            return await refused(response)

    asking = asyncio.create_task(ask())
    await house.slow.wait()
    house.write_token()
    assert await asyncio.wait_for(asking, HANG) == "token_replaced"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("messages", b'{"message_id": "1", "text": "/approve 1"}'),
        ("approvals/a-1/approve", b'{"scope": "once"}'),
        ("sessions/main%3Ax/import", b'{"v": 1}\n'),
        ("prune", b'{"older_than_days": 365}'),
    ],
)
async def test_a_body_that_ends_after_the_change_has_no_effect(house: House, path: str, body: bytes) -> None:
    async def halves() -> AsyncGenerator[bytes]:
        yield body[:5]
        await begun.wait()
        house.write_token()
        yield body[5:]

    begun = asyncio.Event()
    headers = {**OLD_AUTH, "Content-Type": "application/json"}
    asyncio.get_running_loop().call_later(0.2, begun.set)  # the head was admitted by then; if not, it is refused anyway
    async with house.session.post(f"{house.url}/{path}", data=halves(), headers=headers) as response:
        assert await refused(response) in ("token_replaced", "wrong_token")
    assert not house.gateway.taken
    assert not house.gateway.decisions
    assert not house.gateway.conversations
    assert not house.gateway.pruned
