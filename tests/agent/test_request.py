"""What a turn asks its model with: the same from its first call to its last, and nothing lost before it is kept."""

import asyncio
from itertools import pairwise

import pytest
from msgspec import Struct
from tests.agent.bench import Bench, other
from tests.agent.long_talk import SMALL, Mind, talked

from finclaw.agent.model.failover import ModelRoute
from finclaw.agent.model.retry import LONGEST_PAUSE
from finclaw.agent.settings import AgentSettings
from finclaw.agent.window.compaction.options import is_summary
from finclaw.agent.window.compaction.summary import BEGIN
from finclaw.errors import AuthFailed, Overloaded, RateLimited, ServerFailed
from finclaw.kernel.chunk import Model, ModelRequest, Usage
from finclaw.kernel.envelope import TurnOptions
from finclaw.kernel.event import ModelRetried, UsageUpdated
from finclaw.kernel.message import Append, Patch, Replace, Truncate
from finclaw.kernel.port import ToolOutput, ToolScope
from finclaw.kernel.scope import StepContext, StepResult, TurnContext, TurnResult
from finclaw.testing import Reply, ScriptedProvider, call, fails, reply
from finclaw.tools.define import tool

LOOK = reply(call("look"), usage=Usage(5, 1))


class Page(Struct):
    page: int = 0


@tool("look", "Looks.")
async def look(args: Page, scope: ToolScope) -> ToolOutput:
    return ToolOutput("seen")


@tool("read", "Reads much.")
async def read(args: Page, scope: ToolScope) -> ToolOutput:
    return ToolOutput("row of figures\n" * 1_000)


def requests(bench: Bench) -> list[ModelRequest]:
    assert bench.provider is not None
    return bench.provider.requests


# ── the same in every call ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("M-35")
def test_model_tools_and_prompt_are_there_when_the_turn_begins_and_in_every_call() -> None:
    began: list[TurnContext] = []

    async def begin(ctx: TurnContext) -> TurnResult:
        began.append(ctx)
        return await ctx.next()

    bench = Bench(tools=[look], turn=[begin], model=Model("scripted", "mine", window=123_456, max_output=777))
    bench.run(LOOK, LOOK, "done")
    (ctx,) = began
    assert (ctx.model.name, ctx.model.window, ctx.model.max_output) == ("mine", 123_456, 777)
    assert [spec.name for spec in ctx.tool_catalog] == ["look"]
    assert ctx.system == "Be good."
    assert len(requests(bench)) == 3
    for request in requests(bench):
        assert (request.model, request.tools, request.system) == (ctx.model, ctx.tool_catalog, ctx.system)


@pytest.mark.spec("M-35")
def test_a_model_that_somebody_picked_is_the_turns_from_its_beginning_to_its_end() -> None:
    bench = Bench(tools=[look], wishes=TurnOptions(model="scripted/two"))
    two = Model("scripted", "two", window=50_000, max_output=555)
    picked = ScriptedProvider(LOOK, "done", clock=bench.clock)
    seen: list[Model] = []

    async def watch(ctx: StepContext) -> StepResult:
        seen.append(ctx.turn.model)
        return await ctx.next()

    bench.pick, bench.step = (lambda _: [ModelRoute(picked, two, "default")]), [watch]
    bench.run("nobody asks this one")
    assert seen == [two, two]
    assert [(request.model, request.max_tokens) for request in picked.requests] == [(two, 555)] * 2


@pytest.mark.spec("M-35")
def test_a_fallback_that_steps_in_does_not_change_the_model_of_the_turn() -> None:
    bench = Bench(tools=[look], model=Model("scripted", "mine", window=123_456, max_output=777))
    bench.fallbacks = [other(bench.clock, LOOK)]
    seen: list[Model] = []

    async def watch(ctx: StepContext) -> StepResult:
        result = await ctx.next()
        seen.append(ctx.turn.model)
        return result

    bench.step = [watch]
    bench.run(fails(AuthFailed("no")), "done")
    assert seen == [bench.model, bench.model]
    assert [request.model for request in requests(bench)] == [bench.model, bench.model], "and it is asked again"


def test_what_a_layer_makes_of_the_prompt_is_the_prompt_of_the_whole_turn() -> None:
    async def add(ctx: TurnContext) -> TurnResult:
        ctx.system += " Be brief."
        return await ctx.next()

    bench = Bench(tools=[look], turn=[add])
    bench.run(LOOK, "done")
    assert [request.system for request in requests(bench)] == ["Be good. Be brief."] * 2


