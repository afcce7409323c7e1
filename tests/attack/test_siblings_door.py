"""Other ways to the same end as the security trial's H4 and H12: the door of the gateway.

H4 a token that was replaced is of no use any more, H12 who has no token keeps nobody out who has one.
"""

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest
from tests.web.gateway import MemoryGateway, answer

from finclaw.kernel.event import MessageAccepted, MessageEnded
from finclaw.web.server import serve_web
from finclaw.web.settings import WebServerSettings
from finclaw.web.token import TokenOnDisk, obtain_token

NEW: Final = "n" * 43
HANG: Final = 30.0


@dataclass
class Door:
    http: aiohttp.ClientSession
    url: str
    gateway: MemoryGateway
    state: Path
    old: str

    @property
    def auth(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.old}"}

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1])

    def rotate(self, token: str = NEW) -> None:
        """As an operator does it: a new file in the place of the old one."""
        fresh = self.state / "token.new"
        fresh.touch(mode=0o600)
        fresh.write_text(token + "\n")
        os.replace(fresh, self.state / "token")

    async def status(self, token: str, path: str = "/api/v1/status") -> int:
        async with self.http.get(self.url + path, headers={"Authorization": f"Bearer {token}"}) as response:
            return response.status

    async def taken(self) -> str:
        """A message that is under way; its id."""
        body = {"message_id": "m-1", "text": "hello"}
        async with self.http.post(self.url + "/api/v1/messages", json=body, headers=self.auth) as response:
            assert response.status == 202
            return (await response.json())["inbound_id"]


@asynccontextmanager
async def opened(state: Path, connections: int = 100) -> AsyncGenerator[Door]:
    token, _ = obtain_token(state)
    gateway = MemoryGateway()
    limit = aiohttp.TCPConnector(limit=connections)
    async with (
        serve_web(gateway, WebServerSettings(port=0), TokenOnDisk(state)) as server,
        aiohttp.ClientSession(connector=limit) as http,
    ):
        yield Door(http, server.url, gateway, state, token.reveal())


def tell(gateway: MemoryGateway, number: int = 2) -> None:
    told = f"m-{number}"
    gateway.events.emit(
        MessageAccepted(inbound_id=told, ticket=number, channel="web", account="owner", conversation="main")
    )
    gateway.events.emit(MessageEnded(inbound_id=told, turn_id="t-1", outcome="answered", reply="SECRET-REPLY"))


async def test_h4_a_request_that_waits_is_told_nothing_after_the_token_was_replaced(tmp_path: Path) -> None:
    async with opened(tmp_path) as door:
        inbound_id = await door.taken()
        path = f"{door.url}/api/v1/messages/{inbound_id}?wait=20"
        waiting = asyncio.ensure_future(door.http.get(path, headers=door.auth))
        await asyncio.wait_for(door.gateway.awaited.wait(), HANG)
        door.rotate()
        await door.gateway.end(inbound_id, answer("SECRET-REPLY"))
        async with await asyncio.wait_for(waiting, HANG) as response:
            text = await response.text()
        assert "SECRET-REPLY" not in text
        assert response.status == 401


@pytest.mark.parametrize("token_in", ["the header", "the hello"])
@pytest.mark.parametrize("frames", [1, 50])
async def test_h4_no_frame_counts_right_after_the_token_was_replaced(
    tmp_path: Path, token_in: str, frames: int
) -> None:
    async with opened(tmp_path) as door:
        headers = door.auth if token_in == "the header" else {}
        async with door.http.ws_connect(door.url + "/api/v1/live", headers=headers) as socket:
            await socket.send_json({"type": "hello", "token": door.old})
            await socket.send_json({"type": "message", "message": {"message_id": "a", "text": "before"}})
            async with asyncio.timeout(HANG):
                while "taken" not in str((await socket.receive()).data):
                    pass
            door.rotate()
            for number in range(frames):
                with suppress(ConnectionError):
                    message = {"message_id": f"b{number}", "text": "/approve it"}
                    await socket.send_json({"type": "message", "message": message})
            tell(door.gateway)
            seen = list[str]()
            async with asyncio.timeout(HANG):
                async for frame in socket:
                    seen.append(str(frame.data))
            assert socket.close_code == 4401
            assert not any("SECRET-REPLY" in each for each in seen)
        assert [inbound.text for inbound in door.gateway.taken] == ["before"]


