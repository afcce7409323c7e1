"""The chat at a real terminal: typing, taking back, letting go of an answer, leaving."""

import asyncio
import importlib.util
from pathlib import Path

import pytest
from tests.cli.chat_terminal import (
    BACKSPACE,
    CTRL_C,
    CTRL_D,
    ENTER,
    LEFT,
    PASTE_BEGIN,
    PASTE_END,
    UP,
    chatting,
    house,
    reachable,
)

from finclaw.testing.provider import ScriptedProvider, call, hold, reply, say

EDITORS = [
    "readline",
    pytest.param(
        "toolkit",
        marks=pytest.mark.skipif(not importlib.util.find_spec("prompt_toolkit"), reason="needs the extra `chat`"),
    ),
]


@pytest.fixture(params=EDITORS)
def toolkit(request: pytest.FixtureRequest) -> bool:
    return request.param == "toolkit"


async def test_a_first_conversation_in_korean(tmp_path: Path, toolkit: bool) -> None:
    with chatting(tmp_path, "--demo", toolkit=toolkit) as terminal:
        greeting = await terminal.expect("\n>")
        assert "DEMO market" in greeting
        assert "데모 시장" in greeting
        assert greeting.count("\n") <= 4
        terminal.type("삼성전지")
        await terminal.expect("지")
        terminal.type(BACKSPACE + "자  얼마야?" + LEFT * 5 + BACKSPACE)
        await terminal.expect("얼마야?")
        terminal.type(ENTER)
        await terminal.expect("005930")
        await terminal.prompt()
        terminal.type(CTRL_D)
        assert await terminal.ended() == 0
    assert (tmp_path / "chat_history").read_text() == '"\\uc0bc\\uc131\\uc804\\uc790 \\uc5bc\\ub9c8\\uc57c?"\n'
    assert (tmp_path / "chat_history").stat().st_mode & 0o777 == 0o600


async def test_lines_of_the_last_chat_come_back(tmp_path: Path, toolkit: bool) -> None:
    for keys in ("/help", UP):
        with chatting(tmp_path, toolkit=toolkit) as terminal:
            await terminal.prompt()
            terminal.type(keys)
            await terminal.expect("/help")
            terminal.type(ENTER)
            await terminal.expect("/whoami")
            await terminal.prompt()
            terminal.type("/quit" + ENTER)
            assert await terminal.ended() == 0


async def test_a_pasted_paragraph_is_one_message(tmp_path: Path, toolkit: bool) -> None:
    provider = ScriptedProvider(lambda request: f"Got {request.messages[-1].text!r}.")
    async with house(tmp_path, provider) as app, reachable(tmp_path, app):
        with chatting(tmp_path, toolkit=toolkit) as terminal:
            await terminal.prompt()
            terminal.type(PASTE_BEGIN + "first line\n둘째 줄" + PASTE_END)
            await terminal.expect("둘째 줄")
            terminal.type(ENTER)
            await terminal.expect("Got")
            await terminal.prompt()
    asked = [request.messages[-1].text for request in provider.requests]
    assert len(asked) == 1
    assert "first line\n둘째 줄" in asked[0]


async def test_ctrl_c_lets_go_of_the_answer_and_not_of_the_program(tmp_path: Path, toolkit: bool) -> None:
    released = asyncio.Event()
    provider = ScriptedProvider(
        reply(say("The first part. "), hold(released), say("The second part.")), "Something else."
    )
    async with house(tmp_path, provider) as app, reachable(tmp_path, app):
        with chatting(tmp_path, toolkit=toolkit) as terminal:
            await terminal.prompt()
            terminal.type("Tell me a story" + ENTER)
            await terminal.expect("The first part.")
            terminal.type(CTRL_C)
            await terminal.expect("/last")
            await terminal.prompt()
            terminal.type("/last" + ENTER)
            await terminal.expect("still being answered")
            await terminal.prompt()
            released.set()
            await app.idle()
            terminal.type("And now?" + ENTER)
            late = await terminal.expect("The second part.")
            assert "Answer to “Tell me a story”" in late
            await terminal.expect("Something else.")
            await terminal.prompt()
            terminal.type("/last" + ENTER)
            await terminal.expect("Something else.")