@pytest.mark.spec("M-38", "M-39")
@pytest.mark.parametrize(("model_limit", "sent"), [(10_000, 1_234), (800, 800)])
def test_temperature_and_limit_reach_every_call_the_closing_one_too(model_limit: int, sent: int) -> None:
    settings = AgentSettings(temperature=0.3, max_tokens=1_234, max_steps=2)
    bench = Bench(tools=[look], settings=settings, model=Model("scripted", "m", max_output=model_limit))
    assert bench.run(LOOK, LOOK, "that is all").status == "max_steps"
    assert [(request.temperature, request.max_tokens) for request in requests(bench)] == [(0.3, sent)] * 3


@pytest.mark.spec("M-38")
def test_a_temperature_that_nobody_set_is_not_sent() -> None:
    bench = Bench()
    bench.run("done")
    assert requests(bench)[0].temperature is None


@pytest.mark.spec("M-40")
@pytest.mark.parametrize("words", [(), ("END", "\n\nHuman:")])
def test_words_that_end_an_answer_reach_every_call_the_closing_one_too(words: tuple[str, ...]) -> None:
    bench = Bench(tools=[look], settings=AgentSettings(stop_sequences=words, max_steps=2))
    assert bench.run(LOOK, LOOK, "that is all").status == "max_steps"
    assert [request.stop_sequences for request in requests(bench)] == [words] * 3


@pytest.mark.spec("M-40")
def test_they_do_not_end_a_summary() -> None:
    bench = Bench(model=SMALL, base=talked(120), settings=AgentSettings(stop_sequences=("END",)))
    bench.run(Mind())
    ours = [request for request in requests(bench) if BEGIN in request.messages[-1].text]
    assert ours
    assert all(request.stop_sequences == () for request in ours)


# ── after each call ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("R-08", "N-01")
def test_after_each_call_its_usage_is_added_and_its_message_is_kept_before_anything_runs() -> None:
    kept: list[list[str]] = []

    @tool("peek", "Tells what is on disk while it runs.")
    async def peek(args: Struct, scope: ToolScope) -> ToolOutput:
        events = [event for group in bench.memory.groups for event in group]
        kept.append([event.message.role for event in events if isinstance(event, Append)])
        return ToolOutput("seen")

    bench = Bench(tools=[peek])
    peeks = reply(call("peek"), usage=Usage(5, 1, cache_read=100, cache_write=7))
    result = bench.run(peeks, peeks, reply("done", usage=Usage(7, 2)))
    assert kept == [["assistant"], ["assistant", "tool", "assistant"]]
    totals = [event.usage for event in bench.events if isinstance(event, UsageUpdated)]
    assert totals == [
        Usage(5, 1, cache_read=100, cache_write=7),
        Usage(10, 2, cache_read=200, cache_write=14),
        Usage(17, 4, cache_read=200, cache_write=14),
    ]
    assert result.usage == totals[-1]


@pytest.mark.spec("DX-46", "R-08")
def test_the_size_of_the_context_is_that_of_the_last_call_and_no_sum() -> None:
    bench = Bench(tools=[look])
    looks = [reply(call("look", {"page": n}), usage=Usage(20_000, 10, cache_read=900)) for n in range(9)]
    bench.run(*looks, reply("done", usage=Usage(30, 2)))
    sizes = [event.context for event in bench.events if isinstance(event, UsageUpdated)]
    assert sizes == [20_900] * 9 + [30]


@pytest.mark.spec("R-08", "R-13", "W-05")
def test_the_window_is_looked_at_before_each_call_of_the_turn() -> None:
    """The talk is short when the turn begins; what the turn itself reads makes it too long."""
    bench, mind = Bench(tools=[read], model=SMALL), Busy(6)
    assert bench.run(mind).text == "done"
    sizes = [_size(request) for request in mind.asked]
    assert len(sizes) == 7
    assert max(sizes) < 8_000 * 4, "never more than the window holds"
    assert any(after < before for before, after in pairwise(sizes)), "and so something had to go"


@pytest.mark.spec("R-13")
def test_the_same_talk_is_measured_by_the_window_of_the_model_that_is_asked() -> None:
    base = talked(120)
    small, large = Mind(), Mind()
    Bench(model=SMALL, base=base).run(small)
    Bench(model=Model("scripted", "large", window=200_000), base=base).run(large)
    assert len(small.asked[0].messages) < len(large.asked[0].messages) == 121
    assert (small.condensed > 0, large.condensed) == (True, 0)


