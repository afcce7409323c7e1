"""A whole gateway with servers: its first question already finds their tools, and a dead one holds up nothing."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.builtins.mcp.bench import honest, rogue

import finclaw
from finclaw.agent.settings import AgentSettings, ExtensionRef
from finclaw.clock import SystemClock
from finclaw.kernel.event import Event, ToolRegistered
from finclaw.kernel.extension import Extension, ExtensionApi
from finclaw.kernel.scope import Outcome
from finclaw.policy.rule import Rule
from finclaw.testing import MemoryChannel, ScriptedProvider
from finclaw.testing.provider import Line, call, say
from finclaw.tools.settings import ToolsSettings


async def ask(
    state: Path, servers: dict[str, Any], *script: Line, beside: Sequence[Extension] = (), **more: Any
) -> tuple[Outcome, ScriptedProvider]:
    clock = SystemClock()
    channel, provider = MemoryChannel(clock), ScriptedProvider(*script, clock=clock)
    ref = ExtensionRef("finclaw.builtins.mcp.extension", {"servers": servers, "patience": 30, **more})
    settings = finclaw.Settings(
        state=state,
        agent=AgentSettings(extensions=(ref,)),
        tools=ToolsSettings(rules=(Rule("desk__*", "allow"),)),
    )
    async with finclaw.build(settings, channels=[channel], provider=provider, extensions=beside) as app:
        accepted = await channel.write("Greet Minji.")
        record = await app.wait(accepted.id, 90)
    assert record is not None
    assert record.outcome is not None
    return record.outcome, provider


@pytest.mark.spec("EX-07")
async def test_the_first_question_already_finds_the_tools(tmp_path: Path, words: Path) -> None:
    outcome, provider = await ask(
        tmp_path / "state", {"desk": honest(words)}, call("desk__greet", {"name": "Minji"}), say("done")
    )
    assert outcome.kind == "answered"
    first, second = provider.requests
    assert "desk__greet" in [tool.name for tool in first.tools]
    (result,) = [each for message in second.messages for each in message.tool_results]
    assert "Hello, Minji!" in result.content


async def test_servers_that_do_not_come_up_cost_the_first_question_its_patience_and_no_more(tmp_path: Path) -> None:
    began = time.monotonic()
    servers = {"deaf": rogue("deaf"), "gone": {"command": ["/nowhere/at-all"]}}
    outcome, _ = await ask(tmp_path / "state", servers, say("hello"), patience=0.5)
    assert outcome.kind == "answered"
    assert time.monotonic() - began < 25, "the deaf one gets 30 seconds to start"


class Listening:
    """An extension that hears which tools come."""

    name = "listening"

    def __init__(self) -> None:
        self.heard: list[Event] = []

    def register(self, api: ExtensionApi) -> None:
        api.events.observe(self.heard.append, "tool:register")


@pytest.mark.spec("T-09", "EX-07")
async def test_its_tools_are_known_as_a_servers(tmp_path: Path, words: Path) -> None:
    listening, servers = Listening(), {"desk": honest(words)}
    await ask(tmp_path / "state", servers, say("done"), beside=[listening])
    sources = {event.tool: event.source for event in listening.heard if isinstance(event, ToolRegistered)}
    assert sources["desk__greet"] == "mcp"
