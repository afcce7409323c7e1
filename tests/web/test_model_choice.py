"""`model` in `POST /messages`: the owner picks who answers one message, and the answer says who did."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.web.conftest import AUTH, TOKEN

import finclaw
from finclaw.agent.settings import AgentSettings
from finclaw.approvals.people import TOKEN_HOLDER, PersonSettings
from finclaw.channels.mailbox import MailboxChannel
from finclaw.errors import AuthFailed
from finclaw.providers.settings import ModelSettings
from finclaw.redaction import Secret
from finclaw.testing import ScriptedProvider, fails
from finclaw.testing.provider import Line
from finclaw.web.principal import CHANNEL
from finclaw.web.server import serve_web
from finclaw.web.settings import WebServerSettings

USUAL = "house/usual"


class Client:
    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self.session = session
        self.url = f"{url}/api/v1/messages"

    async def post(self, **body: object) -> tuple[int, Any]:
        async with self.session.post(self.url, json=body, headers=AUTH) as response:
            return response.status, await response.json()

    async def ask(self, **body: object) -> dict[str, Any]:
        status, taken = await self.post(**body)
        assert status == 202, taken
        async with self.session.get(f"{self.url}/{taken['inbound_id']}?wait=60", headers=AUTH) as response:
            return await response.json()


@asynccontextmanager
async def opened(
    state: Path, *script: Line, people: tuple[PersonSettings, ...] = (), impersonate: bool = False
) -> AsyncGenerator[Client]:
    settings = finclaw.Settings(
        state=state,
        agent=AgentSettings(model=USUAL, fallbacks=("offline/demo",)),
        models={USUAL: ModelSettings(window=50_000)},
        aliases={"pretend": "offline/demo"},
        people=people,
        web=WebServerSettings(port=0, impersonate=impersonate),
    )
    async with (
        finclaw.build(settings, channels=[MailboxChannel(CHANNEL)], provider=ScriptedProvider(*script)) as app,
        serve_web(app, settings.web, Secret(TOKEN)) as server,
        aiohttp.ClientSession() as session,
    ):
        yield Client(session, server.url)


async def test_the_picked_model_answers_and_is_named(tmp_path: Path) -> None:
    async with opened(tmp_path, "as usual") as client:
        usual = await client.ask(message_id="1", text="hello")
        assert (usual["reply"], usual["model"]) == ("as usual", USUAL)
        picked = await client.ask(message_id="2", text="What is AAPL trading at?", model="pretend")
        assert (picked["outcome"], picked["model"]) == ("answered", "offline/demo")
        assert "AAPL" in picked["reply"]


async def test_a_fallback_that_answered_is_named(tmp_path: Path) -> None:
    async with opened(tmp_path, fails(AuthFailed("no"))) as client:
        answer = await client.ask(message_id="1", text="What is AAPL trading at?")
        assert (answer["outcome"], answer["model"]) == ("answered", "offline/demo")


async def test_what_no_model_answered_names_none(tmp_path: Path) -> None:
    async with opened(tmp_path) as client:
        answer = await client.ask(message_id="1", text="/help", model="pretend")
        assert (answer["outcome"], answer["model"]) == ("command", "")


@pytest.mark.parametrize("model", ["nobody/knows", "pretent", "/", "offline", "x" * 200])
async def test_an_unknown_model_is_refused_with_the_known_names(tmp_path: Path, model: str) -> None:
    async with opened(tmp_path) as client:
        status, body = await client.post(message_id="1", text="hello", model=model)
        assert (status, body["error"]["code"]) == (400, "unknown_model")
        assert all(name in body["error"]["message"] for name in (USUAL, "offline/demo", "pretend"))
        assert (await client.ask(message_id="1", text="/help"))["outcome"] == "command", "nothing was accepted before"


async def test_only_the_owner_chooses(tmp_path: Path) -> None:
    async with opened(tmp_path) as client:
        status, body = await client.post(message_id="1", text="hello", sender="alice", model="pretend")
        assert (status, body["error"]["code"]) == (403, "not_owner")


async def test_a_token_that_is_not_the_owners_by_the_settings_chooses_nothing(tmp_path: Path) -> None:
    visitor = PersonSettings(name="Visitor", known_as=(TOKEN_HOLDER,), roles=("visitor",))
    async with opened(tmp_path, people=(visitor,)) as client:
        assert (await client.post(message_id="1", text="hello", model="pretend"))[0] == 403
        assert (await client.post(message_id="2", text="hello", model="nobody/knows"))[0] == 403


async def test_a_label_with_the_owners_roles_chooses(tmp_path: Path) -> None:
    async with opened(tmp_path, impersonate=True) as client:
        answer = await client.ask(message_id="1", text="AAPL price?", sender="alice", model="offline/demo")
        assert answer["model"] == "offline/demo"


async def test_the_same_id_with_another_model_is_another_message(tmp_path: Path) -> None:
    async with opened(tmp_path, "one") as client:
        first = await client.post(message_id="1", text="/help", model="pretend")
        again = await client.post(message_id="1", text="/help", model="pretend")
        assert again == (202, {"inbound_id": first[1]["inbound_id"], "duplicate": True})
        assert (await client.post(message_id="1", text="/help"))[0] == 409
        assert (await client.post(message_id="1", text="/help", model="offline/demo"))[0] == 409


async def test_a_chosen_model_leaves_the_message_a_persons_own(tmp_path: Path) -> None:
    """Not one of the gateway's own: it is not told as unasked."""
    async with opened(tmp_path, "hi") as client:
        async with client.session.get(f"{client.url}?conversation=main", headers=AUTH) as response:
            before = (await response.json())["after"]
        await client.ask(message_id="1", text="AAPL price?", model="pretend")
        async with client.session.get(f"{client.url}?conversation=main&after={before}", headers=AUTH) as response:
            assert (await response.json())["items"] == []
