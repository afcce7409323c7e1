"""Every event there is: one canonical name each, emitted with the ids that apply, and every start with its one end."""

import asyncio
import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pytest
from tests.conformance.onion import Extending, Heard, extended
from tests.walks.house import AnyRegistration, Gateway, House, in_virtual_time, until
from tests.walks.tools import Desk, hang

from finclaw.agent.budget.settings import BudgetSettings
from finclaw.agent.settings import AgentSettings
from finclaw.agent.window.compaction.summary import BEGIN
from finclaw.config.schema import StorageSettings
from finclaw.diagnostics.event_stream import EventStream
from finclaw.errors import BadRequest, Overloaded, ProviderError, ToolError
from finclaw.kernel.chunk import ModelRequest, Usage
from finclaw.kernel.event import (
    CompactionFellBack,
    ContextCompacted,
    ContextThresholdCrossed,
    Event,
    ExecutionCompleted,
    ExecutionStarted,
    MessageAccepted,
    MessageEnded,
    PreviewUpdated,
    StepStarted,
    StreamDone,
    StreamFailed,
    ToolEndedEvent,
    ToolFailedEvent,
    ToolLooped,
    ToolStartedEvent,
    ToolUsed,
    UsageUpdated,
    all_events,
)
from finclaw.kernel.extension import ExtensionApi
from finclaw.kernel.message import Remove, ToolResult
from finclaw.kernel.port import Tool, ToolScope
from finclaw.kernel.scope import ToolCallContext, TurnContext, TurnResult
from finclaw.pipeline.settings import PipelineSettings, PoolSettings
from finclaw.providers.settings import ModelSettings
from finclaw.testing import Reply, call, delay, fails, reply, say
from finclaw.testing.provider import Line

LOOK = reply(call("look", {"text": "x"}))


def named(id: str, name: str, *fields: str) -> Any:
    return pytest.param(name, fields, id=name, marks=pytest.mark.spec(id))


@pytest.mark.spec("DX-43", "E-01")
def test_no_two_events_share_a_name() -> None:
    names = Counter(event.name for event in all_events())
    assert [name for name, times in names.items() if times > 1] == []
    assert all("name" in vars(event) for event in all_events()), "each has a name of its own, none inherits one"
    assert not [event for event in all_events() if event.__subclasses__()], "a kind below a kind would not be listed"


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        named("E-02", "tool:register", "tool", "group", "source"),
        named("E-03", "tool:unregister", "tool"),
        named("E-04", "tool:execute:start", "tool", "session", "call_id"),
        named("E-05", "tool:execute:end", "tool", "session", "call_id", "status", "duration_ms"),
        named("E-06", "tool:execute:error", "tool", "session", "call_id", "error"),
        named("E-07", "tool:execute:timeout", "tool", "session", "timeout"),
        named("E-10", "tool:circuit:change", "tool", "before", "after"),
        named("E-08", "tool:policy:verdict", "tool", "verdict", "stage"),
        named("E-09", "tool:policy:deny", "tool", "reason", "call_id"),
        named("E-11", "session:lock:acquire", "session", "owner"),
        named("E-12", "session:lock:release", "session"),
        named("E-13", "session:lock:stale", "session", "former"),
        named("E-14", "context:window:status", "session", "status", "ratio"),
        named("E-15", "context:compact", "session", "strategy", "before", "after"),
        named("E-16", "context:compact:fallback", "session", "from_strategy", "to_strategy"),
        named("E-22", "execution:context_threshold", "agent", "ratio", "threshold"),
        named("E-18", "execution:start", "agent", "session"),
        named("E-19", "execution:turn", "agent", "session", "step"),
        named("E-20", "execution:tool_use", "agent", "session", "tool", "status", "duration_ms"),
        named("E-21", "execution:complete", "agent", "session", "status", "steps", "duration_ms", "usage"),
        named("E-23", "tool:loop", "session", "tool", "action"),
        named("S-05", "stream:state_change", "before", "after"),
        named("S-05", "stream:text_delta", "text"),
        named("S-05", "stream:tool_use_start", "call_id", "tool"),
        named("S-05", "stream:tool_use_end", "call_id", "tool", "status"),
        named("S-05", "stream:message_complete", "message_id"),
        named("S-05", "stream:usage_update", "usage"),
        named("S-05", "stream:error", "error"),
        named("S-05", "stream:done", "status"),
    ],
)
@pytest.mark.spec("DX-43")
def test_the_seeds_names_are_canonical(name: str, fields: tuple[str, ...]) -> None:
    (event,) = (each for each in all_events() if each.name == name)
    assert set(fields) <= set(event.__struct_fields__)


