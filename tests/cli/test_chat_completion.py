"""User trial B8: Tab completes the ids of approvals in the chat, and the names of commands."""

from pathlib import Path

import pytest
from tests.cli.chat_terminal import ENTER, chatting, reachable
from tests.cli.trading_chat import ORDER, trading

from finclaw.cli.chat.commands import Completer, KnownCommands
from finclaw.testing.provider import ScriptedProvider
from finclaw.transcript.approval_ids import new_approval_id, short_id

COMMANDS = KnownCommands("/", ("approve", "approvals", "deny", "help"))


def completer(*texts: str) -> Completer:
    shown = Completer(COMMANDS)
    for text in texts:
        shown.note(text)
    return shown


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
    shown = completer("Yes: /approve ap-1bbbbbbb", "ap-7aaaaaaa  broker__order  → 09:05")
    assert list(shown.candidates(line)) == offered


def test_what_was_decided_is_not_offered_any_more() -> None:
    one, other = new_approval_id(), new_approval_id()
    shown = completer(f"/approve {short_id(one)}", f"/approve {short_id(other)}")
    shown.note_change({"approval_id": one, "change": "approved"})
    assert list(shown.candidates("/approve ")) == [short_id(other)]


def test_a_long_chat_keeps_the_newest() -> None:
    shown = completer(*[f"ap-1{number:07}" for number in range(500)])
    assert len(shown.candidates("/approve ")) == 100
    assert shown.candidates("/approve ")[0] == "ap-10000499"


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
