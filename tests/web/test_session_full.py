"""Near miss of the security trial: a flood of messages to one conversation is slowed down at the door."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from tests.web.conftest import AUTH, TOKEN

import finclaw
from finclaw.channels.mailbox import MailboxChannel
from finclaw.pipeline.settings import PipelineSettings
from finclaw.redaction import Secret
from finclaw.testing import ScriptedProvider, hold, reply, say
from finclaw.web.principal import CHANNEL
from finclaw.web.server import serve_web
from finclaw.web.settings import WebServerSettings

MOST = 3


class Client:
    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self.session = session
        self.url = f"{url}/api/v1"

    async def post(self, message_id: str, conversation: str = "main") -> tuple[int, dict[str, Any], str | None]:
        body = {"message_id": message_id, "text": "hi", "conversation": conversation}
        async with self.session.post(f"{self.url}/messages", json=body, headers=AUTH) as response:
            return response.status, await response.json(), response.headers.get("Retry-After")


@asynccontextmanager
async def gateway(state: Path, provider: ScriptedProvider) -> AsyncGenerator[Client]:
    settings = finclaw.Settings(state=state, pipeline=PipelineSettings(max_waiting=MOST), web=WebServerSettings(port=0))
    async with (
        finclaw.build(settings, channels=[MailboxChannel(CHANNEL)], provider=provider) as app,
        serve_web(app, settings.web, Secret(TOKEN)) as server,
        aiohttp.ClientSession() as session,
        asyncio.timeout(120),
    ):
        yield Client(session, server.url)


async def test_one_conversation_has_room_for_so_many_and_others_are_not_held_up(tmp_path: Path) -> None:
    answered = asyncio.Event()
    provider = ScriptedProvider(reply(hold(answered), say("one")), *["more"] * 10)
    async with gateway(tmp_path, provider) as client:
        taken = [await client.post(str(number)) for number in range(MOST)]
        assert [status for status, *_ in taken] == [202] * MOST
        status, body, later = await client.post("one too many")
        assert (status, body["error"]["code"], later) == (429, "session_full", "5")
        assert (await client.post("1", conversation="another"))[0] == 202

        async with client.session.ws_connect(f"{client.url}/live", headers=AUTH) as socket:
            await socket.send_json({"type": "hello"})
            await socket.send_json({"type": "message", "message": {"message_id": "x", "text": "hi"}})
            frames = [await socket.receive_json(), await socket.receive_json()]
            assert (frames[1]["type"], frames[1]["code"]) == ("error", "session_full")

        answered.set()
        last = f"{client.url}/messages/{taken[-1][1]['inbound_id']}?wait=60"
        async with client.session.get(last, headers=AUTH) as response:
            assert (await response.json())["outcome"] == "answered"
        assert (await client.post("one too many"))[0] == 202, "it was not accepted, so it may be sent again"