async def test_h4_a_socket_that_was_opened_before_and_says_hello_after(tmp_path: Path) -> None:
    async with opened(tmp_path) as door, door.http.ws_connect(door.url + "/api/v1/live") as socket:
        door.rotate()
        await socket.send_json({"type": "hello", "token": door.old})
        await socket.send_json({"type": "message", "message": {"message_id": "a", "text": "after"}})
        async with asyncio.timeout(HANG):
            async for _ in socket:
                pass
        assert socket.close_code == 4401
        assert door.gateway.taken == []


async def test_h4_a_socket_says_hello_again_with_the_old_token(tmp_path: Path) -> None:
    """Once with the right one, and later with the one that was replaced: also the other way round."""
    async with opened(tmp_path) as door, door.http.ws_connect(door.url + "/api/v1/live", headers=door.auth) as socket:
        await socket.send_json({"type": "hello"})
        door.rotate()
        for token in (NEW, door.old, ""):
            with suppress(ConnectionError):
                await socket.send_json({"type": "hello", "token": token})
                await socket.send_json({"type": "message", "message": {"message_id": token[:3] + "x", "text": "x"}})
        async with asyncio.timeout(HANG):
            async for _ in socket:
                pass
        assert door.gateway.taken == []


@pytest.mark.parametrize("last", ["", "with its place"])
async def test_h4_a_stream_reads_no_further_and_does_not_come_back(tmp_path: Path, last: str) -> None:
    async with opened(tmp_path) as door:
        path = door.url + "/api/v1/stream"
        async with door.http.get(path, headers=door.auth) as response:
            assert response.status == 200
            tell(door.gateway, 1)
            first = b""
            async with asyncio.timeout(HANG):
                while b"SECRET-REPLY" not in first:
                    first += await response.content.readany()
            door.rotate()
            tell(door.gateway, 2)
            async with asyncio.timeout(HANG):
                rest = await response.content.read()
            assert b"SECRET-REPLY" not in rest
        place = first.split(b"id: ")[1].split(b"\n")[0].decode()
        headers = {**door.auth, **({"Last-Event-ID": place} if last else {})}
        query = f"?after={place}" if not last else ""
        async with door.http.get(path + query, headers=headers) as response:
            assert response.status == 401


