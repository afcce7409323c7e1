"""The chat and the gateway it talks to: coming, going, restarting, being somebody else."""

import asyncio
import re
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.cli.chat_terminal import ENTER, chatting, house, reachable
from tests.cli.terminal import Ended, finclaw
from tests.web.gateway import MemoryGateway

from finclaw.cli.client import announce_gateway
from finclaw.storage.locks import StateLock
from finclaw.testing.provider import ScriptedProvider, hold, reply, say
from finclaw.web.token import obtain_token


async def chat(state: Path, *lines: str, args: tuple[str, ...] = ()) -> Ended:
    """A chat without a terminal."""
    text = "".join(f"{line}\n" for line in lines)
    return await asyncio.to_thread(lambda: finclaw("chat", "--state", state, *args, stdin=text))


async def test_a_script_with_and_without_a_gateway(tmp_path: Path) -> None:
    alone = await chat(tmp_path, "What is AAPL trading at?", "", "/help", "/quit", "/whoami")
    assert (alone.code, alone.err) == (0, "")
    assert alone.out.index("AAPL") < alone.out.index("/whoami –")
    assert "owner (web:owner:owner)" not in alone.out
    provider = ScriptedProvider(lambda request: f"You said **{request.messages[-1].text[:3]}**.")
    async with house(tmp_path, provider) as app, reachable(tmp_path, app):
        there = await chat(tmp_path, "하나", "둘", args=("--session", "desk"))
    assert (there.code, there.err) == (0, "")
    assert there.out.splitlines()[0].startswith("You said 하나."), "without marks"
    assert "\x1b" not in alone.out + there.out


async def test_chat_and_ask_share_the_conversation(tmp_path: Path) -> None:
    await chat(tmp_path, "What is AAPL trading at?")
    provider = ScriptedProvider(lambda request: f"**{len(request.messages)}** messages.")
    async with house(tmp_path, provider) as app, reachable(tmp_path, app):
        asked = await asyncio.to_thread(lambda: finclaw("ask", "how many?", "--state", tmp_path))
        assert re.fullmatch(r"(?!1)\d+ messages.\n", asked.out), "without marks"
        assert (await chat(tmp_path, "how many?", args=("--session", "other"))).out == "1 messages.\n"


async def test_a_script_that_is_no_text(tmp_path: Path) -> None:
    ended = await asyncio.to_thread(lambda: finclaw("chat", "--state", tmp_path, stdin=b"\xff\n"))
    assert ended.code == 2
    assert "not UTF-8" in ended.line()


async def test_what_was_typed_while_the_gateway_was_away_is_answered_once(tmp_path: Path) -> None:
    provider = ScriptedProvider(lambda _: "Here I am again.")
    async with AsyncExitStack() as stack:
        async with house(tmp_path, ScriptedProvider()) as app, reachable(tmp_path, app):
            terminal = stack.enter_context(chatting(tmp_path))
            assert "through the gateway at http://127.0.0.1:" in await terminal.prompt()
        terminal.type("Are you there?" + ENTER)
        await terminal.see("does not answer")
        async with house(tmp_path, provider) as app, reachable(tmp_path, app):
            await terminal.expect("Here I am again.")
            await terminal.prompt()
            terminal.type("/whoami" + ENTER)
            await terminal.expect("owner (web:owner:owner)")
    assert len(provider.requests) == 1


async def test_an_answer_that_ended_while_nobody_could_hear(tmp_path: Path) -> None:
    released = asyncio.Event()
    provider = ScriptedProvider(reply(say("The **beginning**. "), hold(released), say("The `end`.")))
    async with AsyncExitStack() as stack, house(tmp_path, provider) as app:
        async with reachable(tmp_path, app):
            terminal = stack.enter_context(chatting(tmp_path))
            await terminal.prompt()
            terminal.type("go" + ENTER)
            await terminal.expect("The beginning.")
        await terminal.see("does not answer")
        released.set()
        await app.idle()
        async with reachable(tmp_path, app):
            await terminal.expect("The end.")
            await terminal.prompt()
    assert "**" not in terminal.text
    assert len(provider.requests) == 1


async def test_a_gateway_that_starts_anew_in_the_middle_of_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("finclaw.app.STOP_GRACE", 0.1)
    first = ScriptedProvider(reply(say("An old beginning. "), hold(asyncio.Event())))
    released = asyncio.Event()  # an answer that is already there when the terminal comes back is not announce_gateway
    second = ScriptedProvider(reply(hold(released), say("A new answer.")))
    async with AsyncExitStack() as stack:
        async with house(tmp_path, first) as app, reachable(tmp_path, app):
            terminal = stack.enter_context(chatting(tmp_path))
            await terminal.prompt()
            terminal.type("go" + ENTER)
            await terminal.expect("An old beginning.")
        await terminal.see("does not answer")
        async with house(tmp_path, second) as app, reachable(tmp_path, app):
            await terminal.expect("being made again")
            released.set()
            await terminal.expect("A new answer.")
            await terminal.prompt()
    assert len(second.requests) == 1


def test_a_state_that_somebody_holds_without_answering(tmp_path: Path) -> None:
    with StateLock(tmp_path):
        ended = finclaw("chat", "--state", tmp_path, stdin="hi\n")
    assert ended.code == 1
    assert "no gateway answers there" in ended.line()
    assert "finclaw serve" in ended.line()


async def test_another_market_than_the_gateway_has(tmp_path: Path) -> None:
    async with reachable(tmp_path, MemoryGateway(market="live")):
        ended = await chat(tmp_path, "hi", args=("--demo",))
    assert ended.code == 1
    assert "uses the live market; leave out --demo" in ended.line()


async def test_a_stranger_on_the_old_port_never_sees_the_token(tmp_path: Path) -> None:
    heard: list[bytes] = []

    async def stranger(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.read(10_000))
        writer.close()

    token, _ = obtain_token(tmp_path)
    server = await asyncio.start_server(stranger, "127.0.0.1", 0)
    async with server:
        with announce_gateway(tmp_path, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"):
            ended = await chat(tmp_path, "/whoami")
    assert ended.out == "owner (web:owner:owner), roles: owner\n"
    assert heard
    assert all(token.reveal().encode() not in each for each in heard)


def test_a_name_for_the_conversation(tmp_path: Path) -> None:
    assert "--session" in finclaw("chat", "--session", "", "--state", tmp_path).line()
