"""The channels guide does what it says: its settings load, and its channel is one."""

import re
from pathlib import Path

import pytest
from tests.cli.in_process import typed
from tests.ports.nouns import unit

from finclaw.clock import SystemClock
from finclaw.kernel.envelope import Capabilities
from finclaw.kernel.port import ChannelSpec

GUIDE = (Path(__file__).parents[2] / "docs/guides/channels.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL)
    assert found is not None
    return found[1]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    (tmp_path / "pager.py").write_text(block("python"), encoding="utf-8")
    settings = block("yaml") + "  pager:\n    kind: pager\nagent: {extensions: [pager.py]}\n"
    (tmp_path / "finclaw.yaml").write_text(settings, encoding="utf-8")
    return tmp_path


def test_the_settings_are_listed_with_who_brings_each_kind(state: Path) -> None:
    lines = typed("channels", "list", "--state", state).out.splitlines()
    assert [line.split()[:4] for line in lines[1:3]] == [
        ["desk", "mailbox", "FinClaw", "front"],
        ["pager", "pager", "pager", "default"],
    ]
    assert "mina, jun, all in team-room" in lines[1]


def test_its_channel_can_be_tested(state: Path) -> None:
    ended = typed("channels", "test", "pager", "--state", state)
    assert (ended.code, ended.out) == (0, "pager: ok, there is nothing to reach\n")


async def test_its_channel_sends() -> None:
    scope: dict[str, type] = {}
    exec(block("python"), scope)
    pager = scope["Pager"](ChannelSpec(name="p", account="7", secrets={}, settings={}, clock=SystemClock()))
    assert (await pager.send(unit("hi"))).platform_id == "7-u-x-0-0"


def test_every_capability_is_in_the_table() -> None:
    missing = [each for each in Capabilities.__struct_fields__ if f"`{each}`" not in GUIDE]
    assert missing == ["authenticated"]
