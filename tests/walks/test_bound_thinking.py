"""A whole gateway, and a model whose thoughts are tied to what stood before them: notes, summaries, crashes."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from tests.providers.model_server import serving
from tests.providers.signature_api import BoundApi
from tests.walks.house import FOREVER, TRUSTING, Parts
from tests.walks.tools import Desk

import finclaw
from finclaw.agent.budget.settings import BudgetSettings
from finclaw.agent.settings import AgentSettings
from finclaw.clock import SystemClock
from finclaw.kernel.event import ContextCompacted, Event, ModelRetried
from finclaw.kernel.port import ToolScope
from finclaw.kernel.scope import Outcome
from finclaw.providers.settings import ModelSettings, ProviderSettings
from finclaw.redaction import Secret
from finclaw.testing import MemoryChannel, SimulatedCrash, crash_at
from finclaw.tools.settings import ToolsSettings

FABLE, OLDER = "anthropic/claude-fable-5-1", "anthropic/claude-opus-5"
STEPS = 3


class Walk:
    """A gateway on this directory, which may be opened again, and the API behind it."""

    def __init__(self, state: Path, **model: Any) -> None:
        self._state = state
        self._model = ModelSettings(**model)
        self._told = cycle(["190"] * (STEPS - 1) + ["last"])
        self.api = BoundApi(tool="look")
        self.events: list[Event] = []

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[tuple[finclaw.App, MemoryChannel]]:
        clock = SystemClock()
        channel = MemoryChannel(clock)
        async with serving(self.api.answer) as url:
            settings = finclaw.Settings(
                state=self._state,
                agent=AgentSettings(
                    model=FABLE, fallbacks=(OLDER,), thinking="medium", extensions=("context-message", "memory")
                ),
                providers={"anthropic": ProviderSettings(base_url=url, key=Secret("key-1"))},
                models={FABLE: self._model},
                tools=ToolsSettings(rules=TRUSTING),
                budget=BudgetSettings(agent_day_usd=None),  # the call that the crash cut off counts in full
            )
            tool = Desk().tool("look", self._quote)
            async with finclaw.build(
                settings, channels=[channel], extensions=[Parts(tools=[tool])], observers=[self.events.append]
            ) as app:
                yield app, channel

    async def _quote(self, text: str, scope: ToolScope) -> str:
        return next(self._told)

    def sizes(self, since: int = 0) -> list[int]:
        """How many thoughts came back in each request of the conversation."""
        asked = zip(self.api.bodies, self.api.replayed, strict=True)
        return [len(thoughts) for body, thoughts in list(asked)[since:] if body.get("tools")]


async def ask(app: finclaw.App, channel: MemoryChannel, text: str) -> Outcome | None:
    record = await app.wait((await channel.write(text)).id, FOREVER)
    await app.idle()
    return None if record is None else record.outcome


@pytest.mark.spec("M-42", "DX-16b")
async def test_three_turns_with_notes(tmp_path: Path) -> None:
    walk = Walk(tmp_path)
    async with walk.open() as (app, channel):
        for text in ("one", "two", "three"):
            await ask(app, channel, text)
    assert walk.api.refused == []
    assert walk.sizes() == [0, 1, 2, 3] * 3
    notes = [body for body in walk.api.bodies if "About this message" in str(body["messages"])]
    assert len(notes) == len(walk.api.bodies), "without its note the test would prove nothing"


async def test_a_conversation_that_is_condensed(tmp_path: Path) -> None:
    walk = Walk(tmp_path, window=24_000, max_output=4_096)
    async with walk.open() as (app, channel):
        for number in range(5):
            await ask(app, channel, f"{number} " + "삼성전자 주가가 어떻게 되나요? " * 400)
    assert walk.api.refused == []
    assert any(isinstance(event, ContextCompacted) for event in walk.events)
    assert walk.sizes()[-1] > 0


async def test_a_fallback_in_the_middle(tmp_path: Path) -> None:
    walk = Walk(tmp_path)
    async with walk.open() as (app, channel):
        await ask(app, channel, "one")
        walk.api.down = lambda said: said["model"] in FABLE and len(walk.api.bodies) == 5
        await ask(app, channel, "two")
    async with walk.open() as (app, channel):  # a gateway that has not heard of it asks the first model again
        await ask(app, channel, "three")
    assert (walk.api.refused, walk.api.strange) == ([], [])
    assert {body["model"] for body in walk.api.bodies} == {"claude-fable-5-1", "claude-opus-5"}
    assert walk.sizes()[-4:] == [0, 1, 2, 3]


@pytest.mark.spec("M-42")
async def test_a_refusal_that_nobody_foresaw(tmp_path: Path) -> None:
    walk = Walk(tmp_path)
    async with walk.open() as (app, channel):
        walk.api.distrusts = lambda said: len(walk.api.bodies) == 2
        first = await ask(app, channel, "one")
        second = await ask(app, channel, "two")
    assert [outcome and outcome.kind for outcome in (first, second)] == ["answered"] * 2
    assert len(walk.api.refused) == 1
    assert walk.sizes() == [0, 1, 0, 0, 0, 0, 1, 2, 3], "without them to the end of that turn, and no longer"
    assert [event.plain for event in walk.events if isinstance(event, ModelRetried)] == [True]
    assert {body["model"] for body in walk.api.bodies} == {"claude-fable-5-1"}, "nobody had to step in"


async def test_thoughts_that_were_declared_free_and_are_not(tmp_path: Path) -> None:
    walk = Walk(tmp_path, bound_thinking=False)
    async with walk.open() as (app, channel):
        outcomes = [await ask(app, channel, text) for text in ("one", "two", "three")]
    assert [outcome and outcome.kind for outcome in outcomes] == ["answered"] * 3
    assert len(walk.api.refused) == 2, "once in each turn that had thoughts of a former one"


async def test_thoughts_that_are_refused_for_good_and_everything_else_too(tmp_path: Path) -> None:
    walk = Walk(tmp_path)
    async with walk.open() as (app, channel):
        walk.api.refuses = lambda said: len(walk.api.bodies) in (2, 3)
        outcome = await ask(app, channel, "one")
        following = await ask(app, channel, "two")
    assert (outcome and outcome.kind, following and following.kind) == ("failed", "answered")
    assert len(walk.api.refused) == 2


async def test_a_turn_that_goes_on_after_a_crash(tmp_path: Path) -> None:
    walk = Walk(tmp_path)
    async with walk.open() as (app, channel):
        await ask(app, channel, "one")
        with crash_at("model:ended", 3):
            accepted = await channel.write("two", message_id="m-2")
            task = next(task for task in asyncio.all_tasks() if task.get_name() == f"message {accepted.id}")
            await asyncio.wait([task])
            assert isinstance(task.exception(), SimulatedCrash)
    before = len(walk.api.bodies)
    async with walk.open() as (app, channel):
        record = await app.wait(accepted.id, FOREVER)
        assert record is not None
        await ask(app, channel, "three")
    assert walk.api.refused == []
    assert walk.sizes(before) == [0, 1, 0, 1, 2, 3]
