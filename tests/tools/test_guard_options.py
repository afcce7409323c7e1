"""One guard for all results, and another for some tools, as the operator wants it."""

from pathlib import Path

import pytest
from tests.walks.house import Parts
from tests.walks.tools import Desk

import finclaw
from finclaw.config.load import load_settings
from finclaw.errors import ConfigError
from finclaw.kernel.port import ToolScope
from finclaw.testing import FakeClock, MemoryChannel, ScriptedProvider, call, reply
from finclaw.tools.settings import GuardChoice, GuardFor, GuardOptions

CARD = "4111 1111 1111 1111"


@pytest.mark.spec("T-20", "DX-75")
def test_what_is_left_out_is_as_for_all_and_the_later_has_the_last_word() -> None:
    usual = GuardOptions(shown=5_000, patterns=("EMP-####",))
    choice = GuardChoice(usual, [GuardFor(tool="market__*", shown=30_000), GuardFor(tool="market__news", shown=20)])
    assert choice.of("calc__evaluate") == usual
    assert choice.of("market__quote") == GuardOptions(shown=30_000, patterns=("EMP-####",))
    assert choice.of("market__news").shown == 20
    assert GuardChoice().of("anything") == GuardOptions()


def test_reading_on_is_never_cut_short() -> None:
    """Else what it gives would be kept aside in its turn, and nobody would come to the end."""
    choice = GuardChoice(GuardOptions(shown=500, stored=1_000), [GuardFor(tool="*", shown=10)])
    assert (choice.of("read_result").shown, choice.of("look").shown) == (10_000, 10)


@pytest.mark.parametrize("wrong", [GuardFor(tool="x__y", shown=200_000), GuardFor(tool="x__y", stored=5)])
def test_limits_that_contradict_are_told_at_the_start(wrong: GuardFor) -> None:
    with pytest.raises(ConfigError, match="shown"):
        GuardChoice(special=[wrong])
    with pytest.raises(ConfigError, match="fits no tool"):
        GuardFor(tool="market:*")


SETTINGS = """
tools:
  rules: [{pattern: "*", verdict: allow}]
  guard: {shown: 2000, patterns: ["EMP-####"]}
  guards:
    - {tool: long, shown: 30000}
    - {tool: plain, redact_finance: false, allow_html: true}
"""


@pytest.mark.spec("T-20", "DX-75", "RG-02", "RG-06", "RG-07", "DX-31")
def test_a_whole_message_by_the_operators_settings(tmp_path: Path) -> None:
    async def much(text: str, scope: ToolScope) -> str:
        return f"EMP-1234 <b>{CARD}</b> " + "x" * 20_000

    async def little(text: str, scope: ToolScope) -> str:
        return f"EMP-1234 <b>{CARD}</b>"

    async def walk() -> ScriptedProvider:
        desk, channel = Desk(), MemoryChannel(clock)
        tools = [desk.tool("short", much), desk.tool("long", much), desk.tool("plain", little)]
        provider = ScriptedProvider(reply(*(call(each.spec.name) for each in tools)), "done", clock=clock)
        brought = Parts(tools=tools)
        async with finclaw.build(
            settings, channels=[channel], provider=provider, extensions=[brought], clock=clock, threaded=False
        ) as app:
            await app.wait((await channel.write("go")).id, 60)
        return provider

    (tmp_path / "finclaw.yaml").write_text(SETTINGS)
    clock, settings = FakeClock(), load_settings(state=tmp_path, environ={})
    short, long, plain = clock.run(walk()).requests[-1].messages[-1].tool_results
    assert len(short.content) <= 2_000
    assert 20_000 < len(long.content) < 30_000
    assert short.content.startswith("[private] [card …1111] x")
    assert plain.content == f"[private] <b>{CARD}</b>"
