"""`finclaw ask` as a person at a terminal, and as a script, meets it."""

import asyncio
import json
import re
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.cli.chat_terminal import CTRL_C, ENTER, Terminal, at_terminal, chatting, house, reachable
from tests.cli.gateway_process import serving
from tests.cli.hostile_text import CONTROLS, HOSTILE, asked
from tests.cli.slow_model import SlowModel, settings_file, slow_model
from tests.cli.terminal import clean_environment, finclaw
from tests.web.gateway import MemoryGateway

from finclaw.app import App
from finclaw.builtins.answer_notes import LINES
from finclaw.errors import AuthFailed, ServerFailed
from finclaw.finance.extension import DEMO_LINES
from finclaw.kernel.port import Provider
from finclaw.testing.provider import ScriptedProvider, call, fails, hold, reply, say


@asynccontextmanager
async def gateway(state: Path, provider: Provider) -> AsyncGenerator[App]:
    async with house(state, provider) as app, reachable(state, app):
        yield app


# ── what is seen meanwhile ──────────────────────────────────────────────────────────────────────────────────


async def test_at_a_terminal_the_answer_is_seen_as_it_is_written(tmp_path: Path) -> None:
    """User trial H7."""
    released = asyncio.Event()
    provider = ScriptedProvider(reply(say("The first half. "), hold(released), say("The second half.")))
    async with gateway(tmp_path, provider):
        with at_terminal("ask", "go", "--state", str(tmp_path)) as terminal:
            await terminal.expect("The first half.")
            assert "The second half." not in terminal.text
            released.set()
            assert await terminal.ended() == 0
    assert terminal.text.count("The first half.") == terminal.text.count("The second half.") == 1


async def test_without_a_gateway_too(tmp_path: Path) -> None:
    with slow_model() as model, at_terminal("ask", "go", "--state", str(settings_file(tmp_path, model))) as terminal:
        await terminal.expect("Once upon a time")
        model.go_on()
        assert await terminal.ended() == 0
        assert "It was happy." in terminal.text


async def test_at_a_terminal_it_says_what_is_being_done(tmp_path: Path) -> None:
    released = asyncio.Event()
    provider = ScriptedProvider(
        reply(call("market__quote", {"symbol": "AAPL"})), reply(hold(released), say("That is all."))
    )
    async with gateway(tmp_path, provider):
        with at_terminal("ask", "AAPL?", "--state", str(tmp_path)) as terminal:
            await terminal.see("…")
            released.set()
            assert await terminal.ended() == 0
    assert "… looking up market__quote" in terminal.raw.decode()


async def test_in_a_pipe_there_is_the_answer_and_nothing_else(tmp_path: Path) -> None:
    provider = ScriptedProvider(reply(call("market__quote", {"symbol": "AAPL"})), reply(say("AAPL is well.", chunks=5)))
    async with gateway(tmp_path, provider):
        ended = await asked(tmp_path, "AAPL?")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == f"AAPL is well.\n\n{DEMO_LINES['en']}\n\n{LINES['retail']['figure']['en']}\n"


# ── Ctrl-C ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("question", "said"), [("go", "Stopped."), ("계속해 줘", "중단")])
async def test_ctrl_c_stops_the_turn_and_says_so(tmp_path: Path, question: str, said: str) -> None:
    """User trial H7."""
    provider = ScriptedProvider(reply(say("The first half. "), hold(asyncio.Event())))
    async with gateway(tmp_path, provider) as app:
        with at_terminal("ask", question, "--state", str(tmp_path)) as terminal:
            await terminal.expect("The first half.")
            terminal.type(CTRL_C)
            assert said in await terminal.expect(said)
            assert await terminal.ended() == 130
        assert "The first half." in terminal.text
        await app.idle()
        (turn,) = await app.turns(5)
        record = await app.wait(turn.inbound_id, 0)
        assert record is not None
        assert record.outcome is not None
        assert record.outcome.kind == "stopped"


