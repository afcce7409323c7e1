"""The settings of compaction: honoured in a conversation, and checked before anything starts."""

from pathlib import Path

import pytest
from tests.agent.long_talk import talked
from tests.walks.house import Gateway, House, in_virtual_time

from finclaw.agent.window.compaction.options import CompactionSettings
from finclaw.agent.window.compaction.summary import BEGIN
from finclaw.agent.window.context_window import ContextPolicy
from finclaw.config.load import load_settings
from finclaw.errors import ConfigError
from finclaw.kernel.chunk import Model, ModelRequest
from finclaw.kernel.event import ContextCompacted
from finclaw.kernel.scope import TurnContext, TurnResult
from finclaw.testing import Reply, reply

SMALL = Model("offline", "demo", window=16_000, max_output=1_000)


async def use_small_model(ctx: TurnContext) -> TurnResult:
    ctx.model = SMALL
    return await ctx.next()


def answer(request: ModelRequest) -> Reply:
    return reply("They spoke of orders." if BEGIN in request.messages[-1].text else "done")


async def ask_after(gateway: Gateway, messages: int) -> list[ContextCompacted]:
    await gateway.ask("first")
    (session,) = [each.key for each in (await gateway.app.sessions(1)).items]
    await gateway.app.reset(session)
    await gateway.app.restore(session, talked(messages))
    await gateway.ask("how is it?")
    return [event for event in gateway.events if isinstance(event, ContextCompacted)]


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path / "state")


@in_virtual_time
async def test_it_starts_and_ends_where_the_settings_say(house: House) -> None:
    async with house.open(answer, layers=[("turn", use_small_model)]) as gateway:
        assert await ask_after(gateway, 70) == [], "that fits by default"
    early = CompactionSettings(start=0.3, target=0.1)
    async with house.open(answer, layers=[("turn", use_small_model)], compaction=early) as gateway:
        (done,) = await ask_after(gateway, 70)
        assert done.after < 0.3 * SMALL.window < done.before


@in_virtual_time
async def test_a_strategy_that_only_cuts_asks_no_model(house: House) -> None:
    cutting = CompactionSettings(strategy="truncate-oldest")
    async with house.open(answer, layers=[("turn", use_small_model)], compaction=cutting) as gateway:
        (done,) = await ask_after(gateway, 220)
        assert done.strategy == "truncate-oldest"
        assert not any(BEGIN in request.messages[-1].text for request in gateway.provider.requests)


def test_the_defaults_are_the_thresholds_that_were_always_there() -> None:
    made, usual = ContextPolicy.of(CompactionSettings()), ContextPolicy()
    assert (made.strategy, made.recent) == (usual.strategy, usual.recent)
    row = made.thresholds
    assert (row.target, row.warn, row.notify, row.compact, row.stop) == (0.50, 0.70, 0.80, 0.85, 0.95)


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("compaction: {start: 1.5}", "compaction.start"),
        ("compaction: {strategy: forget}", "compaction.strategy"),
        (
            "compaction: {target: 0.9}",
            "compaction.target is 0.9; it must be at least 0.05 below",
        ),
        ("compaction: {recnt: 3}", "unknown key compaction.recnt; did you mean compaction.recent?"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, written: str, problem: str) -> None:
    (tmp_path / "finclaw.yaml").write_text(written, encoding="utf-8")
    with pytest.raises(ConfigError) as told:
        load_settings(state=tmp_path, environ={})
    assert problem in str(told.value)