@pytest.mark.spec("E-24", "E-01")
def test_a_name_that_is_none_is_refused_when_somebody_wants_to_hear_it() -> None:
    with pytest.raises(Exception, match="there is no event 'execution:strat'"):
        EventStream().observe(print, "execution:strat")


# ── all of them, emitted ────────────────────────────────────────────────────────────────────────────────────

ELSEWHERE = {
    *("session:lock:stale", "session:repair"),
    "tool:policy:deny",
    *("tool:execute:timeout", "tool:circuit:change"),
    "approval:change",
    "session:erased",
    "store:health",
    "queue:change",
}
"""They need a process that died, a torn file, rules about tools, tools that hang, somebody who decides or a busy
conversation: tests of those show them."""

OF_MODELS = {
    *("model:fallback", "budget:warning", "budget:exceeded"),
    *("context:window:status", "context:compact", "context:compact:fallback", "execution:context_threshold"),
}
"""They need a second model, a budget or a long talk: a walk of their own has those."""

NO_MESSAGE = {"tool:register", "tool:unregister", "session:lock:acquire", "session:lock:release"}
BEFORE_THE_TURN = {"message:stage", "message:outcome"}
"""Told also of messages that have no turn, or not yet."""


@pytest.mark.spec("DX-43", "S-05", "E-01", "E-02", "E-03", "E-04", "E-05", "E-06", "E-11", "E-12", "E-18", "E-19")
@pytest.mark.spec("E-20", "E-21", "E-23", "DX-51c")
@in_virtual_time
async def test_every_kind_is_really_emitted_and_carries_its_ids(house: House) -> None:
    """A tool, a failing tool, a loop, a short circuit, a missing target, a stall, a failure: in plain files."""
    heard: list[Event] = []

    async def layer(ctx: ToolCallContext) -> ToolResult:
        return ctx.skip() if ctx.tool_name == "look" else await ctx.next()

    async def clumsy(ctx: TurnContext) -> TurnResult:
        ctx.emit_message_event(Remove("nobody"))
        return await ctx.next()

    def register(api: ExtensionApi) -> None:
        api.events.observe(heard.append)
        api.pipeline.register("tool_call", layer)
        api.pipeline.register("turn", clumsy)
        api.tools.register(Desk().tool("look"))

    repeated = [reply(call("market__quote", {"symbol": "AAPL"}))] * 4
    script: list[Line] = [
        *repeated,
        reply(call("look")),
        reply(call("nowhere")),
        fails(Overloaded("busy")),
        "Done. Or so.",
        fails(ProviderError("down")),
    ]
    script.append(reply(delay(9_999), say("never")))
    async with extended(
        house, Extending("mine", register), script=script, storage=StorageSettings(kind="jsonl")
    ) as gateway:
        gateway.app.events.observe(heard.append, "tool:unregister")
        for text in ("AAPL?", "again", "and again"):
            await gateway.ask(text)
    assert {event.name for event in heard} == {kind.name for kind in all_events()} - ELSEWHERE - OF_MODELS
    untold = {f"{event.name} without {name}" for event in heard for name in _ids_of(event) if not getattr(event, name)}
    assert untold == set()
    assert len({event.session for event in heard if event.session}) == 1


LONG = "The order 4711 of 10 AAPL at 187.20 USD was placed on 2025-01-03 and is still open. " * 60
DEAR = ModelSettings(window=16_000, max_output=1_000, input_price=Decimal(1), output_price=Decimal(1))


