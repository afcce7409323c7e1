"""A state that somebody else holds without being a gateway that answers."""

import asyncio
import json
from pathlib import Path

import pytest
from tests.cli.chat_terminal import ENTER, chatting
from tests.cli.terminal import finclaw

from finclaw.cli.commands import ask
from finclaw.cli.main import main
from finclaw.errors import StateBusy
from finclaw.storage.locks import StateLock


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FINCLAW_HOME", str(tmp_path))


def test_asking_waits_and_then_says_who_holds_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(ask, "PATIENCE", 0.3)
    with StateLock(tmp_path):
        assert main(["ask", "hi"]) == 1
    told = capsys.readouterr().err
    assert "another finclaw holds" in told
    assert told.endswith("--state DIR\n")


def test_the_status_says_that_it_cannot_look(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["ask", "What is AAPL trading at?"]) == 0
    capsys.readouterr()
    with StateLock(tmp_path):
        assert main(["status"]) == 0
        assert "the state is in use" in capsys.readouterr().out
        assert main(["status", "--json"]) == 0
        status = json.loads(capsys.readouterr().out)
    assert (status["running"], status["counts"]) == (False, None)
    assert "another gateway" in status["busy"]


def test_the_status_of_a_state_at_rest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status"]) == 0
    assert "nothing was ever stored" in capsys.readouterr().out
    assert main(["ask", "What is AAPL trading at?"]) == 0
    capsys.readouterr()
    assert main(["status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["counts"]["ended"] == 1


async def test_a_chat_of_its_own_lets_other_commands_in(tmp_path: Path) -> None:
    """User trial M17: `ask`, `status`, `turns` and `sessions` were refused while a chat was open."""
    with chatting(tmp_path) as chat:
        await chat.prompt()
        chat.type("What is AAPL trading at?" + ENTER)
        await chat.expect("AAPL")
        await chat.prompt()
        async with asyncio.timeout(60):
            while not (tmp_path / "gateway.json").exists():  # noqa: ASYNC110  it is open to others a moment later
                await asyncio.sleep(0.01)
        told = await asyncio.to_thread(finclaw, "status", "--state", tmp_path)
        assert "a gateway runs at http://127.0.0.1:" in told.out
        for command in (["turns"], ["sessions", "list"], ["trace", "last"], ["approvals"], ["costs"]):
            ended = await asyncio.to_thread(finclaw, *command, "--state", tmp_path)
            assert (ended.code, ended.err) == (0, ""), command
        asked = await asyncio.to_thread(finclaw, "ask", "삼성전자 현재 주가 알려줘", "--state", tmp_path)
        assert (asked.code, asked.err) == (0, "")
        assert "삼성전자" in asked.out
        chat.type("/quit" + ENTER)
        assert await chat.ended() == 0
    assert not (tmp_path / "gateway.json").exists()


def test_a_program_of_ones_own_is_not_told_of_a_command_line(tmp_path: Path) -> None:
    """User trial C: the error of the Python API spoke of `--state`."""
    with StateLock(tmp_path), pytest.raises(StateBusy, match=r"use another state directory$"):
        StateLock(tmp_path)
