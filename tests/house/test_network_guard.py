"""The guard in tests/conftest.py guards: a test that passes only with a network must fail here."""

import asyncio
import socket
import tempfile
from pathlib import Path

import pytest

REFUSED = "a test reached for the network"
# Reserved for documentation: nobody answers there, should the guard ever leak.
OUTSIDE = "192.0.2.1"


def test_connecting_outside_is_refused() -> None:
    with socket.socket() as sock, pytest.raises(RuntimeError, match=REFUSED):
        sock.connect((OUTSIDE, 80))


def test_connecting_outside_is_refused_over_ipv6() -> None:
    with socket.socket(socket.AF_INET6) as sock, pytest.raises(RuntimeError, match=REFUSED):
        sock.connect(("2001:db8::1", 80))


def test_sending_a_datagram_outside_is_refused() -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as sock, pytest.raises(RuntimeError, match=REFUSED):
        sock.sendto(b"x", (OUTSIDE, 9))


async def test_looking_up_a_name_is_refused() -> None:
    with pytest.raises(RuntimeError, match=REFUSED):
        await asyncio.get_running_loop().getaddrinfo("example.invalid", 80)


async def test_this_machine_is_reachable() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readline())
        writer.close()

    async with await asyncio.start_server(echo, "localhost", 0) as server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
        writer.write(b"hello\n")
        assert await reader.readline() == b"hello\n"
        writer.close()
        await writer.wait_closed()


def test_a_unix_socket_is_reachable() -> None:
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as server:
        path = str(Path(folder) / "s")
        server.bind(path)
        server.listen()
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
