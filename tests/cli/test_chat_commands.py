"""What is typed to the terminal itself: leaving, looking back, and commands that are misspelled."""

import asyncio
from pathlib import Path

import pytest
from tests.cli.chat_terminal import ENTER, Terminal, chatting, house, reachable
from tests.cli.terminal import finclaw

from finclaw.cli.chat.commands import KnownCommands, answers_wanted, is_leaving
from finclaw.cli.chat.texts import ENGLISH, KOREAN
from finclaw.testing.provider import ScriptedProvider

KNOWN = KnownCommands("/", ("help", "h", "reset", "approve", "approvals", "deny", "whoami", "tax"))


@pytest.mark.parametrize("typed", ["/quit", "/exit", "/q", "exit", "quit", "종료", " EXIT ", "/종료"])
def test_what_people_type_to_leave(typed: str) -> None:
    assert is_leaving(typed)


@pytest.mark.parametrize("typed", ["exit strategy for Tesla?", "quite good", "종료된 거래", "/quitt", ""])
def test_what_only_looks_like_it(typed: str) -> None:
    assert not is_leaving(typed)


@pytest.mark.parametrize(
    ("typed", "near"),
    [
        ("/rest", "/reset"),
        ("/aprove ap-1", "/approve"),
        ("/hlep", "/help"),
        ("/Aprovals", "/approvals"),
        ("/lst", "/last"),
        ("/quitt", "/quit"),
        ("/who", "/whoami"),
    ],
)
def test_a_misspelled_command_is_not_sent_and_the_right_one_is_proposed(typed: str, near: str) -> None:
    """User trial M7: each of these was a question that a model was paid for."""
    assert f"Did you mean {near}?" in KNOWN.refuse_unknown(typed, ENGLISH)
    assert f"{near} 명령을 찾으셨나요?" in KNOWN.refuse_unknown(typed, KOREAN)


@pytest.mark.parametrize("typed", ["/foo", "/주문", "/zzz 1 2"])
def test_one_that_is_like_no_other_is_not_sent_either(typed: str) -> None:
    said = KNOWN.refuse_unknown(typed, ENGLISH)
    assert said.startswith(f"There is no command {typed.split(maxsplit=1)[0]}. Nothing was sent.")


@pytest.mark.parametrize(
    "typed",
    [
        "/help",
        "/RESET",
        "/approve ap-1",
        "/tax 2026",
        " /foo",
        "//foo",
        "/",
        "/ foo",
        "/etc/hosts what is this?",
        "foo",
        "삼성전자",
        "1/2",
        "/-5",
    ],
)
def test_what_is_sent(typed: str) -> None:
    assert KNOWN.refuse_unknown(typed, ENGLISH) == ""


def test_another_prefix_and_a_gateway_that_does_not_say() -> None:
    other = KnownCommands("!", ("help",))
    assert "Did you mean !help?" in other.refuse_unknown("!hlep", ENGLISH)
    assert other.refuse_unknown("/hlep", ENGLISH) == ""
    assert KnownCommands("/").refuse_unknown("/hlep", ENGLISH) == ""


def test_a_hostile_command_does_not_control_the_terminal() -> None:
    assert "\x1b" not in KNOWN.refuse_unknown("/foo\x1b[2J", ENGLISH)


@pytest.mark.parametrize(
    ("typed", "count"),
    [
        ("/last", 1),
        ("/last 3", 3),
        ("/LAST 20", 20),
        ("/last 21", 0),
        ("/last x", 0),
        ("/last 0", 0),
        ("/lasting", None),
    ],
)
def test_how_many_answers_are_wanted(typed: str, count: int | None) -> None:
    assert answers_wanted(typed) == count


# ── at a terminal ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("alone", [True, False])
async def test_no_model_is_asked_for_a_misspelled_command(tmp_path: Path, alone: bool) -> None:
    """User trial M7, with a gateway of its own and with a running one."""
    provider = ScriptedProvider()
    if alone:
        with chatting(tmp_path) as chat:
            await chat.prompt()
            await misspell(chat)
        return
    async with house(tmp_path, provider) as app, reachable(tmp_path, app):
        with chatting(tmp_path) as chat:
            await chat.prompt()
            await misspell(chat)
    assert provider.requests == []


async def misspell(chat: Terminal) -> None:
    chat.type("/rest" + ENTER)
    await chat.expect("Did you mean /reset?")
    await chat.prompt()
    chat.type("/help" + ENTER)
    await chat.expect("/reset – ")
    await chat.expect("/last [N] – ")
    await chat.expect("/quit – ")
    await chat.prompt()
    chat.type("종료" + ENTER)
    assert await chat.ended() == 0


async def test_the_last_answers_are_shown_again_the_oldest_first(tmp_path: Path) -> None:
    """User trial M7: `/last 3` went to the model."""
    provider = ScriptedProvider("First answer.", "Second answer.", "Third answer.", "Fourth answer.")
    async with house(tmp_path, provider) as app, reachable(tmp_path, app):
        with chatting(tmp_path) as chat:
            await chat.prompt()
            for name in ("First", "Second", "Third", "Fourth"):
                chat.type("go" + ENTER)
                await chat.expect(f"{name} answer.")
                await chat.prompt()
            chat.type("/last 3" + ENTER)
            shown = await chat.expect("Fourth answer.")
            chat.type("/last 99" + ENTER)
            await chat.expect("up to 20")
    assert "First" not in shown
    assert shown.index("Second answer.") < shown.index("Third answer.") < shown.index("Fourth answer.")
    assert len(provider.requests) == 4


async def test_a_script_and_a_single_question_are_held_to_it_too(tmp_path: Path) -> None:
    provider = ScriptedProvider("Good day.")
    async with house(tmp_path, provider) as app, reachable(tmp_path, app):
        script = await asyncio.to_thread(
            lambda: finclaw("chat", "--state", tmp_path, stdin="/rest\nhello\nexit\nnever asked\n")
        )
        asked = await asyncio.to_thread(lambda: finclaw("ask", "/rest", "--state", tmp_path))
    assert script.out.startswith("Good day.")
    assert (script.code, "Did you mean /reset?" in script.line()) == (1, True)
    assert (asked.code, asked.out, "Did you mean /reset?" in asked.line()) == (2, "", True)
    assert len(provider.requests) == 1


SKILL = """---
name: taxes
description: What taxes are due on gains.
commands: [{name: tax, description: Works out the tax on a gain}]
---
Say that it is complicated.
"""


async def test_a_skills_own_command_is_listed_and_sent(tmp_path: Path) -> None:
    """User trial M7: `/help` did not list it."""
    (tmp_path / "skills" / "taxes").mkdir(parents=True)
    (tmp_path / "skills" / "taxes" / "SKILL.md").write_text(SKILL)
    (tmp_path / "finclaw.yaml").write_text(
        f"agent: {{extensions: [{{use: skills, settings: {{directory: '{tmp_path}/skills'}}}}]}}\n"
    )
    shown = await asyncio.to_thread(lambda: finclaw("ask", "/help", "--state", tmp_path))
    assert "/tax – Works out the tax on a gain" in shown.out
    sent = await asyncio.to_thread(lambda: finclaw("ask", "/tax 100", "--state", tmp_path))
    assert "There is no command" not in sent.err
    near = await asyncio.to_thread(lambda: finclaw("ask", "/taxx 100", "--state", tmp_path))
    assert "Did you mean /tax?" in near.line()
