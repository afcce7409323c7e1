"""A state that somebody else holds without being a gateway that answers."""

import json
from pathlib import Path

import pytest

from finclaw.cli import ask
from finclaw.cli.main import main
from finclaw.storage.state_lock import StateLock


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FINCLAW_HOME", str(tmp_path))


def test_asking_waits_and_then_says_who_holds_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(ask, "PATIENCE", 0.3)
    with StateLock(tmp_path):
        assert main(["ask", "hi"]) == 1
    assert "another gateway" in capsys.readouterr().err


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
