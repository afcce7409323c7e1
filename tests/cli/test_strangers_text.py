"""What others wrote, shown by commands that look at it: it must not control the terminal, in words or as JSON."""

import asyncio
import json
from pathlib import Path

import pytest
from tests.cli.chat_terminal import house, reachable
from tests.cli.hostile_text import CONTROLS, HOSTILE, asked
from tests.cli.terminal import finclaw

from finclaw.testing.provider import ScriptedProvider, call, reply, say

TEXT = "before " + "".join(HOSTILE.values()) + " after"
LOOKS = (
    ("turns",),
    ("trace", "last"),
    ("sessions", "list"),
    ("sessions", "show", "main"),
    ("sessions", "show", "evil\u202e\x9b2J"),
    ("memory", "list"),
    ("approvals", "list", "--all"),
    ("costs", "--by", "user"),
    ("status",),
    ("replay", "last"),
)


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything in it was written by somebody hostile."""
    state = tmp_path_factory.mktemp("state")
    asyncio.run(_fill(state))
    return state


async def _fill(state: Path) -> None:
    script = (reply(call("market__quote", {"symbol": TEXT})), reply(say(TEXT)), reply(say(TEXT)))
    async with house(state, ScriptedProvider(*script)) as app, reachable(state, app):
        await asked(state, TEXT.replace("\x00", ""))
        await asked(state, "hello", "--session", "evil\u202e\x9b2J")


@pytest.mark.parametrize(
    "look",
    [*LOOKS[:5], *(pytest.param(each, marks=pytest.mark.soak) for each in LOOKS[5:])],
    ids=" ".join,
)
def test_no_command_that_looks_shows_controls(state: Path, look: tuple[str, ...]) -> None:
    """Security trial H16, siblings."""
    ended = finclaw(*look, "--state", state)
    assert not CONTROLS.search(ended.out.replace("\r\n", "\n")), look
    assert not CONTROLS.search(ended.err), look
    told = finclaw(*look, "--json", "--state", state)
    assert not CONTROLS.search(told.out), look
    if told.code == 0:
        json.loads(told.out)


@pytest.mark.parametrize("name", ["x\x9b2J", "x\u202ey", "x\x1b]52;c;ZXZpbA==\x07"])
def test_a_complaint_does_not_control_the_terminal(tmp_path: Path, name: str) -> None:
    """Security trial H16, sibling: a path or a name may hold anything."""
    commands = (["trace", name], ["config", "check", "--config", name], ["explain", "tool", name], [name])
    for command in commands:
        ended = finclaw(*command, "--state", tmp_path)
        assert ended.code != 0, command
        assert not CONTROLS.search(ended.err + ended.out), command
