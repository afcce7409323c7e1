"""Where a line leads, what it sends there, and the words for whoever wrote the address."""

import asyncio
import socket
from contextlib import ExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.providers.raw_server import pool_to, raw, request_of

from finclaw.errors import AuthFailed, BadRequest, Unreachable
from finclaw.providers.http.address import endpoint_url, parse_address
from finclaw.providers.http.pool import HttpPool
from finclaw.testing import FakeClock

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"


async def request_to(url: str, headers: dict[str, str] | None = None, host: str = "127.0.0.1") -> str:
    """The head that arrives at a server when this address, with its port for PORT, is asked."""
    heads: list[str] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append((await request_of(reader))[0].decode())
        writer.write(OK)
        await reader.read()

    async with raw(script, host=host) as server, pool_to(url.replace("PORT", str(server.port)), headers) as line:
        reply = await line.post(lambda: b"{}", first_byte=5, idle=5)
        assert await reply.read() == b"{}"
        reply.release()
    return heads[0].replace(str(server.port), "PORT")


async def test_a_whole_request() -> None:
    assert await request_to("http://127.0.0.1:PORT/v1/x?a=b#c", {"X-Api-Key": "k"}) == (
        "POST /v1/x?a=b HTTP/1.1\r\nhost: 127.0.0.1:PORT\r\naccept: text/event-stream\r\naccept-encoding: identity\r\n"
        "content-type: application/json\r\nuser-agent: finclaw\r\nx-api-key: k\r\ncontent-length: 2\r\n\r\n"
    )


async def test_an_address_of_the_newer_kind() -> None:
    assert "\r\nhost: [::1]:PORT\r\n" in await request_to("http://[::1]:PORT/", host="::1")


async def test_a_name_of_this_machine() -> None:
    assert "\r\nhost: localhost:PORT\r\n" in await request_to("http://LOCALHOST:PORT")


async def test_who_stands_in_the_address_logs_in_unless_a_key_is_given() -> None:
    assert "\r\nauthorization: Basic dTpwOi8=\r\n" in await request_to("http://u:p%3A%2F@127.0.0.1:PORT/")
    told = await request_to("http://u:p@127.0.0.1:PORT/", {"Authorization": "Bearer k"})
    assert told.count("authorization") == 1
    assert "\r\nauthorization: Bearer k\r\n" in told


def test_a_name_of_other_letters_is_sent_as_names_are() -> None:
    assert parse_address("https://bücher.example/", "api").authority == "xn--bcher-kva.example"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:8000/v1",
        "//host/v1",
        "ftp://host/",
        "http://",
        "http://:80/",
        "http://host:99999/",
        "http://host:port/",
        "http://[::1/",
        "http://user:s3cret@ho st/",
        "http://host/a b",
        "http://host/한글",
        "http://" + "a" * 64 + ".example/",
    ],
)
def test_what_is_no_address_is_told_without_showing_it(url: str) -> None:
    with pytest.raises(BadRequest, match="base_url") as told:
        parse_address(url, "api")
    assert "s3cret" not in str(told.value)


@given(st.text())
def test_anything_is_an_address_or_is_told(url: str) -> None:
    for text in (url, "http://" + url, "https://host/" + url):
        try:
            address = parse_address(text, "api")
        except BadRequest:
            continue
        sent = f"POST {address.path} HTTP/1.1\r\nhost: {address.authority}"
        assert (len(sent.split()), sent.count("\n")) == (5, 1)


@pytest.mark.parametrize("key", ["s3cret\r\nx-evil: 1", "s3cret\n", "s3cret\x00", "s3cret한"])
def test_a_key_cannot_bring_headers_along(key: str) -> None:
    with pytest.raises(AuthFailed, match="line break") as told:
        HttpPool("http://127.0.0.1/", {"x-api-key": key}, name="api", kinds={}, clock=FakeClock())
    assert "s3cret" not in repr(told.value)
    assert told.value.__context__ is None


@pytest.mark.parametrize(
    ("base_url", "asked"),
    [
        ("http://h/v1", "http://h/v1/chat/completions"),
        ("http://h/v1/", "http://h/v1/chat/completions"),
        ("http://h/v1/chat/completions", "http://h/v1/chat/completions"),
        ("http://h", "http://h/chat/completions"),
        ("http://h/chat", "http://h/chat/chat/completions"),
    ],
)
def test_the_whole_address_may_stand_in_base_url(base_url: str, asked: str) -> None:
    assert endpoint_url(base_url, "/chat/completions") == asked


@pytest.mark.parametrize("base_url", ["http://h", "http://h/", "http://h/v1", "http://h/v1/", "http://h/v1/messages"])
def test_so_may_the_version(base_url: str) -> None:
    assert endpoint_url(base_url, "/messages", version="/v1") == "http://h/v1/messages"
    assert endpoint_url("http://h/apiv1", "/messages", version="/v1") == "http://h/apiv1/v1/messages"


async def test_a_port_where_nobody_listens() -> None:
    with socket.socket() as taken:  # and not listened to: nobody else gets the port meanwhile
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        async with pool_to(f"http://127.0.0.1:{port}/") as line:
            with pytest.raises(Unreachable, match=rf"at 127.0.0.1:{port}: nobody listens there"):
                await line.post(lambda: b"{}", first_byte=30, idle=30)


def test_a_connection_that_nobody_takes() -> None:
    """The queue of a server that accepts nobody is full: the system then keeps silent."""
    clock = FakeClock()

    async def main(port: int) -> float:
        begun = clock.monotonic()
        async with pool_to(f"http://127.0.0.1:{port}/", clock=clock) as line:
            with pytest.raises(Unreachable, match="no connection within 10 s"):
                await line.post(lambda: b"{}", first_byte=120, idle=60)
        return clock.monotonic() - begun

    with ExitStack() as open_sockets:
        server = open_sockets.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            waiting = open_sockets.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(server.getsockname())
        assert clock.run(main(server.getsockname()[1])) == pytest.approx(10, abs=0.5)