@pytest.mark.spec("DX-43", "DX-51c", "DX-72", "E-14", "E-15", "E-16", "E-22", "N-06")
@in_virtual_time
async def test_the_kinds_that_tell_of_models_are_emitted_and_carry_their_ids(house: House) -> None:
    """A talk grows until it must be condensed, which the model will not do; then the money is spent, and the model
    that costs nothing answers.
    """
    heard: list[Event] = []

    def model(request: ModelRequest) -> Reply:
        if BEGIN in request.messages[-1].text:
            return fails(BadRequest("I condense nothing"))
        size = sum(len(message.text) for message in request.messages) + len(request.system) + len(str(request.tools))
        return reply("done", usage=Usage(input=size // 4, output=5))

    async with extended(
        house,
        Extending("mine", lambda api: api.events.observe(heard.append)),
        script=[model],
        models={"anthropic/claude-sonnet-4-6": DEAR},
        agent=AgentSettings(model="anthropic/claude-sonnet-4-6", max_tokens=1_000, fallbacks=("offline/demo",)),
        budget=BudgetSettings(user_day_usd=Decimal("0.09")),
    ) as gateway:
        for number in range(14):
            outcome = await gateway.ask(f"{number} {LONG}")
            assert outcome.kind == "answered"
    assert {event.name for event in heard} >= OF_MODELS
    untold = {f"{each.name} without {id}" for each in heard for id in _ids_of(each) if not getattr(each, id)}
    assert untold == set()
    crossed = [event.threshold for event in heard if isinstance(event, ContextThresholdCrossed)]
    assert set(crossed) <= {0.8, 0.95}
    fell_back = [event for event in heard if isinstance(event, CompactionFellBack)]
    assert fell_back[-1].to_strategy == "truncate-oldest"
    told = [event for event in heard if isinstance(event, ContextCompacted)]
    assert all(event.after < event.before and event.strategy for event in told)


def _ids_of(event: Event) -> list[str]:
    if event.name in ("tool:register", "tool:unregister"):
        return ["tool"]
    if event.name in NO_MESSAGE:
        return ["session", "owner"]
    if event.name == "session:event:missing_target":
        return []  # see below
    if event.name in ("message:accepted", "delivery:unit"):
        return ["session", "inbound_id"]  # doors and senders know no agent but the one in the session's key
    turn = [] if event.name in BEFORE_THE_TURN else ["turn_id"]
    calls = ["call_id"] if "call_id" in event.__struct_fields__ else []
    return ["agent", "session", "inbound_id", *turn, *calls]


@pytest.mark.spec("DX-61", "DX-51c")
@in_virtual_time
async def test_a_missing_target_is_told_with_the_turn_that_missed_it(house: House) -> None:
    async def clumsy(ctx: TurnContext) -> TurnResult:
        ctx.emit_message_event(Remove("nobody"))
        return await ctx.next()

    async with house.open("done", layers=[("turn", clumsy)]) as gateway:
        outcome = await gateway.ask("go")
        (told,) = (event for event in gateway.events if event.name == "session:event:missing_target")
        assert told.agent == "main"
        assert told.session
        assert (told.inbound_id != "", told.turn_id) == (True, outcome.turn_id)


@pytest.mark.spec("E-01", "R-12")
@in_virtual_time
async def test_a_listener_follows_a_turn_live_and_its_failure_touches_nothing(house: House) -> None:
    """Each piece of text is told when it comes, not at the end; a listener that raises keeps no other from hearing."""
    heard: list[tuple[float, str]] = []

    def broken(event: Event) -> None:
        raise RuntimeError("a listener's bug")

    slowly = reply(say("One. "), delay(2), say("Two. "), delay(2), say("Three."))
    async with house.open(slowly) as gateway:
        gateway.app.observe(broken)
        stop = gateway.app.observe(lambda event: heard.append((house.clock.monotonic(), event.name)))
        assert (await gateway.ask("count")).reply == "One. Two. Three."
        stop()
        stop()
    assert [at for at, name in heard if name == "stream:text_delta"] == [0.0, 2.0, 4.0]


# ── every start has its end ─────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Case:
    """A turn that ends in some way, and how its calls and it are to be told."""

    script: Sequence[Line]
    calls: Sequence[str]
    turn: str
    outcome: str = "answered"
    layers: Sequence[AnyRegistration] = ()
    stop_when: Callable[[Gateway, Desk], bool] | None = None
    agent: AgentSettings = field(default_factory=AgentSettings)
    pipeline: PipelineSettings = field(default_factory=PipelineSettings)


async def _fails(text: str, scope: ToolScope) -> str:
    raise ToolError("the market is closed")


async def _breaks(text: str, scope: ToolScope) -> str:
    raise RuntimeError("a tool's bug")


def _tools(desk: Desk) -> list[Tool]:
    return [
        desk.tool("look"),
        desk.tool("fail", _fails),
        desk.tool("break", _breaks),
        desk.tool("hang", hang, timeout=5),
        desk.tool("stay", hang, timeout=9_999),
        desk.tool("order", transactional=True),
    ]


async def _raise(ctx: Any) -> Any:
    raise RuntimeError("a layer's bug")


async def _raise_behind(ctx: Any) -> Any:
    await ctx.next()
    raise RuntimeError("a layer's bug")


async def _skip(ctx: ToolCallContext) -> ToolResult:
    return ctx.skip()


async def _answer(ctx: TurnContext) -> TurnResult:
    return TurnResult(status="completed", text="by itself")


def _asking(name: str) -> list[Line]:
    return [reply(call(name)), "done"]


CASES = {
    "success": Case(_asking("look"), ["ok"], "completed"),
    "no tool": Case(["done"], [], "completed"),
    "two at once": Case(
        [reply(call("look", {"text": "1"}), call("look", {"text": "2"})), "done"], ["ok"] * 2, "completed"
    ),
    "tool error": Case(_asking("fail"), ["error"], "completed"),
    "tool bug": Case(_asking("break"), ["error"], "completed"),
    "denied": Case(_asking("order"), ["denied"], "completed"),
    "no such tool": Case(_asking("nowhere"), ["error"], "completed"),
    "invalid arguments": Case([reply(call("look", {"text": 7})), "done"], ["invalid"], "completed"),
    "unreadable arguments": Case([reply(call("look", raw='{"text": ')), "done"], ["invalid"], "completed"),
    "timeout": Case(_asking("hang"), ["timeout"], "completed"),
    "skipped by a layer": Case(_asking("look"), ["skipped"], "completed", layers=[("tool_call", _skip)]),
    "tool layer fails": Case(_asking("look"), ["error"], "failed", "failed", [("tool_call", _raise)]),
    "tool layer fails behind": Case(_asking("look"), ["error"], "failed", "failed", [("tool_call", _raise_behind)]),
    "step layer fails": Case(["done"], [], "failed", "failed", [("step", _raise)]),
    "turn layer fails": Case(["done"], [], "failed", "failed", [("turn", _raise)]),
    "turn layer fails behind": Case(_asking("look"), ["ok"], "failed", "failed", [("turn", _raise_behind)]),
    "turn layer answers": Case([], [], "short_circuited", layers=[("turn", _answer)]),
    "model fails": Case([fails(ProviderError("down"))], [], "failed", "failed"),
    "stopped in a tool": Case(
        _asking("stay"), ["aborted"], "aborted", "stopped", stop_when=lambda gateway, desk: bool(desk.runs)
    ),
    "stopped in the model": Case(
        [reply(delay(99), say("late"))], [], "aborted", "stopped", stop_when=lambda gateway, desk: _begun(gateway)
    ),
    "out of time": Case(_asking("stay"), ["aborted"], "aborted", "failed", pipeline=PipelineSettings(timeout_ms=1000)),
    "max_steps": Case([LOOK, "closing"], ["ok"], "max_steps", agent=AgentSettings(max_steps=1)),
    "loop": Case([LOOK] * 8, [*["ok"] * 4, *["denied"] * 3, "error"], "failed", "failed"),
}


def _begun(gateway: Gateway) -> bool:
    return any(isinstance(event, StepStarted) for event in gateway.events)


@pytest.mark.spec("DX-27b", "DX-43", "E-04", "E-05", "E-06", "E-18", "E-20", "E-21", "R-05", "LN-02")
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
@in_virtual_time
async def test_every_start_has_exactly_one_end_with_its_outcome(house: House, case: Case) -> None:
    """And both its places are given back: the only seat of the pool, and the lane."""
    desk, one_seat = Desk(), dataclasses.replace(case.pipeline, pools=PoolSettings(main=1))
    async with house.open(
        *case.script, layers=case.layers, tools=_tools(desk), agent=case.agent, pipeline=one_seat
    ) as gateway:
        accepted = await gateway.channel.write("go")
        if case.stop_when is not None:
            stop_when = case.stop_when
            await until(lambda: stop_when(gateway, desk))
            assert gateway.app.stop_message(accepted.id)
        outcome = await gateway.outcome(accepted)
        await until(lambda: any(isinstance(event, MessageEnded) for event in gateway.events))
        events = list(gateway.events)
        for conversation in ("", "another"):
            assert await asyncio.wait_for(gateway.ask("again", conversation=conversation), 99)
    assert outcome.kind == case.outcome
    _one_end_for_each_call(events, case.calls)
    assert [type(event) for event in events if isinstance(event, MessageAccepted | MessageEnded)] == [
        MessageAccepted,
        MessageEnded,
    ]
    turn = [event for event in events if isinstance(event, ExecutionStarted | ExecutionCompleted | StreamDone)]
    assert [type(event) for event in turn] == [ExecutionStarted, StreamDone, ExecutionCompleted]
    assert [event.status for event in turn[1:] if not isinstance(event, ExecutionStarted)] == [case.turn] * 2
    assert bool([event for event in events if isinstance(event, StreamFailed)]) == (case.turn == "failed")


def _one_end_for_each_call(events: Sequence[Event], statuses: Sequence[str]) -> None:
    started = [event.call_id for event in events if isinstance(event, ToolStartedEvent)]
    ended = [event for event in events if isinstance(event, ToolEndedEvent)]
    assert sorted(started) == sorted(event.call_id for event in ended)
    assert [event.status for event in ended] == list(statuses)
    for end in ended:
        errors = [event for event in events if isinstance(event, ToolFailedEvent) and event.call_id == end.call_id]
        assert len(errors) == (end.status not in ("ok", "skipped", "aborted")), (
            f"{end.status}: told {len(errors)} times"
        )
        assert all(events.index(error) < events.index(end) for error in errors), "an error is told before the end"
    used = [event.call_id for event in events if isinstance(event, ToolUsed)]
    assert len(used) == len(set(used)), "a use is told once"
    assert set(used) <= set(started)


@pytest.mark.spec("E-19", "R-11")
@in_virtual_time
async def test_the_closing_answer_is_a_step_like_any_other(house: House) -> None:
    """Announced, so that as many steps are announced as the end tells; and its preview begins anew."""
    limit = AgentSettings(max_steps=1)
    script = [reply("Let me see. ", call("look")), "That is all. Goodbye."]
    async with house.open(*script, tools=[Desk().tool("look")], agent=limit) as gateway:
        await gateway.ask("go")
        steps = [event.step for event in gateway.events if isinstance(event, StepStarted)]
        (completed,) = (event for event in gateway.events if isinstance(event, ExecutionCompleted))
        previews = [event.at for event in gateway.events if isinstance(event, PreviewUpdated)]
    assert (steps, completed.steps) == ([0, 1], 2)
    assert previews[:2] == [0, 0]


@pytest.mark.spec("E-23", "LD-03")
@in_virtual_time
async def test_a_loop_is_told_with_what_was_done_about_it(house: House) -> None:
    async with house.open(*[LOOK] * 8, tools=[Desk().tool("look")]) as gateway:
        await gateway.ask("go")
        told = [(event.repeats, event.action) for event in gateway.events if isinstance(event, ToolLooped)]
    assert told == [(3, "warn"), (4, "warn"), (5, "refuse"), (6, "refuse"), (7, "refuse"), (8, "end")]


@pytest.mark.spec("S-05", "MT-07")
@in_virtual_time
async def test_usage_is_told_after_each_answer_for_the_whole_turn(house: House) -> None:
    async with house.open(LOOK, "done", tools=[Desk().tool("look")]) as gateway:
        await gateway.ask("go")
        told = [event.usage.input for event in gateway.events if isinstance(event, UsageUpdated)]
    assert told == [100, 200]


@pytest.mark.spec("EX-04", "E-24")
@in_virtual_time
async def test_whoever_closes_hears_no_more(house: House) -> None:
    heard = Heard()
    mine = Extending("mine", lambda api: api.events.observe(lambda event: heard.append(event.name)))
    async with extended(house, mine, script=["done"]) as gateway:
        await gateway.ask("go")
        stream = gateway.app.events
    before = len(heard)
    stream.emit(StepStarted(step=0))
    await asyncio.sleep(0)
    assert len(heard) == before > 0