@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
async def test_ctrl_c_without_a_gateway_leaves_nothing_to_be_asked_again(tmp_path: Path, kind: str) -> None:
    """User trial H7: the next start asked the model once more, for an answer nobody wanted."""
    with slow_model() as model:
        state = settings_file(tmp_path, model, storage=kind)
        with at_terminal("ask", "go", "--state", str(state)) as terminal:
            await terminal.expect("Once upon a time")
            terminal.type(CTRL_C)
            await terminal.expect("Stopped.")
            assert await terminal.ended() == 130
        status = json.loads(finclaw("status", "--json", "--state", state).out)
        assert (status["counts"]["waiting"], status["counts"]["running"], status["counts"]["ended"]) == (0, 0, 1)
        assert model.requests == 1


def interrupted(state: Path, model: SlowModel, *args: str) -> subprocess.CompletedProcess[str]:
    """A script whose `finclaw ask` gets a SIGINT while the model answers."""
    command = [sys.executable, "-m", "finclaw", "ask", "go", "--state", str(state), *args]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=clean_environment()
    ) as process:
        model.wait_for_request()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def test_a_script_that_is_interrupted_stops_the_turn_too(tmp_path: Path) -> None:
    with slow_model() as model:
        ended = interrupted(settings_file(tmp_path, model), model)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "Stopped.\n")


def test_a_program_that_is_interrupted_is_told_the_outcome(tmp_path: Path) -> None:
    with slow_model() as model:
        ended = interrupted(settings_file(tmp_path, model), model, "--json")
    assert (ended.returncode, json.loads(ended.stdout)["outcome"]) == (130, "stopped")


async def test_a_second_ctrl_c_leaves_at_once(tmp_path: Path) -> None:
    """A gateway that never comes to an end does not hold the terminal."""
    held = MemoryGateway()
    async with reachable(tmp_path, held):
        with at_terminal("ask", "go", "--state", str(tmp_path)) as terminal:
            await held.next_id()
            terminal.type(CTRL_C)
            await terminal.expect("stopping")
            terminal.type(CTRL_C)
            assert await terminal.ended() == 130


# ── a stranger's text ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("chunks", [pytest.param(1, marks=pytest.mark.soak), 50])
async def test_a_reply_does_not_control_the_terminal(tmp_path: Path, name: str, chunks: int) -> None:
    """Security trial H16, also when the sequence comes in pieces."""
    hostile = f"before{HOSTILE[name]}after"
    async with gateway(tmp_path, ScriptedProvider(reply(say(hostile, chunks=min(chunks, len(hostile)))))):
        with at_terminal("ask", "go", "--state", str(tmp_path), TERM="dumb") as terminal:
            assert await terminal.ended() == 0
    shown = terminal.raw.decode()
    assert "before" in shown
    assert "after" in shown
    assert not CONTROLS.search(shown.replace("\r\n", "\n"))
    assert "\r" not in shown.replace("\r\n", "\n")


