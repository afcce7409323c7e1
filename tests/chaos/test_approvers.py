"""Approvers in other chats are asked once each, wherever kill -9 strikes between the wish and the last card."""

import json
import os
import shutil
import signal
from collections import Counter
from pathlib import Path

import pytest
from tests.fork_server import GATEWAY, NO_INPUT, ROOT, fork_server

from finclaw.testing.crash import VARIABLE

pytestmark = [pytest.mark.chaos, pytest.mark.spec("DX-22")]

POINTS = [
    *("claim:after_commit:1", "accept:before_commit:2", "accept:after_commit:2"),
    *("finish:after_commit:1", "send:after:2"),
]
"""The first acceptance is the wish itself, the other two are the cards."""
FURTHER_POINTS = [
    *("tools:ended:1", "finish:before_commit:1", "receipt:before_commit:1"),
    *("tools:started:1", "results:after_commit:1", "accept:before_commit:3", "accept:after_commit:3"),
    *("send:before:1", "send:after:1", "send:before:2", "send:after:3"),
]
"""Right beside one of those above, or the same for the second card."""


def live(state: Path, seen: Path, phase: str, crash: str = "") -> int:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("FINCLAW_")}
    environ |= {VARIABLE: crash} if crash else {}
    args = ["-m", "tests.chaos.approver_child", str(state), str(seen), phase]
    with state.with_name("child.log").open("ab") as log:
        streams = (NO_INPUT, log.fileno(), log.fileno())
        return fork_server(*GATEWAY).start(args, environ, streams, ROOT).wait(180)


@pytest.fixture(scope="module")
def met(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state in which both approvers have written to us once."""
    state = tmp_path_factory.mktemp("met") / "state"
    assert live(state, state.parent / "seen", "meet") == 0
    return state


@pytest.mark.parametrize("point", [*POINTS, *(pytest.param(each, marks=pytest.mark.soak) for each in FURTHER_POINTS)])
def test_each_of_them_is_asked_once(tmp_path: Path, met: Path, point: str) -> None:
    state, seen = tmp_path / "state", tmp_path / "seen"
    shutil.copytree(met, state)
    assert live(state, seen, "ask", point) == -signal.SIGKILL, f"{point} was not passed"
    for _ in range(2):
        assert live(state, seen, "rest") == 0
    lines = [json.loads(line) for line in seen.read_text().splitlines()]
    cards = Counter(line["to"] for line in lines if line["text"].startswith("Approval needed."))
    assert cards == {"mina": 1, "jun": 1, "room": 1}
    assert len({line["text"].partition("/approve ")[2][:29] for line in lines}) == 1, "all of them are about one action"
