"""A gateway that stops: clients of the live stream can tell a restart from an end."""

import asyncio

import aiohttp
import pytest
from aiohttp import WSCloseCode, WSMsgType
from tests.web.conftest import AUTH, TOKEN
from tests.web.gateway import MemoryGateway

from finclaw.redaction import Secret
from finclaw.web.server import serve_web
from finclaw.web.settings import WebServerSettings


@pytest.mark.parametrize("says_hello", [True, False], ids=["greeted", "not greeted yet"])
async def test_sockets_are_closed_as_going_away(says_hello: bool) -> None:
    async with aiohttp.ClientSession() as session:
        async with serve_web(MemoryGateway(), WebServerSettings(port=0), Secret(TOKEN)) as server:
            socket = await session.ws_connect(server.url + "/api/v1/live")
            if says_hello:
                await socket.send_json({"type": "hello", "token": TOKEN})
                assert (await socket.receive_json())["type"] == "hello"
            closing = asyncio.create_task(socket.receive())
        assert (await closing).type is WSMsgType.CLOSE
        assert socket.close_code == WSCloseCode.GOING_AWAY == 1001


async def test_event_streams_end_with_a_retry_hint() -> None:
    async with aiohttp.ClientSession(headers=AUTH) as session:
        async with serve_web(MemoryGateway(), WebServerSettings(port=0), Secret(TOKEN)) as server:
            response = await session.get(server.url + "/api/v1/stream")
            assert await response.content.readline() == b": welcome\n"
        rest = (await response.content.read()).decode()
    assert rest.endswith('retry: 2000\nevent: shutdown\ndata: {"retry_ms":2000}\n\n')