def moved(terminal: Terminal) -> set[str]:
    """The sequences that reached the terminal."""
    return set(re.findall(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[^\[]|[\x80-\x9f]", terminal.raw.decode()))


async def test_what_it_draws_itself_is_all_that_moves_anything(tmp_path: Path) -> None:
    """Security trial H16, at a terminal whose cursor can be moved."""
    hostile = "before" + "".join(HOSTILE.values()) + "after"
    async with gateway(tmp_path, ScriptedProvider(reply(say(hostile, chunks=40)))):
        with at_terminal("ask", "go", "--state", str(tmp_path)) as terminal:
            assert await terminal.ended() == 0
    own = {"\x1b[J", "\x1b[K", "\x1b[2m", "\x1b[0m"}
    assert {each for each in moved(terminal) - own if not re.fullmatch(r"\x1b\[[0-9]+A", each)} == set()


async def test_a_pipe_and_a_program_get_no_controls_either(tmp_path: Path) -> None:
    """Security trial H16: what is piped ends in a terminal, too."""
    hostile = "".join(HOSTILE.values()) + "end"
    async with gateway(tmp_path, ScriptedProvider(lambda _: hostile)):
        plain = await asked(tmp_path, "go")
        told = await asked(tmp_path, "go", "--json")
    assert not CONTROLS.search(plain.out)
    assert not CONTROLS.search(told.out)
    assert hostile in json.loads(told.out)["reply"]  # a program reads what was said, character by character


async def test_a_reason_does_not_control_the_terminal(tmp_path: Path) -> None:
    """Security trial H16, sibling: what a server says of itself ends in the reason."""
    answer = fails(ServerFailed("over\x1b]52;c;ZXZpbA==\x07load\x9b2J\u202e"))
    async with gateway(tmp_path, ScriptedProvider(*[answer] * 8)):
        ended = await asked(tmp_path, "go")
    assert ended.code == 1
    assert not CONTROLS.search(ended.err)


# ── which model ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_model_of_ones_choice_answers_one_question(tmp_path: Path) -> None:
    with slow_model() as model:
        model.go_on()
        state = settings_file(tmp_path, model)
        chosen = json.loads(finclaw("ask", "go", "--model", "box/big", "--json", "--state", state).out)
        usual = json.loads(finclaw("ask", "go", "--json", "--state", state).out)
    assert model.models == ["big", "small"]
    assert (chosen["model"], usual["model"]) == ("box/big", "box/small")


def test_through_a_gateway_too(tmp_path: Path) -> None:
    with slow_model() as model:
        model.go_on()
        with serving(settings_file(tmp_path, model)):
            chosen = json.loads(finclaw("ask", "go", "--model", "box/big", "--json", "--state", tmp_path).out)
    assert (model.models, chosen["model"]) == (["big"], "box/big")


def test_the_model_that_stepped_in_is_named(tmp_path: Path) -> None:
    with slow_model() as model:
        model.go_on()
        settings_file(tmp_path, model)
        file = tmp_path / "finclaw.yaml"
        text = file.read_text().replace("{model: box/small}", "{model: gone/small, fallbacks: [box/big]}")
        text = text.replace("providers: {", "providers: {gone: {kind: openai, base_url: 'http://127.0.0.1:9/v1'}, ")
        file.write_text(text.replace("models: {", "models: {gone/small: {window: 32768}, "))
        ended = finclaw("ask", "go", "--json", "--state", tmp_path)
    assert json.loads(ended.out)["model"] == "box/big"


def test_a_model_that_is_not_there_is_one_line_and_nothing_is_kept(tmp_path: Path) -> None:
    for name, code in (("nosuch/model", 1), ("", 2), ("x" * 201, 2)):
        ended = finclaw("ask", "go", "--model", name, "--state", tmp_path)
        assert ended.code == code
        assert "model" in ended.line()
    assert finclaw("turns", "--state", tmp_path).out.count("go") == 0


# ── a stream that breaks ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("question", "mark"), [("go", "broke off here"), ("계속해 줘", "끊겨")])
async def test_what_was_read_of_an_answer_that_breaks_off_stays(tmp_path: Path, question: str, mark: str) -> None:
    """User trial C: only the apology stayed on the screen."""
    seen = [asyncio.Event(), asyncio.Event()]
    broken = [reply(say("The first half of it. The second"), hold(each), fault=AuthFailed("revoked")) for each in seen]
    async with gateway(tmp_path, ScriptedProvider(*broken)):
        with at_terminal("ask", question, "--state", str(tmp_path)) as terminal:
            await terminal.expect("The first half of it.")
            seen[0].set()
            assert await terminal.ended() == 1
        with chatting(tmp_path) as chat:
            await chat.prompt()
            chat.type(question + ENTER)
            await chat.expect("The first half of it.")
            seen[1].set()
            await chat.expect(mark)
    for shown in (terminal, chat):
        lines = shown.text.splitlines()
        at = next(place for place, line in enumerate(lines) if mark in line)
        assert any("The first half of it." in line for line in lines[:at])
