"""User trial B8: Tab completes the ids of approvals in the chat, and the names of commands."""

from pathlib import Path

import pytest
from tests.cli.chat_terminal import ENTER, chatting, reachable
from tests.cli.trading_chat import ORDER, trading

from finclaw.cli.chat.commands import Completer, KnownCommands, ShownIds
from finclaw.cli.chat.event_queue import EventQueue, News, UnsolicitedMessage
from finclaw.testing.provider import ScriptedProvider
from finclaw.transcript.approval_ids import new_approval_id, short_id

COMMANDS = KnownCommands("/", ("approve", "approvals", "deny", "help"))


def heard(*texts: str) -> EventQueue:
    feed = EventQueue()
    for text in texts:
        feed.put(UnsolicitedMessage("m", text))
    return feed


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("/approve ", ["ap-7aaaaaaa", "ap-1bbbbbbb"]),
        ("/deny ap-1", ["ap-1bbbbbbb"]),
        ("/승인 AP-7A", ["ap-7aaaaaaa"]),
        ("/approve ap-9", []),
        ("/approve ap-1bbbbbbb a", []),
        ("/app", ["/approvals", "/approve"]),
        ("/help ap-", []),
        ("approve ap-", []),
        ("", []),
    ],
)
def test_what_is_offered(line: str, offered: list[str]) -> None:
    feed = heard("Yes: /approve ap-1bbbbbbb", "ap-7aaaaaaa  broker__order  → 09:05")
    assert list(Completer(feed.ids, COMMANDS).candidates(line)) == offered


def test_what_was_decided_is_not_offered_any_more() -> None:
    one, other = new_approval_id(), new_approval_id()
    feed = heard(f"/approve {short_id(one)}", f"/approve {short_id(other)}")
    feed.put(News("approval", {"approval_id": one, "change": "approved"}))
    assert list(Completer(feed.ids, COMMANDS).candidates("/approve ")) == [short_id(other)]


def test_a_long_chat_keeps_the_newest() -> None:
    ids = ShownIds()
    for number in range(500):
        ids.note(f"ap-1{number:07}")
    assert len(ids.beginning("")) == 100
    assert ids.beginning("")[0] == "ap-10000499"


async def test_tab_completes_the_id_of_a_card(tmp_path: Path, toolkit: bool) -> None:
    provider = ScriptedProvider(ORDER, "It was bought.")
    async with trading(tmp_path, provider) as app, reachable(tmp_path, app):
        with chatting(tmp_path, toolkit=toolkit) as terminal:
            await terminal.prompt()
            terminal.type("buy" + ENTER)
            await terminal.expect("it is a no.")
            await terminal.prompt()
            (waiting,) = await app.approvals()
            terminal.type("/approve \t")
            await terminal.expect(short_id(waiting.id))
            terminal.type(ENTER)
            await terminal.expect("Approved (")