async def test_the_last_answer_is_there_in_the_next_chat(tmp_path: Path) -> None:
    released = asyncio.Event()
    provider = ScriptedProvider(reply(hold(released), say("It is kept.")))
    async with house(tmp_path, provider) as app, reachable(tmp_path, app):
        with chatting(tmp_path) as terminal:
            await terminal.prompt()
            terminal.type("/last" + ENTER)
            await terminal.expect("no answer in this conversation")
            await terminal.prompt()
            terminal.type("하나 알려줘" + ENTER)
            await terminal.expect("…")
            terminal.type(CTRL_C)
            await terminal.expect("더 기다리지 않습니다")
            await terminal.prompt()
            assert await terminal.leave() == 0
        released.set()
        await app.idle()
        with chatting(tmp_path) as terminal:
            await terminal.prompt()
            terminal.type("/last" + ENTER)
            await terminal.expect("It is kept.")


async def test_ctrl_c_at_the_prompt(tmp_path: Path, toolkit: bool) -> None:
    with chatting(tmp_path, toolkit=toolkit) as terminal:
        await terminal.prompt()
        terminal.type("half a questi")
        await terminal.expect("questi")
        await terminal.interrupt("\n>")
        await terminal.interrupt("Ctrl-C again")
        await terminal.prompt()
        terminal.type("/help" + ENTER)  # whoever goes on has not left
        await terminal.expect("/whoami")
        await terminal.prompt()
        await terminal.interrupt("Ctrl-C again")
        await terminal.prompt()
        assert await terminal.leave() == 0


async def test_tools_are_seen_at_work_and_previews_replaced(tmp_path: Path) -> None:
    looked, released = asyncio.Event(), asyncio.Event()
    provider = ScriptedProvider(
        reply(say("Let me look that up. "), hold(looked), call("market__quote", {"symbol": "AAPL"})),
        reply(hold(released), say("Here it is.")),
    )
    async with house(tmp_path, provider) as app, reachable(tmp_path, app):
        with chatting(tmp_path) as terminal:
            await terminal.prompt()
            terminal.type("AAPL?" + ENTER)
            await terminal.expect("Let me look that up.")
            looked.set()
            await terminal.expect("looking up market__quote")
            released.set()
            await terminal.expect("Here it is.")
            await terminal.expect("source: demo market, as of")
            await terminal.prompt()


async def test_keys_typed_during_an_answer_wait_for_the_prompt(tmp_path: Path, toolkit: bool) -> None:
    released = asyncio.Event()
    provider = ScriptedProvider(reply(say("One moment. "), hold(released), say("Done.")), "Second.")
    async with house(tmp_path, provider) as app, reachable(tmp_path, app):
        with chatting(tmp_path, toolkit=toolkit) as terminal:
            await terminal.prompt()
            terminal.type("go" + ENTER)
            await terminal.expect("One moment.")
            terminal.type("다음" + ENTER)
            released.set()
            before = await terminal.expect("Done.")
            assert "다음" not in before
            await terminal.expect("Second.")


async def test_nothing_hostile_reaches_the_terminal(tmp_path: Path) -> None:
    evil = "Price \x1b]0;owned\x07\x1b[2J\x1b[31mred\x9b2K \u202e001\u202c\x08\x08 end."
    provider = ScriptedProvider(lambda _: evil)
    async with house(tmp_path, provider) as app, reachable(tmp_path, app):
        with chatting(tmp_path, NO_COLOR="1") as terminal:
            await terminal.prompt()
            terminal.type("?" + ENTER)
            await terminal.expect("Price red 001 end.")
            await terminal.prompt()
    assert "owned" not in terminal.raw.decode()
    for forbidden in ("\x1b[2J", "\x1b[31m", "\x1b[2m", "\u202e", "\x9b", "\x08\x08 end"):
        assert forbidden not in terminal.raw.decode()


@pytest.mark.skipif(not importlib.util.find_spec("prompt_toolkit"), reason="needs the extra `chat`")
async def test_a_late_answer_appears_above_the_line_being_typed(tmp_path: Path) -> None:
    released = asyncio.Event()
    provider = ScriptedProvider(reply(hold(released), say("Late but here.")))
    async with house(tmp_path, provider) as app, reachable(tmp_path, app):
        with chatting(tmp_path, toolkit=True) as terminal:
            await terminal.prompt()
            terminal.type("slow one" + ENTER)
            await terminal.expect("…")
            terminal.type(CTRL_C)
            await terminal.expect("Not waiting")
            await terminal.prompt()
            terminal.type("가나다")
            await terminal.expect("다")
            released.set()
            await terminal.expect("Late but here.")
            await terminal.expect("> 가나다")
