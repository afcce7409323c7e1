"""The window guard: one table of thresholds, sums that follow the conversation, and requests that always fit."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.agent.talk import (
    AT,
    FRAME,
    asks,
    conversations,
    count,
    count_text,
    entry,
    judge,
    new_correction,
    talk,
    tells,
)
from tests.machine import examples

from finclaw.agent.window.compaction.compact import Compactor
from finclaw.agent.window.compaction.options import is_summary
from finclaw.agent.window.compaction.summary import Summaries
from finclaw.agent.window.context_window import MOST_SUMMARIES, ContextGuard, ContextPolicy
from finclaw.agent.window.size import (
    Breakdown,
    Capacity,
    ContextNotifier,
    ContextSize,
    Status,
    Thresholds,
    part_of,
)
from finclaw.agent.window.tokens import CorrectionFactor
from finclaw.errors import ConfigError, ContextTooLong, Overloaded
from finclaw.kernel.chunk import Model, ToolSpec, Usage
from finclaw.kernel.event import (
    CompactionFellBack,
    ContextCompacted,
    ContextStatusChanged,
    ContextThresholdCrossed,
    Event,
)
from finclaw.kernel.message import Append, Message, MessageEvent, Patch, Remove, Replace, ToolStarted, Truncate
from finclaw.kernel.scope import Ids
from finclaw.transcript.conversation import Conversation

LARGE = Capacity(100_000)
IDS = Ids(agent="main", session="s", inbound_id="i", turn_id="t")
ONE, TWO = Model("a", "one"), Model("b", "two")
TOOL = ToolSpec("market__quote", "A price.", {"type": "object"})


# ── the table ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("W-01", "W-02", "W-06", "DX-72", "CP-20")
@pytest.mark.parametrize(
    ("tokens", "status", "compact"),
    [
        (0, "safe", False),
        (69_999, "safe", False),
        (70_000, "warning", False),
        (84_999, "warning", False),
        (85_000, "critical", True),
        (94_999, "critical", True),
        (95_000, "exceeded", True),
        (10**9, "exceeded", True),
    ],
)
def test_the_status_changes_exactly_at_the_threshold(tokens: int, status: Status, compact: bool) -> None:
    state = LARGE.state(tokens, Breakdown(conversation=tokens))
    assert (state.status, state.compaction_needed) == (status, compact)
    assert (state.current_tokens, state.max_tokens, state.usage_ratio) == (tokens, 100_000, tokens / 100_000)


@pytest.mark.spec("W-04", "DX-37")
@pytest.mark.parametrize(
    ("window", "floor"),
    [(4_096, 2_048), (8_192, 4_096), (32_767, 16_383), (32_768, 16_384), (65_536, 32_768), (200_000, 32_768)],
)
def test_the_floor_is_a_fraction_of_small_windows(window: int, floor: int) -> None:
    assert Capacity(window).floor == floor


@pytest.mark.spec("DX-37", "W-02")
def test_the_reserve_is_what_the_answer_may_need() -> None:
    assert Capacity(200_000, asked=1_000).reserve == 4_096, "the configured one"
    assert Capacity(200_000, asked=32_000).reserve == 32_000, "or what is asked for"
    assert Capacity(8_192, asked=4_096).reserve == 2_048, "but never most of the window"
    assert Capacity.of(Model("p", "m", window=200_000, max_output=8_000), 64_000, Thresholds()).asked == 8_000


@pytest.mark.spec("W-04", "W-05", "DX-37")
@given(st.integers(4_096, 4_000_000), st.integers(1, 128_000))
def test_every_window_compacts_in_time_and_to_something(window: int, asked: int) -> None:
    capacity = Capacity(window, asked)
    stop, compact = capacity.at(0.95), capacity.at(0.85)
    assert 0 < capacity.target < compact < stop <= capacity.limit + 1 <= window
    assert capacity.status(capacity.limit + 1) == "exceeded"
    assert capacity.state(compact, Breakdown()).compaction_needed, "the floor is never in the way"
    assert not capacity.state(capacity.target, Breakdown()).compaction_needed
    assert 1 <= capacity.answer_room(compact) <= asked
    assert capacity.answer_room(compact) + compact <= window


@pytest.mark.spec("DX-46", "N-03")
@pytest.mark.parametrize("window", [0, -1])
def test_a_window_of_nothing_is_refused_in_words(window: int) -> None:
    with pytest.raises(ConfigError, match="declare the model's real `window`"):
        Capacity(window)


@pytest.mark.parametrize("wrong", [{"warn": 0.9}, {"stop": 1.0}, {"target": 0.0}, {"notify": 0.85}, {"reserve": -1}])
def test_a_table_that_does_not_rise_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        Thresholds(**wrong)


# ── the gauge ───────────────────────────────────────────────────────────────────────────────────────────────


def naive(conversation: Conversation) -> Breakdown:
    sums = {"conversation": 0, "tool_results": 0, "summary": 0}
    for message in conversation.next_messages:
        sums[part_of(message)] += count(message)
    return Breakdown(**sums)


@pytest.mark.spec("W-03", "DX-37")
def test_tokens_are_told_by_their_source() -> None:
    base = (
        entry("s", "user", "x" * 400, summary={"messages": 9}),
        entry("u", "user", "x" * 40),
        asks("a", "c"),
        tells("t", ("c", "x" * 4_000)),
    )
    gauge = ContextSize(count, count_text, new_correction)
    gauge.follow(Conversation(base))
    gauge.head("y" * 80, (TOOL,))
    parts = gauge.breakdown
    assert (parts.system, parts.summary, parts.tool_results) == (20, 100 + FRAME, 1_000 + FRAME)
    assert parts.conversation == count(base[1]) + count(base[2])
    assert parts.tools > 10
    assert parts.total == gauge.counted == gauge.tokens


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["append", "append", "append", "passing", "remove", "replace", "rename", "patch", "mark"])
        | st.sampled_from(["truncate", "started", "look", "look", "turn"]),
        st.integers(0, 30),
    ),
    max_size=40,
)


def _event(kind: str, number: int, serial: int, there: Sequence[Message]) -> MessageEvent | ToolStarted | None:
    target = there[number % len(there)] if there else entry("none", "user", ".")
    fresh = entry(f"n{serial}", "user", "x" * number * 10, pinned=bool(number % 2))
    note = entry(f"n{serial}", "system", "x" * number * 3, passing=f"key {number % 3}")
    return {
        "append": Append(tells(f"n{serial}", (f"c{serial}", "x" * number)) if number % 3 == 0 else fresh),
        "passing": Append(note),
        "remove": Remove(target.id),
        "replace": Replace(target.id, entry(target.id, target.role, "y" * number)),
        "rename": Replace(target.id, entry(f"n{serial}", target.role, "y" * number)),
        "patch": Patch(target.id, {"seen": 1}),
        "mark": Patch(target.id, {"summary": {"messages": 2}}),
        "truncate": Truncate(number),
        "started": ToolStarted("c", "market__quote"),
    }.get(kind)


@pytest.mark.spec("W-03")
@settings(max_examples=examples(200))
@given(conversations(), EVENTS)
def test_the_sums_are_those_of_a_recount(base: tuple[Message, ...], events: list[tuple[str, int]]) -> None:
    gauge = ContextSize(count, count_text, new_correction)
    conversation = Conversation([each for each in base if not each.passing])  # the fold has left those out
    gauge.follow(conversation)
    for serial, (kind, number) in enumerate(events):
        event = _event(kind, number, serial, conversation.next_messages)
        if event is not None:
            conversation.push(event)
        elif kind == "look":
            gauge.follow(conversation)
            assert gauge.breakdown == naive(conversation)
        else:  # the next turn: passing messages are gone
            gauge.follow(conversation)
            conversation = Conversation(conversation.lasting_messages)
            gauge.follow(conversation)
            assert gauge.breakdown == naive(conversation)
    gauge.follow(conversation)
    assert gauge.breakdown == naive(conversation)


# ── measured usage ──────────────────────────────────────────────────────────────────────────────────────────


def measuring(exchanges: int = 20) -> tuple[ContextSize, Conversation]:
    corrections = {ONE: learned(1.5), TWO: learned(1.0)}
    gauge, conversation = ContextSize(count, count_text, corrections.__getitem__), Conversation(talk(exchanges))
    gauge.follow(conversation)
    return gauge, conversation


def learned(ratio: float) -> CorrectionFactor:
    """As after many answers of a model that counts so much more than we do."""
    correction = CorrectionFactor()
    for _ in range(20):
        correction.learn(10_000, int(10_000 * ratio))
    return correction


@pytest.mark.spec("DX-46", "N-03")
def test_the_size_is_that_of_the_last_request_as_the_model_measured_it() -> None:
    gauge, conversation = measuring()
    gauge.use(ONE)
    answer = entry("answer", "assistant", "z" * 400)
    sent = int(gauge.counted * 1.5)
    gauge.note_usage(Usage(input=sent - 900, cache_read=600, cache_write=300, output=130), answer)
    conversation.push(Append(answer))
    gauge.follow(conversation)
    assert gauge.tokens == sent + 130, "cached tokens are in the window too, and so is the answer"
    conversation.push(Append(entry("more", "user", "z" * 400)))
    gauge.follow(conversation)
    assert abs(gauge.tokens - (sent + 130 + 1.5 * (100 + FRAME))) <= 2
    for turn in range(10):
        gauge.note_usage(Usage(input=sent, output=10), entry(f"{turn}", "assistant", "."))
    assert gauge.tokens < 2 * sent, "calls do not add up"


@pytest.mark.spec("DX-46")
@pytest.mark.parametrize("usage", [Usage(), Usage(output=50), Usage(input=10**12), Usage(input=1)])
def test_figures_that_cannot_be_are_not_believed(usage: Usage) -> None:
    gauge, _ = measuring()
    before = gauge.tokens
    gauge.note_usage(usage, entry("answer", "assistant", "."))
    assert gauge.tokens == before


def test_another_model_begins_without_what_the_first_measured() -> None:
    gauge, _ = measuring()
    gauge.use(ONE)
    gauge.note_usage(Usage(input=int(gauge.counted * 1.4)), entry("answer", "assistant", "."))
    gauge.use(ONE)
    assert gauge.tokens < 1.45 * gauge.counted, "as it was measured, not as it was estimated"
    gauge.use(TWO)
    assert gauge.tokens == gauge.counted


def test_a_refusal_as_too_long_corrects_the_count_above_the_limit() -> None:
    gauge, _ = measuring()
    gauge.use(TWO)
    gauge.note_overflow(limit=3 * gauge.counted)
    assert gauge.tokens >= 3 * gauge.counted - 1


# ── the guard ───────────────────────────────────────────────────────────────────────────────────────────────


class Turn:
    """A turn's conversation under guard."""

    def __init__(self, base: Sequence[Message], *, summary: str | Overloaded = "They spoke of AAPL.", **policy: Any):
        self.events: list[Event] = []
        self.asked = 0
        self.writing = asyncio.Event()
        self.conversation = Conversation(base)
        self.conversation.push(Append(entry("now", "user", "and now?")))
        self._summary = summary
        self.gauge = ContextSize(count, count_text, new_correction)
        self._policy = ContextPolicy(**policy)
        self.guard = self.guarded()

    def guarded(self) -> ContextGuard:
        compact = Compactor(Summaries(self._write, count, count_text, 50_000), count, count_text, lambda: AT)
        return ContextGuard(
            self.conversation,
            self.conversation.push,
            input_id="now",
            size=self.gauge,
            compact=compact,
            emit=self.events.append,
            ids=IDS,
            policy=self._policy,
        )

    async def _write(self, messages: Sequence[Message], limit: int) -> str:
        self.asked += 1
        self.writing.set()
        await asyncio.sleep(0)
        if isinstance(self._summary, Overloaded):
            raise self._summary
        return self._summary

    async def fit(self, window: int, system: str = "Be brief.") -> int:
        return await self.guard.fit(model(window), 1_024, system, (TOOL,))

    def told(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


def model(window: int, name: str = "m") -> Model:
    return Model("p", name, window=window, max_output=4_096)


def window_for(turn: Turn, ratio: float) -> int:
    """Such that the turn's next request has this ratio of it."""
    turn.gauge.head("Be brief.", (TOOL,))
    return next(
        window
        for window in range(4_096, 10**6)
        if Capacity.of(model(window), 1_024, Thresholds()).ratio(turn.gauge.tokens) <= ratio
    )


@pytest.mark.spec("N-04", "N-05", "E-22")
@pytest.mark.parametrize(
    ("tokens", "told"),
    [(79_000, []), (79_999, []), (80_000, [0.8]), (94_999, [0.8]), (95_000, [0.8, 0.95]), (10**9, [0.8, 0.95])],
)
def test_a_threshold_is_told_exactly_when_it_is_reached(tokens: int, told: list[float]) -> None:
    announcer, events = ContextNotifier(), list[Event]()
    for _ in range(3):
        announcer.tell(LARGE.state(tokens, Breakdown()), LARGE.table, events.append, IDS)
    assert [event.threshold for event in events if isinstance(event, ContextThresholdCrossed)] == told


@pytest.mark.spec("N-04", "N-05", "DX-46", "DX-72", "E-14", "E-22", "CP-20")
async def test_each_threshold_is_told_once_at_its_boundary_and_again_after_it_was_left() -> None:
    turn = Turn(talk(60))
    for ratio in (0.69, 0.79, 0.801, 0.82, 0.84):
        await turn.fit(window_for(turn, ratio))
    assert [event.status for event in turn.told(ContextStatusChanged)] == ["warning"]
    crossed = turn.told(ContextThresholdCrossed)
    assert [event.threshold for event in crossed] == [0.8]
    assert 0.80 <= crossed[0].ratio <= 0.801
    assert (crossed[0].agent, crossed[0].session, crossed[0].turn_id) == ("main", "s", "t")
    await turn.fit(window_for(turn, 0.5))
    await turn.fit(window_for(turn, 0.81))
    assert [event.threshold for event in turn.told(ContextThresholdCrossed)] == [0.8, 0.8]
    assert [event.status for event in turn.told(ContextStatusChanged)] == ["warning", "safe", "warning"]


@pytest.mark.spec("N-04", "N-05", "E-14", "E-15", "E-22", "W-05")
async def test_at_the_hard_stop_both_are_told_and_it_is_safe_afterwards() -> None:
    turn = Turn(talk(60))
    window = window_for(turn, 0.96)
    room = await turn.fit(window)
    assert [event.threshold for event in turn.told(ContextThresholdCrossed)] == [0.8, 0.95]
    assert [event.status for event in turn.told(ContextStatusChanged)] == ["exceeded", "safe"]
    (compacted,) = turn.told(ContextCompacted)
    assert compacted.after < compacted.before
    assert compacted.fits
    assert room == 1_024
    assert turn.gauge.tokens <= Capacity.of(model(window), 1_024, Thresholds()).target
    judge(turn.conversation.next_messages)


@pytest.mark.spec("E-16", "CP-16")
async def test_falling_back_is_told() -> None:
    turn = Turn(talk(60, result=20), summary=Overloaded("busy"), strategy="summarize")
    await turn.fit(window_for(turn, 0.96))
    told = [(event.from_strategy, event.to_strategy) for event in turn.told(CompactionFellBack)]
    assert told == [("summarize", "summarize-parts"), ("summarize-parts", "truncate-oldest")]


@pytest.mark.spec("DX-72", "W-04")
async def test_nothing_happens_below_the_threshold() -> None:
    turn = Turn(talk(60))
    before = turn.conversation.next_messages
    await turn.fit(window_for(turn, 0.84))
    assert turn.conversation.next_messages is before
    assert turn.asked == 0


@pytest.mark.spec("DX-63")
async def test_no_more_than_two_summaries_in_one_turn_even_when_it_is_resumed() -> None:
    turn = Turn(talk(60, words=4_000, result=20), strategy="summarize")
    for number in range(8):
        await turn.fit(20_000)
        turn.guard = turn.guarded() if number % 2 else turn.guard
        turn.conversation.push(Append(asks(f"ask {number}", f"call {number}")))
        turn.conversation.push(Append(tells(f"told {number}", (f"call {number}", "row\n" * 12_000))))
    assert 1 <= turn.asked <= MOST_SUMMARIES * 3, "each of them may take a try at all and one in parts"
    assert len(turn.told(ContextCompacted)) > 2
    judge(turn.conversation.next_messages)


@pytest.mark.spec("DX-47", "W-05")
async def test_a_request_that_the_model_found_too_long_is_made_shorter_each_time() -> None:
    turn = Turn(talk(60))
    window = window_for(turn, 0.60)
    await turn.fit(window)
    sizes = [turn.gauge.counted]
    while await turn.guard.shrink_after_refusal(model(window), 1_024):
        sizes.append(turn.gauge.counted)
        judge(turn.conversation.next_messages)
    assert len(sizes) > 2
    assert sizes == sorted(sizes, reverse=True)
    assert "now" in [message.id for message in turn.conversation.next_messages]


async def test_what_cannot_be_made_to_fit_is_refused_in_words() -> None:
    turn = Turn([])
    with pytest.raises(ContextTooLong, match="choose a model with a larger window"):
        await turn.fit(4_096, system="law " * 5_000)


async def test_much_before_the_messages_leaves_room_for_what_was_read_last() -> None:
    turn = Turn(talk(20))
    for number in range(12):
        turn.conversation.push(Append(asks(f"ask {number}", f"call {number}")))
        turn.conversation.push(Append(last := tells(f"told {number}", (f"call {number}", "row\n" * 240))))
        await turn.fit(16_000, system="law " * 9_000)
        assert turn.conversation.next_messages[-1] == last, "not cut"
    assert 2 <= len(turn.told(ContextCompacted)) <= 12


async def test_what_is_said_while_a_summary_is_written_is_not_lost() -> None:
    turn = Turn(talk(60, result=20), strategy="summarize")
    task = asyncio.create_task(turn.fit(window_for(turn, 0.96)))
    await turn.writing.wait()
    turn.conversation.push(Append(entry("meanwhile", "user", "and another thing")))
    await task
    ids = [message.id for message in turn.conversation.next_messages]
    assert ids[-2:] == ["now", "meanwhile"]
    assert any(is_summary(message) for message in turn.conversation.next_messages)
    judge(turn.conversation.next_messages)


async def test_a_smaller_model_gets_a_shorter_conversation() -> None:
    turn = Turn(talk(100))
    await turn.guard.fit(model(1_000_000, "large"), 1_024, "", ())
    assert turn.events == []
    assert await turn.guard.fit(model(4_096, "small"), 1_024, "", ()) == 1_024
    assert turn.gauge.tokens <= 2_048
    assert Capacity.of(model(4_096, "small"), 1_024, Thresholds()).status(turn.gauge.tokens) == "safe"


@pytest.mark.spec("W-05", "DX-37")
@settings(max_examples=examples(60))
@given(conversations(), st.sampled_from([4_096, 8_192, 32_768, 200_000, 4_000_000]), st.floats(0.6, 1.8))
def test_no_request_is_larger_than_the_model_takes(base: tuple[Message, ...], window: int, truth: float) -> None:
    """The model counts otherwise than we do, and tells so after each answer."""

    async def live() -> None:
        turn = Turn(base)
        for step in range(4):
            try:
                room = await turn.fit(window)
            except ContextTooLong:
                held = [each for each in base if each.metadata.get("pinned") or each.passing]
                assert sum(map(count, held)) * 2 > window // 4, "only what may not be touched can be too much"
                return
            assert turn.gauge.tokens + room <= window
            judge(turn.conversation.next_messages)
            answer = asks(f"ask {step}", f"call {step}")
            turn.guard.note_usage(Usage(input=int(turn.gauge.counted * truth), output=20), answer)
            turn.conversation.push(Append(answer))
            turn.conversation.push(Append(tells(f"told {step}", (f"call {step}", "row of figures\n" * 20_000))))

    asyncio.run(live())
