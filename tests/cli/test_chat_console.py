"""The chat at a real terminal: typing, taking back, letting go of an answer, leaving."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from msgspec import Struct
from tests.cli.chat_terminal import (
    BACKSPACE,
    CTRL_C,
    CTRL_D,
    ENTER,
    ESC,
    LEFT,
    PASTE_BEGIN,
    PASTE_END,
    UP,
    chatting,
    house,
    reachable,
)
from tests.web.gateway import MemoryGateway, answer

from finclaw.kernel.extension import ExtensionApi
from finclaw.kernel.port import ToolOutput, ToolScope
from finclaw.testing.provider import ScriptedProvider, call, hold, reply, say
from finclaw.tools.define import tool


async def test_a_first_conversation_in_korean(tmp_path: Path, toolkit: bool) -> None:
    with chatting(tmp_path, "--demo", toolkit=toolkit) as terminal:
        greeting = await terminal.prompt()
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


@pytest.mark.spec("DX-25")
async def test_ctrl_c_stops_the_answer_and_not_the_program(tmp_path: Path, toolkit: bool) -> None:
    provider = ScriptedProvider(reply(say("The first part. "), hold(asyncio.Event())), "Something else.")
    async with house(tmp_path, provider) as app, reachable(tmp_path, app):
        with chatting(tmp_path, toolkit=toolkit) as terminal:
            await terminal.prompt()
            terminal.type("Tell me a story" + ENTER)
            await terminal.expect("The first part.")
            terminal.type(CTRL_C)
            await terminal.expect("Stopped.")
            assert "ended as" not in await terminal.prompt()
            terminal.type("And now?" + ENTER)
            await terminal.expect("Something else.")
            await terminal.prompt()
        stopped, _ = sorted(await app.turns(2), key=lambda turn: turn.started_at)
        assert stopped.status == "aborted"


SLOW = """
import asyncio

name = "slow"

def register(api):
    async def layer(ctx):
        await asyncio.sleep(600)
        return await ctx.next()

    api.pipeline.register("step", layer)
