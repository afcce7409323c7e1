"""Certificates: whose line it is must be proven, and a secure line that is cut is no end of an answer."""

import asyncio
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.providers.anthropic_streams import HELLO as STREAM
from tests.providers.model_server import ASKED
from tests.providers.raw_server import End, Script, pool_to, raw, request_of, says
from tests.providers.tls_server import OURS, certified

from finclaw.errors import StreamCut, Unreachable
from finclaw.providers.anthropic.provider import AnthropicProvider
from finclaw.providers.http.pool import default_tls_context
from finclaw.redaction import Secret


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("certificates")


HELLO = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"
NO_LENGTH = b"HTTP/1.1 200 OK\r\n\r\nhello"


@pytest.fixture
def trusting(monkeypatch: pytest.MonkeyPatch) -> Generator[pytest.MonkeyPatch]:
    """What is trusted is read once, and for this test anew."""
    default_tls_context.cache_clear()
    yield monkeypatch
    default_tls_context.cache_clear()


async def heard(port: int) -> bytes:
    async with pool_to(f"https://127.0.0.1:{port}/") as line:
        reply = await line.post(lambda: b"{}", first_byte=5, idle=5)
        body = b""
        try:
            while data := await reply.read():
                body += data
        finally:
            reply.release()
        return body


@pytest.mark.parametrize(("answer", "end"), [(HELLO, "keep"), (HELLO, "fin"), (NO_LENGTH, "fin")])
async def test_a_certificate_that_is_trusted(
    place: Path, trusting: pytest.MonkeyPatch, answer: bytes, end: End
) -> None:
    context, certificate = certified(place, OURS)
    trusting.setenv("SSL_CERT_FILE", str(certificate))
    async with raw(says(answer, end=end), secure=context) as server:
        assert await heard(server.port) == b"hello"


async def test_a_secure_connection_is_used_again(place: Path, trusting: pytest.MonkeyPatch) -> None:
    context, certificate = certified(place, OURS)
    trusting.setenv("SSL_CERT_FILE", str(certificate))
    async with raw(says(HELLO), secure=context) as server, pool_to(f"https://127.0.0.1:{server.port}/") as line:
        for _ in range(3):
            reply = await line.post(lambda: b"{}", first_byte=5, idle=5)
            assert await reply.read() == b"hello"
            reply.release()
        assert server.connections == 1


def cut_behind(answer: bytes) -> Script:
    """Without the goodbye of a secure line, which only the server itself can say."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request_of(reader)
        writer.write(answer)
        await writer.drain()
        writer.transport.abort()

    return script


@pytest.mark.parametrize("framing", [b"content-length: 50\r\n\r\n", b"transfer-encoding: chunked\r\n\r\n5\r\n"])
async def test_a_secure_line_that_is_cut(place: Path, trusting: pytest.MonkeyPatch, framing: bytes) -> None:
    context, certificate = certified(place, OURS)
    trusting.setenv("SSL_CERT_FILE", str(certificate))
    async with raw(cut_behind(b"HTTP/1.1 200 OK\r\n" + framing + b"hello"), secure=context) as server:
        with pytest.raises(StreamCut):
            await heard(server.port)


async def test_an_answer_of_no_length_that_is_cut_is_found_out_by_its_events(
    place: Path, trusting: pytest.MonkeyPatch
) -> None:
    """asyncio does not tell a goodbye from its absence. A stream has a last event of its own."""
    context, certificate = certified(place, OURS)
    trusting.setenv("SSL_CERT_FILE", str(certificate))
    async with raw(cut_behind(b"HTTP/1.1 200 OK\r\n\r\n" + b"".join(STREAM[:-1])), secure=context) as server:
        provider = AnthropicProvider(f"https://127.0.0.1:{server.port}", Secret("key-1"))
        with pytest.raises(StreamCut):
            assert [chunk async for chunk in provider.stream(ASKED)] == []
        await provider.close()


async def test_a_certificate_for_another_name(place: Path, trusting: pytest.MonkeyPatch) -> None:
    context, certificate = certified(place, "DNS:other.example")
    trusting.setenv("SSL_CERT_FILE", str(certificate))
    async with raw(says(HELLO), secure=context) as server:
        with pytest.raises(Unreachable, match=r"certificate is not valid for '127\.0\.0\.1'"):
            await heard(server.port)


async def test_a_certificate_of_ones_own(place: Path, trusting: pytest.MonkeyPatch) -> None:
    async with raw(says(HELLO), secure=certified(place, OURS)[0]) as server:
        with pytest.raises(Unreachable, match="self-signed certificate"):
            await heard(server.port)


async def test_a_server_that_speaks_plainly() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Plain\r\n\r\n")
        await reader.read()

    async with raw(script) as server:
        with pytest.raises(Unreachable, match="does not speak https"):
            await heard(server.port)


async def test_a_server_that_hangs_up_at_the_handshake() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)

    async with raw(script) as server:
        with pytest.raises(Unreachable):
            await heard(server.port)