class Busy(Mind):
    """Asks for its tool so often before it answers."""

    def __init__(self, calls: int) -> None:
        super().__init__()
        self._left = calls

    def __call__(self, request: ModelRequest) -> Reply:
        answer = super().__call__(request)
        if BEGIN in request.messages[-1].text or self._left == 0:
            return answer
        self._left -= 1
        return reply(call("read", {"page": self._left}), usage=Usage(input=max(1, _size(request) // 4), output=5))


def _size(request: ModelRequest) -> int:
    """Characters of all that was said and read."""
    said = sum(len(message.text) for message in request.messages)
    return said + sum(len(result.content) for message in request.messages for result in message.tool_results)


# ── compaction ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("CP-07", "DX-77", "DX-40")
def test_the_system_prompt_and_the_tools_are_those_before_a_compaction() -> None:
    bench, mind = Bench(model=SMALL, base=talked(120), tools=[look]), Mind()
    bench.run(mind)
    (request,) = mind.asked
    assert mind.condensed >= 1
    assert (request.system, [spec.name for spec in request.tools]) == ("Be good.", ["look"])
    assert [message for message in request.messages if message.role == "system"] == [], "none in the middle either"


def test_layers_can_tell_that_earlier_messages_were_condensed() -> None:
    seen: list[tuple[bool, bool]] = []

    async def watch(ctx: StepContext) -> StepResult:
        before = any(map(is_summary, ctx.conversation.next_messages))
        result = await ctx.next()
        seen.append((before, any(map(is_summary, ctx.conversation.next_messages))))
        return result

    Bench(model=SMALL, base=talked(120), step=[watch]).run(Mind())
    Bench(model=SMALL, base=talked(10), step=[watch]).run(Mind())
    assert seen == [(False, True), (False, False)]


@pytest.mark.spec("CP-21")
def test_what_a_layer_pins_stays_however_old_it_is() -> None:
    async def pin(ctx: TurnContext) -> TurnResult:
        ctx.emit_message_event(Patch("b4", {"pinned": True}))
        return await ctx.next()

    mind, unpinned = Mind(), Mind()
    Bench(model=SMALL, base=talked(120), turn=[pin]).run(mind)
    Bench(model=SMALL, base=talked(120)).run(unpinned)
    assert "b4" in [message.id for message in mind.asked[0].messages]
    assert "b4" not in [message.id for message in unpinned.asked[0].messages]


@pytest.mark.spec("P-56")
def test_what_the_turn_did_is_kept_before_anything_is_condensed_and_no_tool_is_run_for_it() -> None:
    """The history was kept by its own turns. Of this one every call and result is on disk when the summary is asked
    for; what is taken away is a later event, and nothing else is written anywhere.
    """
    bench = Bench(model=SMALL, tools=[read], base=talked(60), settings=AgentSettings(max_steps=20))
    kept: list[tuple[int, int]] = []

    class Watching(Busy):
        def __call__(self, request: ModelRequest) -> Reply:
            if BEGIN in request.messages[-1].text:
                events = [event for group in bench.memory.groups for event in group]
                told = [event for event in events if isinstance(event, Append) and event.message.role == "tool"]
                kept.append((len(told), len(bench.results)))
            return super().__call__(request)

    bench.run(Watching(12))
    assert kept, "a summary was asked for"
    assert [on_disk for on_disk, _ in kept] == [done for _, done in kept]
    assert bench.log is not None
    assert [event for event in bench.log.conversation.events if isinstance(event, Replace | Truncate)]
    assert [use.name for use in bench.results] == ["read"] * 12, "only what the model asked for"


# ── trying again ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("RT-04", "RT-05")
def test_trying_again_is_within_the_model_call_and_no_layer_notices() -> None:
    steps: list[int] = []

    async def count(ctx: StepContext) -> StepResult:
        steps.append(ctx.index)
        return await ctx.next()

    bench = Bench(step=[count])
    result = bench.run(fails(Overloaded("x")), fails(ServerFailed("x")), "here")
    assert (steps, result.steps, result.text) == ([0], 1, "here")
    assert len(requests(bench)) == 3
    assert [request.messages for request in requests(bench)] == [requests(bench)[0].messages] * 3


@pytest.mark.spec("RT-05", "RT-01")
def test_pauses_grow_and_have_a_bound() -> None:
    bench = Bench()
    bench.run(fails(Overloaded("x")), fails(RateLimited("x")), "here")
    first, second = [event.wait_s for event in bench.events if isinstance(event, ModelRetried)]
    assert 0 < first <= second <= LONGEST_PAUSE
    assert bench.clock.monotonic() == pytest.approx(first + second, abs=0.01)


@pytest.mark.spec("RT-01", "DX-47")
def test_whoever_is_stopped_in_a_pause_asks_no_more() -> None:
    bench = Bench()

    async def stopped() -> None:
        turn = asyncio.create_task(bench.go(fails(Overloaded("x")), "never asked"))
        await bench.clock.sleep(0.5)
        assert [event for event in bench.events if isinstance(event, ModelRetried)], "it waits"
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn

    bench.clock.run(stopped())
    assert len(requests(bench)) == 1
    assert bench.clock.monotonic() < 1