"""


async def test_with_a_gateway_of_its_own_what_was_stopped_is_not_taken_up_again(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    (tmp_path / "slow.py").chmod(0o600)
    (tmp_path / "finclaw.yaml").write_text("agent: {extensions: [./slow.py]}\n")
    with chatting(tmp_path, LANG="ko_KR.UTF-8", LC_ALL="") as terminal:
        await terminal.prompt()
        await terminal.interrupt("끝내려면 Ctrl-C를 한 번 더")
        await terminal.prompt()
        terminal.type("하나 알려줘" + ENTER)
        await terminal.see("\n…")
        terminal.type(CTRL_C)
        await terminal.expect("중단했습니다.")
        await terminal.prompt()
        assert await terminal.leave() == 0
    (tmp_path / "finclaw.yaml").unlink()
    with chatting(tmp_path) as terminal:
        await terminal.prompt()
        terminal.type("/last" + ENTER)
        await terminal.expect("중단했습니다.")


@pytest.mark.parametrize("stoppable", [True, False])
async def test_a_second_ctrl_c_does_not_wait_for_the_end(tmp_path: Path, stoppable: bool) -> None:
    gateway = MemoryGateway()
    async with reachable(tmp_path, gateway):
        with chatting(tmp_path) as terminal:
            await terminal.prompt()
            terminal.type("go" + ENTER)
            inbound_id = await gateway.next_id()
            gateway.stoppable += [inbound_id] if stoppable else []
            await terminal.see("\n…")
            terminal.type(CTRL_C)
            await terminal.see("stopping")
            if stoppable:
                await gateway.stopping.wait()
            terminal.type(CTRL_C)
            assert await terminal.ended() == 0
    assert gateway.stops == ([(inbound_id, "stopped by the person")] if stoppable else [])


async def test_what_the_gateway_will_not_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("finclaw.web.api._TRIES", 1)  # its no is due before the chat gives up waiting for it
    gateway = MemoryGateway()
    async with reachable(tmp_path, gateway):
        with chatting(tmp_path) as terminal:
            await terminal.prompt()
            terminal.type("go" + ENTER)
            inbound_id = await gateway.next_id()
            await terminal.see("\n…")
            terminal.type(CTRL_C)
            await terminal.expect("could not stop it")
            assert "its answer is on its way" in await terminal.prompt()
            await gateway.end(inbound_id, answer("There it is."))
            terminal.type("/last" + ENTER)
            await terminal.expect("There it is.")


async def test_what_was_never_taken_is_stopped_when_it_is(tmp_path: Path) -> None:
    provider = ScriptedProvider(reply(hold(asyncio.Event())))
    async with AsyncExitStack() as stack:
        async with house(tmp_path, ScriptedProvider()) as app, reachable(tmp_path, app):
            terminal = stack.enter_context(chatting(tmp_path))
            await terminal.prompt()
        terminal.type("Are you there?" + ENTER)
        await terminal.see("does not answer")
        terminal.type(CTRL_C)
        await terminal.expect("The gateway does not answer. As long")
        await terminal.prompt()
        async with house(tmp_path, provider) as app, reachable(tmp_path, app):
            await terminal.expect("Answer to “Are you there?”")
            await terminal.expect("Stopped.")


async def test_the_last_answer_is_there_in_the_next_chat(tmp_path: Path) -> None:
    async with house(tmp_path, ScriptedProvider("It is **kept**.")) as app, reachable(tmp_path, app):
        for asked in (True, False):
            with chatting(tmp_path) as terminal:
                await terminal.prompt()
                if asked:
                    terminal.type("/last" + ENTER)
                    await terminal.expect("no answer in this conversation")
                    await terminal.prompt()
                    terminal.type("하나 알려줘" + ENTER)
                    await terminal.expect("It is kept.")
                    await terminal.prompt()
                else:
                    terminal.type("/last" + ENTER)
                    await terminal.expect("It is kept.")


async def test_ctrl_c_at_the_prompt(tmp_path: Path, toolkit: bool) -> None:
    with chatting(tmp_path, toolkit=toolkit) as terminal:
        await terminal.prompt()
        terminal.type("half a questi")
        await terminal.expect("questi")
        terminal.type(CTRL_C)
        await terminal.prompt()
        await terminal.interrupt("Ctrl-C again")
        await terminal.prompt()
        terminal.type("/help" + ENTER)  # whoever goes on has not left
        await terminal.expect("/whoami")
        await terminal.prompt()
        await terminal.interrupt("Ctrl-C again")
        await terminal.prompt()
        assert await terminal.leave() == 0


class SlowTool:
    """An extension with a tool that works until the test releases it."""

    name = "slow"

    def __init__(self) -> None:
        self.released = asyncio.Event()

    def register(self, api: ExtensionApi) -> None:
        @tool("slow__look", "Looks.", group="finance")
        async def look(_: Looked, __: ToolScope) -> ToolOutput:
            await self.released.wait()
            return ToolOutput("looked")

        api.tools.register(look)


class Looked(Struct):
    pass


async def test_tools_are_seen_at_work_and_previews_replaced(tmp_path: Path) -> None:
    slow, looked = SlowTool(), asyncio.Event()
    provider = ScriptedProvider(
        reply(say("Let me look that up. "), hold(looked), call("slow__look", {})),
        reply(call("market__quote", {"symbol": "AAPL"})),
        "Here it is.",
    )
    async with house(tmp_path, provider, slow) as app, reachable(tmp_path, app):
        with chatting(tmp_path) as terminal:
            await terminal.prompt()
            terminal.type("AAPL?" + ENTER)
            await terminal.expect("Let me look that up.")
            looked.set()
            await terminal.see("\n… looking up slow__look")
            slow.released.set()
            await terminal.expect("Here it is.")
            await terminal.expect("source: demo market, as of")
            await terminal.prompt()
    assert "Let me look that up." not in terminal.text


async def test_keys_typed_during_an_answer_wait_for_the_prompt(tmp_path: Path, toolkit: bool) -> None:
    released = asyncio.Event()
    provider = ScriptedProvider(reply(say("One moment. "), hold(released), say("Done.")), "Second.")
    async with house(tmp_path, provider) as app, reachable(tmp_path, app):
        with chatting(tmp_path, toolkit=toolkit) as terminal:
            await terminal.prompt()
            terminal.type("go" + ENTER)
            await terminal.expect("One moment.")
            if toolkit:
                terminal.type("다음")
                await terminal.see("> 다음")
            else:
                await terminal.type_ahead("다음" + ENTER)
            released.set()
            await terminal.expect("Done.")
            await terminal.expect("> 다음")
            terminal.type(ENTER if toolkit else "")
            await terminal.expect("Second.")


async def test_a_message_typed_during_an_answer_is_sent_at_once_and_steers_it(tmp_path: Path) -> None:
    released = asyncio.Event()
    quote = call("market__quote", {"symbol": "AAPL"})
    provider = ScriptedProvider(reply(say("One moment. "), hold(released), quote), "Here it is.", "Never.")
    async with house(tmp_path, provider) as app, reachable(tmp_path, app):
        with chatting(tmp_path) as terminal:
            await terminal.prompt()
            terminal.type("AAPL?" + ENTER)
            await terminal.expect("One moment.")
            terminal.type(PASTE_BEGIN + "원화로\n부탁" + PASTE_END + "해" + BACKSPACE)
            await terminal.see("One moment.\n…\n> 원화로\n  부탁")  # below the answer
            terminal.type(ENTER)
            await terminal.see("> 원화로\n  부탁\nOne moment.")  # above it
            while len(app.queue("main:web:owner:direct:main+owner")) < 2:  # noqa: ASYNC110  nobody is told
                await asyncio.sleep(0.01)
            released.set()
            await terminal.expect("Here it is.")
            await terminal.expect("“AAPL?”")
            await terminal.prompt()
            terminal.type("/last" + ENTER)  # the message itself ended as joined
            await terminal.expect("Here it is.")
            await terminal.prompt()
            terminal.type(UP + UP)
            await terminal.expect("> 원화로\n  부탁")
    assert [each.text for each in provider.requests[1].messages if "부탁" in each.text] != []
    assert "Never." not in terminal.text


async def test_commands_typed_during_an_answer(tmp_path: Path) -> None:
    released = asyncio.Event()
    provider = ScriptedProvider(reply(say("One moment. "), hold(released), say("Done.")))
    async with house(tmp_path, provider) as app, reachable(tmp_path, app):
        with chatting(tmp_path) as terminal:
            await terminal.prompt()
            terminal.type("go" + ENTER)
            await terminal.expect("One moment.")
            terminal.type("/queue" + ENTER)
            await terminal.expect("Being answered: 1")
            terminal.type("/rest" + ENTER)
            await terminal.expect("There is no command /rest.")
            terminal.type("/quit" + ENTER)
            await terminal.expect("> /quit (waits for the end of the answer)")
            released.set()
            await terminal.expect("Done.")
            assert await terminal.ended() == 0


async def test_esc_stops_the_answer_and_no_other_key_does(tmp_path: Path) -> None:
    provider = ScriptedProvider(reply(say("One moment. "), hold(asyncio.Event()), say("Never.")), "Second.")
    async with house(tmp_path, provider) as app, reachable(tmp_path, app):
        with chatting(tmp_path) as terminal:
            await terminal.prompt()
            terminal.type("go" + ENTER)
            await terminal.expect("One moment.")
            terminal.type(f"next{LEFT}{LEFT}{LEFT}{LEFT}the ")  # an arrow begins with the same character as Esc
            await terminal.see("> the next")
            terminal.type(ESC)
            await terminal.expect("Stopped.")
            terminal.type(ENTER)
            await terminal.expect("Second.")
            await terminal.prompt()
            assert provider.requests[1].messages[-1].text.strip() == "the next", "what was typed meanwhile is kept"
            terminal.type(ESC)  # on an empty line: nothing
            terminal.type("/quit" + ENTER)
            assert await terminal.ended() == 0
    assert "Never." not in terminal.text


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