async def test_h4_a_body_that_ends_after_the_token_was_replaced(tmp_path: Path) -> None:
    """The head was right when it was read; what is asked for comes afterwards."""
    async with opened(tmp_path) as door:
        body = json.dumps({"message_id": "m", "text": "order"}).encode()
        head = (
            f"POST /api/v1/messages HTTP/1.1\r\nHost: 127.0.0.1:{door.port}\r\nAuthorization: Bearer {door.old}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
        writer.write(head.encode() + body[:5])
        await writer.drain()
        await asyncio.sleep(0.3)  # the head is read by then, or the attack is only weaker
        door.rotate()
        writer.write(body[5:])
        with suppress(ConnectionError):
            answered = await asyncio.wait_for(reader.read(400), HANG)
            assert b" 202 " not in answered.split(b"\r\n")[0]
        writer.close()
        assert door.gateway.taken == []


async def test_h4_one_connection_kept_alive(tmp_path: Path) -> None:
    async with opened(tmp_path, connections=1) as door:
        assert await door.status(door.old) == 200
        door.rotate()
        assert await door.status(door.old) == 401
        assert await door.status(NEW) == 200


def _emptied(path: Path) -> None:
    path.write_text("")


def _gone(path: Path) -> None:
    path.unlink()


def _in_place(path: Path) -> None:
    path.write_text(NEW + "\n")


def _same_time(path: Path) -> None:
    """Written over with the same length and the time it had before."""
    before = path.stat()
    path.write_text(NEW + "\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _short(path: Path) -> None:
    path.write_text("x\n")


def _link(path: Path) -> None:
    other = path.with_name("elsewhere")
    other.touch(mode=0o600)
    other.write_text(NEW + "\n")
    path.unlink()
    path.symlink_to(other)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


BY_HAND: Final[dict[str, Callable[[Path], None]]] = {
    "in place": _in_place,
    "in place, at the same time": _same_time,
    "emptied": _emptied,
    "gone": _gone,
    "too short": _short,
    "a link": _link,
    "a folder": _folder,
}


@pytest.mark.parametrize("name", BY_HAND)
async def test_h4_whatever_is_done_to_the_file_by_hand(tmp_path: Path, name: str) -> None:
    """The old token is of no use any more, and nothing that is no token is one."""
    async with opened(tmp_path) as door:
        assert await door.status(door.old) == 200
        BY_HAND[name](tmp_path / "token")
        assert await door.status(door.old) != 200
        for nonsense in ("", "x", " ", "None", "null"):
            assert await door.status(nonsense) != 200
        if name.startswith("in place"):
            assert await door.status(NEW) == 200


# ── H12 ─────────────────────────────────────────────────────────────────────────────────────────────────────────


UNFINISHED: Final = {
    "nothing": b"",
    "half a head": b"GET /api/v1/status HTTP/1.1\r\nHost: x\r\nX-A: ",
    "half a body": b"POST /api/v1/messages HTTP/1.1\r\nHost: HOST\r\nContent-Length: 900\r\n\r\n{",
    "half a chunk": b"POST /api/v1/messages HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
    "an expectation": b"POST /api/v1/messages HTTP/1.1\r\nHost: HOST\r\nContent-Length: 9\r\n"
    b"Expect: 100-continue\r\n\r\n",
    "an open path with a body": b"GET /healthz HTTP/1.1\r\nHost: HOST\r\nContent-Length: 900\r\n\r\n{",
    "half a handshake": b"GET /api/v1/live HTTP/1.1\r\nHost: HOST\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
}


@pytest.mark.parametrize("name", UNFINISHED)
async def test_h12_unfinished_requests_of_any_shape_keep_nobody_out(tmp_path: Path, name: str) -> None:
    async with opened(tmp_path) as door, AsyncExitStack() as stack:
        start = UNFINISHED[name].replace(b"HOST", f"127.0.0.1:{door.port}".encode())
        for _ in range(300):
            _, writer = await asyncio.open_connection("127.0.0.1", door.port)
            stack.callback(writer.close)
            writer.write(start)
        async with asyncio.timeout(HANG):
            for _ in range(5):
                assert await door.status(door.old) == 200


async def test_h12_wrong_tokens_from_many_connections_lock_nobody_out(tmp_path: Path) -> None:
    async with opened(tmp_path, connections=60) as door:
        wrong = [door.status(f"{number:043}") for number in range(150)]
        right = [door.status(door.old) for _ in range(10)]
        answers = await asyncio.wait_for(asyncio.gather(*wrong, *right), HANG)
        assert answers[150:] == [200] * 10
        assert 200 not in answers[:150]


async def test_h12_wrong_hellos_of_many_sockets_lock_nobody_out(tmp_path: Path) -> None:
    async with opened(tmp_path, connections=60) as door:

        async def hello(number: int) -> int | None:
            async with door.http.ws_connect(door.url + "/api/v1/live") as socket:
                await socket.send_json({"type": "hello", "token": f"{number:043}"})
                async for _ in socket:
                    pass
                return socket.close_code

        async def quiet(number: int) -> Any:
            with suppress(aiohttp.WSServerHandshakeError):
                return await hello(number)

        await asyncio.wait_for(asyncio.gather(*map(quiet, range(60))), HANG)
        assert await door.status(door.old) == 200
