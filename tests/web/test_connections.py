"""Security trial H12b: connections without a token are few and short, and the right token is served beside them."""

import asyncio
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from tests.web.conftest import AUTH, TOKEN, Client
from tests.web.half_open import HANG, ended, half_open

from finclaw.http_connections import FEWEST, MOST, REQUEST_WITHIN, Connections, cap_for_open_files


def port_of(client: Client) -> int:
    return int(client.url.rpartition(":")[2])


def test_the_cap_leaves_files_for_everything_else() -> None:
    assert cap_for_open_files(256) == 80
    assert cap_for_open_files(64) == FEWEST
    assert cap_for_open_files(1_000_000) == MOST


async def test_half_open_connections_push_out_their_own_kind(client: Client) -> None:
    status, _ = await client.call("GET", "/api/v1/status")  # this client's connection is known as trusted from now on
    assert status == 200
    async with half_open(port_of(client), MOST + 50) as readers:
        for reader in readers[:50]:
            await ended(reader)
        for _ in range(20):
            assert (await client.call("GET", "/api/v1/status"))[0] == 200
        async with (
            aiohttp.ClientSession() as session,  # and a new one gets in
            session.get(client.url + "/api/v1/status", headers=AUTH) as response,
        ):
            assert response.status == 200


async def test_half_open_connections_push_out_no_socket_that_has_the_token(client: Client) -> None:
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(client.url + "/api/v1/live", headers=AUTH) as live,
    ):
        await live.send_json({"type": "hello"})
        assert (await live.receive_json())["type"] == "hello"
        async with half_open(port_of(client), MOST + 50):
            await live.send_json({"type": "message", "message": {"message_id": "1", "text": "hi"}})
            assert (await live.receive_json())["type"] == "taken"


async def test_silent_websockets_are_pushed_out_too(client: Client) -> None:
    upgrade = (
        f"GET /api/v1/live HTTP/1.1\r\nHost: 127.0.0.1:{port_of(client)}\r\nConnection: Upgrade\r\n"
        "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    lines: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
    for _ in range(MOST + 10):
        lines.append(await asyncio.open_connection("127.0.0.1", port_of(client)))
        lines[-1][1].write(upgrade.encode())
    for reader, _ in lines[:10]:
        await ended(reader)
    assert (await client.call("GET", "/api/v1/status"))[0] == 200
    for _, writer in lines:
        writer.close()


async def test_a_connection_with_a_wrong_token_is_not_trusted(client: Client) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(client))
    head = f"GET /api/v1/status HTTP/1.1\r\nHost: 127.0.0.1:{port_of(client)}\r\nAuthorization: Bearer"
    for token, status in ((TOKEN, b"200"), ("wrong", b"401")):
        writer.write(f"{head} {token}\r\n\r\n".encode())
        assert status in await asyncio.wait_for(reader.readline(), HANG)
        rest = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), HANG)
        length = next(int(line[16:]) for line in rest.split(b"\r\n") if line.startswith(b"Content-Length: "))
        await reader.readexactly(length)
    async with half_open(port_of(client), MOST + 10):
        await ended(reader)
    writer.close()


# ── time, without waiting for it ────────────────────────────────────────────────────────────────────────────────


class Line(asyncio.Transport):
    """The transport of a connection that nobody reads."""

    def __init__(self, address: str) -> None:
        super().__init__({"peername": (address, 1)})
        self.aborted = False

    def abort(self) -> None:
        self.aborted = True


class Http:
    """Stands where the HTTP protocol stands."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None: ...


class Door:
    def __init__(self, most: int) -> None:
        self.time = 0.0
        self.connections = Connections(lambda: self.time, most)

    def open(self, address: str = "127.0.0.1") -> tuple[Line, Any]:
        from finclaw.http_connections import Connection

        line, http = Line(address), Http()
        Connection(http, self.connections).connection_made(line)  # pyright: ignore[reportArgumentType]
        return line, type("Request", (), {"protocol": http})()


@pytest.fixture
def door() -> Door:
    return Door(most=4)


def test_a_head_that_does_not_come_in_time_ends_the_connection(door: Door) -> None:
    slow, _ = door.open()
    door.time = REQUEST_WITHIN - 1
    fresh, _ = door.open()
    door.connections.close_slow()
    assert not slow.aborted
    door.time = REQUEST_WITHIN
    door.connections.close_slow()
    assert (slow.aborted, fresh.aborted) == (True, False)


async def test_a_request_that_is_being_answered_is_not_slow(door: Door) -> None:
    line, request = door.open()

    async def answer(_: web.Request) -> web.Response:
        door.time = 2 * REQUEST_WITHIN
        door.connections.close_slow()
        assert not line.aborted
        return web.Response()

    await door.connections.count_request(request, answer)
    door.time += REQUEST_WITHIN - 1
    door.connections.close_slow()
    assert not line.aborted, "its time begins again with each answer"
    door.time += 1
    door.connections.close_slow()
    assert line.aborted


def test_with_the_token_there_is_no_hurry(door: Door) -> None:
    line, request = door.open()
    door.connections.trust(request, trusted=True)
    door.time = 1_000.0
    door.connections.close_slow()
    assert not line.aborted
    door.connections.trust(request, trusted=False)
    door.time = 2_000.0
    door.connections.close_slow()
    assert line.aborted, "a token that was replaced is none"


def test_one_address_does_not_push_out_another(door: Door) -> None:
    other, _ = door.open("127.0.0.2")
    greedy = [door.open("127.0.0.1")[0] for _ in range(10)]
    assert not other.aborted
    assert [each.aborted for each in greedy] == [True] * 7 + [False] * 3
