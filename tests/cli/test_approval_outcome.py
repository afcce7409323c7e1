"""User trial B8: what came of an approval is shown where it was given, and not only that it was."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.cli.chat_terminal import ENTER, chatting, reachable
from tests.cli.terminal import Ended, finclaw
from tests.cli.trading_chat import ORDER, kim_wants_to_buy, trading

from finclaw.app import App
from finclaw.kernel.approval import Approval
from finclaw.testing.provider import ScriptedProvider
from finclaw.transcript.approval_ids import short_id
from finclaw.web.principal import OWNER, MessageBody, inbound


async def typed(*args: str | Path) -> Ended:
    return await asyncio.to_thread(lambda: finclaw(*args))


@asynccontextmanager
async def house(state: Path) -> AsyncGenerator[App]:
    async with trading(state, ScriptedProvider(ORDER, "It was bought.")) as app, reachable(state, app):
        yield app


async def owner_wants_to_buy(app: App) -> Approval:
    await app.accept(inbound(OWNER, MessageBody(message_id="1", text="buy", conversation="main")))
    await app.idle()
    return (await app.approvals())[0]


DONE = 'Done as approved: broker__order: symbol = "AAPL"'


async def test_ask_shows_what_came_of_a_yes(tmp_path: Path) -> None:
    async with house(tmp_path) as app:
        approval = await owner_wants_to_buy(app)
        said = await typed("ask", f"/approve {short_id(approval.id)}", "--state", tmp_path)
        assert said.code == 0
        assert "Approved (" in said.out
        assert '• symbol = "AAPL"' in said.out
        assert said.out.index("Approved (") < said.out.index(DONE) < said.out.index("It was bought.")


async def test_ask_shows_what_came_of_a_yes_to_somebody_elses_request(tmp_path: Path) -> None:
    async with house(tmp_path) as app:
        approval = await kim_wants_to_buy(app)
        said = await typed("ask", f"/approve {short_id(approval.id)}", "--state", tmp_path)
        assert DONE in said.out
        assert "It was bought." not in said.out, "that was said to kim"


async def test_the_command_line_shows_what_came_of_a_yes(tmp_path: Path) -> None:
    async with house(tmp_path) as app:
        approval = await kim_wants_to_buy(app)
        listed = await typed("approvals", "--state", tmp_path)
        assert f'{short_id(approval.id)}  pending  broker__order: symbol = "AAPL"  for web:kim:kim' in listed.out
        said = await typed("approvals", "approve", short_id(approval.id), "--state", tmp_path)
        assert said.out.splitlines()[0] == f"{short_id(approval.id)}: used"
        assert said.out.endswith(f"{DONE}\n\nIt was bought.\n")


async def test_the_command_line_shows_what_came_of_a_yes_as_json(tmp_path: Path) -> None:
    async with house(tmp_path) as app:
        approval = await kim_wants_to_buy(app)
        (listed,) = json.loads((await typed("approvals", "--json", "--state", tmp_path)).out)["items"]
        assert (listed["short_id"], listed["action"]) == (short_id(approval.id), 'broker__order: symbol = "AAPL"')
        said = json.loads((await typed("approvals", "approve", approval.id, "--json", "--state", tmp_path)).out)
        assert (said["id"], said["state"], said["run"]["outcome"]) == (approval.id, "used", "answered")
        assert said["run"]["reply"] == f"{DONE}\n\nIt was bought."


@pytest.mark.parametrize("theirs", [True, False], ids=["somebody else's", "one's own"])
async def test_chat_shows_what_came_of_a_yes(tmp_path: Path, theirs: bool) -> None:
    async with house(tmp_path) as app:
        with chatting(tmp_path) as terminal:
            await terminal.prompt()
            approval = await kim_wants_to_buy(app) if theirs else await owner_wants_to_buy(app)
            terminal.type(f"/approve {short_id(approval.id)}" + ENTER)
            await terminal.expect("Approved (")
            await terminal.expect(DONE)
