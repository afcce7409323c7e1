"""Finding the running gateway, and trusting it only after it has proved itself."""

import asyncio
import json
import os
from collections.abc import AsyncGenerator
from pathlib import Path

import msgspec
import pytest
from tests.cli.terminal import reserved_port
from tests.web.gateway import MemoryGateway

from finclaw.cli.client import GatewayClient, announce_gateway, find_gateway, read_address
from finclaw.errors import ChannelError, ConfigError, InboundConflict, StoreFailed
from finclaw.redaction import Secret
from finclaw.web.principal import OWNER, MessageBody, inbound
from finclaw.web.server import serve_web
from finclaw.web.settings import WebServerSettings
from finclaw.web.token import obtain_token
from finclaw.web.view import AcceptedView


@pytest.fixture
def gateway() -> MemoryGateway:
    return MemoryGateway()


@pytest.fixture
async def client(gateway: MemoryGateway, tmp_path: Path) -> AsyncGenerator[GatewayClient]:
    token, _ = obtain_token(tmp_path)
    async with serve_web(gateway, WebServerSettings(port=0), token) as server:
        with announce_gateway(tmp_path, server.url):
            found = await asyncio.to_thread(find_gateway, tmp_path)
            assert found is not None
            yield found


def post(client: GatewayClient, message_id: str, text: str) -> AcceptedView:
    body = msgspec.json.encode(MessageBody(message_id=message_id, text=text))
    return client.call("POST", "/api/v1/messages", AcceptedView, body)


async def test_a_question_through_the_gateway(client: GatewayClient, gateway: MemoryGateway) -> None:
    accepted = await asyncio.to_thread(post, client, "1", "삼성전자?")
    assert accepted.inbound_id == await gateway.next_id()
    assert gateway.taken[0].text == "삼성전자?"
    assert gateway.taken[0].sender.roles == ("owner",)


async def test_the_status_of_the_gateway(client: GatewayClient, gateway: MemoryGateway) -> None:
    assert (await asyncio.to_thread(client.status)).counts == await gateway.counts()


async def test_a_turn_of_the_gateway(client: GatewayClient, gateway: MemoryGateway) -> None:
    assert await asyncio.to_thread(client.turns, 2) == await gateway.turns(2)
    assert await asyncio.to_thread(client.turn, "turn-1") == await gateway.turn("turn-1")
    for name in ("turn-2", "../status", "a/b", "?x", "한글", "\udcff", ""):
        assert await asyncio.to_thread(client.turn, name) is None
    gateway.fails = StoreFailed("full")
    with pytest.raises(ChannelError, match="could not do this"):  # not the same as: there is none
        await asyncio.to_thread(client.turn, "turn-1")


async def test_what_it_refuses_is_said(client: GatewayClient, gateway: MemoryGateway) -> None:
    await gateway.accept(inbound(OWNER, MessageBody(message_id="1", text="other")))
    with pytest.raises(InboundConflict, match="new message_id"):
        await asyncio.to_thread(post, client, "1", "hi")
    gateway.fails = StoreFailed("full")
    with pytest.raises(StoreFailed, match="send it again"):
        await asyncio.to_thread(post, client, "2", "hi")


async def test_a_wrong_token_is_a_matter_of_configuration(client: GatewayClient) -> None:
    wrong = GatewayClient(client.address, Secret("w" * 43))
    with pytest.raises(ConfigError, match="not the token"):
        await asyncio.to_thread(wrong.status)


async def test_a_gateway_that_went_away(tmp_path: Path) -> None:
    token, _ = obtain_token(tmp_path)
    with reserved_port() as port:
        async with serve_web(MemoryGateway(), WebServerSettings(port=port), token) as server:
            with announce_gateway(tmp_path, server.url):
                client = await asyncio.to_thread(find_gateway, tmp_path)
        assert client is not None
        with pytest.raises(ChannelError, match="went away"):
            await asyncio.to_thread(client.status)


async def test_a_stranger_on_the_old_port_never_sees_the_token(tmp_path: Path) -> None:
    heard: list[bytes] = []

    async def stranger(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.read(10_000))
        body = b'{"status":"alive","proof":"' + b"0" * 64 + b'"}'
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        await writer.drain()
        writer.close()

    token, _ = obtain_token(tmp_path)
    server = await asyncio.start_server(stranger, "127.0.0.1", 0)
    async with server:
        with announce_gateway(tmp_path, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"):
            assert await asyncio.to_thread(find_gateway, tmp_path) is None
    assert len(heard) == 1
    assert token.reveal().encode() not in heard[0]
    assert b"Authorization" not in heard[0]


def test_the_signpost_is_there_while_the_gateway_is(tmp_path: Path) -> None:
    with announce_gateway(tmp_path, "http://127.0.0.1:8787"):
        assert json.loads((tmp_path / "gateway.json").read_text()) == {
            "url": "http://127.0.0.1:8787",
            "pid": os.getpid(),
        }
        assert (tmp_path / "gateway.json").stat().st_mode & 0o777 == 0o600
        address = read_address(tmp_path)
        assert address is not None
        assert (address.url, address.pid) == ("http://127.0.0.1:8787", os.getpid())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        '{"url": 1, "pid": 1}',
        '{"url": "http://evil.example:80", "pid": 1}',
        '{"url": "http://10.0.0.1:80", "pid": 1}',
        '{"url": "http://127.evil.example:80", "pid": 1}',
        '{"url": "http://127.0.0.1@evil.example:80", "pid": 1}',
        '{"url": "http://127.0.0.1", "pid": 1}',
        '{"url": "http://127.0.0.1:99999", "pid": 1}',
        '{"url": "ftp://127.0.0.1:80", "pid": 1}',
    ],
)
def test_a_signpost_that_points_elsewhere_is_not_followed(tmp_path: Path, text: str) -> None:
    (tmp_path / "gateway.json").write_text(text)
    assert read_address(tmp_path) is None


def test_a_signpost_without_a_token_leads_nowhere(tmp_path: Path) -> None:
    with announce_gateway(tmp_path, "http://127.0.0.1:1"):
        assert find_gateway(tmp_path) is None
        obtain_token(tmp_path)
        assert find_gateway(tmp_path) is None
