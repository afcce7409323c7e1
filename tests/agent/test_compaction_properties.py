"""What holds for every compaction of every turn, whatever the conversation, the model's window and the summariser."""

import asyncio
from collections.abc import Sequence
from typing import Any, get_args

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.agent.talk import AT, asks, conversations, count, count_text, entry, judge, new_correction, talk, tells
from tests.machine import examples

from finclaw.agent.window.compaction.compact import MARGIN, Compactor
from finclaw.agent.window.compaction.options import Compaction, Options, Strategy, is_summary
from finclaw.agent.window.compaction.summary import FellBack, Summaries
from finclaw.agent.window.context_window import MOST_SUMMARIES, ContextGuard, ContextPolicy
from finclaw.agent.window.size import Breakdown, Capacity, ContextNotifier, ContextSize
from finclaw.errors import ContextTooLong, Overloaded
from finclaw.kernel.chunk import Model
from finclaw.kernel.event import ContextStatusChanged, Event
from finclaw.kernel.message import Append, Message, Text
from finclaw.kernel.scope import Ids
from finclaw.transcript.conversation import Conversation

STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
IDS = Ids(agent="main", session="s", inbound_id="i", turn_id="t")
WINDOWS = st.one_of(st.sampled_from([4_096, 8_192, 32_768, 200_000]), st.integers(4_096, 400_000))
GOOD = "They spoke of AAPL."
SUMMARIES = st.sampled_from([GOOD, "", "long " * 20_000, None])
"""What the summariser says; None: it is not there."""


class Counted(Summaries):
    """Counts how often a summary was asked for, in however many parts it then came."""

    times = 0

    async def __call__(
        self, messages: Sequence[Message], tokens: int, fell_back: FellBack, sizes: Sequence[int]
    ) -> str | None:
        self.times += 1
        return await super().__call__(messages, tokens, fell_back, sizes)


class Turn:
    """A turn's conversation under guard; `resumed` is a new life of it, with only the events to go by."""

    def __init__(self, base: Sequence[Message], window: int, says: str | None, **policy: Any) -> None:
        self.model = Model("p", "m", window=window, max_output=4_096)
        self.events: list[Event] = []
        self.conversation = Conversation(base)
        self.conversation.push(Append(entry("now", "user", "and now?")))
        self.summaries = Counted(self._write, count, count_text, window)
        self._says = says
        self._policy = ContextPolicy(**policy)
        self.guard = self.resumed()

    def resumed(self) -> ContextGuard:
        return ContextGuard(
            self.conversation,
            self.conversation.push,
            input_id="now",
            size=ContextSize(count, count_text, new_correction),
            compact=Compactor(self.summaries, count, count_text, lambda: AT),
            emit=self.events.append,
            ids=IDS,
            policy=self._policy,
        )

    async def _write(self, messages: Sequence[Message], limit: int) -> str:
        if self._says is None:
            raise Overloaded("busy")
        return self._says

    async def fit(self) -> int:
        return await self.guard.fit(self.model, 1_024, "Be brief.", ())

    def work(self, number: int, result: str) -> None:
        self.conversation.push(Append(asks(f"ask {number}", f"call {number}")))
        self.conversation.push(Append(tells(f"told {number}", (f"call {number}", result))))

    @property
    def size(self) -> int:
        return sum(map(count, self.conversation.next_messages)) + count_text("Be brief.")


def calls_and_results(messages: Sequence[Message]) -> tuple[list[str], list[str]]:
    calls = [call.id for message in messages for call in message.tool_calls]
    return calls, [result.call_id for message in messages for result in message.tool_results]


@pytest.mark.spec("CP-10", "DX-38", "DX-40")
@given(
    messages=conversations(),
    part=st.floats(0.02, 1.0),
    strategy=st.sampled_from(STRATEGIES),
    recent=st.integers(0, 8),
    says=SUMMARIES,
)
def test_a_call_and_its_result_stay_together_or_go_together(
    messages: tuple[Message, ...], part: float, strategy: Strategy, recent: int, says: str | None
) -> None:
    done = compacted(messages, int(sum(map(count, messages)) * part), strategy, recent, says)
    calls, results = calls_and_results(done.messages)
    assert calls == results, "in this talk each call is answered by the message behind it"


def compacted(
    messages: Sequence[Message], target: int, strategy: Strategy, recent: int, says: str | None
) -> Compaction:
    async def write(_: Sequence[Message], limit: int) -> str:
        if says is None:
            raise Overloaded("busy")
        return says

    compactor = Compactor(Summaries(write, count, count_text, 50_000), count, count_text, lambda: AT)
    options = Options(target_tokens=target, strategy=strategy, recent=recent)
    return asyncio.run(compactor(messages, options, lambda before, after: None))


@pytest.mark.spec("W-05", "DX-37", "DX-40")
@settings(max_examples=examples(40), deadline=None)
@given(
    window=WINDOWS,
    times=st.floats(0.9, 6.0),
    results=st.integers(1, 3),
    before=st.integers(0, 6),
    strategy=st.sampled_from(STRATEGIES),
    says=SUMMARIES,
)
@example(window=4_000_000, times=1.5, results=1, before=2, strategy="hybrid", says=None)
@example(window=4_096, times=1_000.0, results=3, before=0, strategy="summarize", says="")
def test_a_result_larger_than_the_window_gets_through(
    window: int, times: float, results: int, before: int, strategy: Strategy, says: str | None
) -> None:
    """The last words a turn has read are cut, and the model is asked all the same: nothing else could be done."""

    async def live() -> None:
        turn = Turn(talk(before), window, says, strategy=strategy)
        giant = "12,345 row of figures\n" * int(window * times * 4 / 22)
        names = [f"call {number}" for number in range(results)]
        turn.conversation.push(Append(asks("ask", *names)))
        turn.conversation.push(Append(tells("told", *((name, giant) for name in names))))
        room = await turn.fit()
        messages = turn.conversation.next_messages
        assert turn.size + room <= window
        assert messages[-1].id == "told"
        assert [each.call_id for each in messages[-1].tool_results] == names
        assert all("characters left out]" in each.content for each in messages[-1].tool_results)
        judge(messages)

    asyncio.run(live())


@pytest.mark.spec("DX-40", "DX-63")
@settings(max_examples=examples(60), deadline=None)
@given(
    base=conversations(),
    window=WINDOWS,
    steps=st.lists(st.tuples(st.floats(0.01, 1.5), st.booleans(), st.booleans()), min_size=1, max_size=12),
    strategy=st.sampled_from(["summarize", "hybrid"]),
    says=SUMMARIES,
)
def test_no_turn_asks_for_more_than_two_summaries(
    base: tuple[Message, ...],
    window: int,
    steps: list[tuple[float, bool, bool]],
    strategy: Strategy,
    says: str | None,
) -> None:
    """However long it works and however often the model finds the request too long. A summary that came is counted
    also by the next life of the turn.
    """

    async def live() -> None:
        turn = Turn(base, window, says, strategy=strategy)
        for number, (part, overflows, crashes) in enumerate(steps):
            turn.guard = turn.resumed() if crashes and says == GOOD else turn.guard
            turn.work(number, "row\n" * int(window * part))
            try:
                await turn.fit()
                if overflows:
                    await turn.guard.shrink_after_refusal(turn.model, 1_024)
            except ContextTooLong:
                return
        assert turn.summaries.times <= MOST_SUMMARIES == 2

    asyncio.run(live())


# ── the summary's own room ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("CP-12", "DX-39")
@pytest.mark.parametrize("part", [0.5, 0.7])
def test_the_fullest_summary_leaves_a_fifth_of_its_room(part: float) -> None:
    """Its writer uses every token it may, and there are more facts than there is room for."""
    messages = tuple(message for number in range(40) for message in _orders(number))
    whole = sum(map(count, messages))
    read: list[int] = []

    async def write(given: Sequence[Message], limit: int) -> str:
        read.append(sum(map(count, given)))
        return "abcd" * limit

    compactor = Compactor(Summaries(write, count, count_text, 10**6), count, count_text, lambda: AT)
    options = Options(target_tokens=int(whole * part), strategy="summarize", recent=40)
    done = asyncio.run(compactor(messages, options, lambda before, after: None))
    (size,) = (count(message) for message in done.messages if is_summary(message))
    room = int(whole * part) - (whole - read[0])
    assert MARGIN == 1.2
    assert size * MARGIN <= room < size * MARGIN * 1.05


def _orders(number: int) -> list[Message]:
    """A question full of what must not be forgotten, and an answer."""
    facts = (f"ORD-{number:03}{n:02} of {number}{n},250.50 USD on 2025-01-{n + 1:02}." for n in range(12))
    return [
        entry(f"u{number}", "user", f"question {number}: {' '.join(facts)}"),
        entry(f"s{number}", "assistant", f"answer {number}: {'word ' * 40}"),
    ]


@pytest.mark.spec("CP-13", "DX-39")
@given(
    exchanges=st.integers(4, 40), part=st.floats(0.05, 0.9), recent=st.integers(0, 6), window=st.integers(4_096, 20_000)
)
def test_what_a_summary_may_take_is_what_is_left_for_it(exchanges: int, part: float, recent: int, window: int) -> None:
    """Never below zero; and where its writer has a small window, the parts share the same room."""
    messages = talk(exchanges)
    whole = sum(map(count, messages))
    target = max(400, int(whole * part))
    (limit, read), *_ = asked_for(messages, target, recent, window=10**6) or [(1, whole)]
    assert limit > 0
    assert limit * MARGIN <= target - (whole - read)
    parts = asked_for(messages, target, recent, window)
    assert sum(share for share, _ in parts) <= limit


def asked_for(messages: Sequence[Message], target: int, recent: int, window: int) -> list[tuple[int, int]]:
    """For each question to the summariser how long its answer may be, and how much it was given to read."""
    asked: list[tuple[int, int]] = []

    async def write(given: Sequence[Message], limit: int) -> str:
        asked.append((limit, sum(map(count, given))))
        return "They spoke."

    compactor = Compactor(Summaries(write, count, count_text, window), count, count_text, lambda: AT)
    options = Options(target_tokens=target, strategy="summarize", recent=recent)
    assert asyncio.run(compactor(messages, options, lambda before, after: None)).fits
    return asked


# ── the window ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("N-03", "DX-46")
@given(window=st.integers(1, 4_000_000), asked=st.integers(1, 200_000), tokens=st.integers(0, 10**9))
def test_ratio_and_remainder_are_figures_whatever_was_sent(window: int, asked: int, tokens: int) -> None:
    capacity = Capacity(window, asked)
    state = capacity.state(tokens, Breakdown())
    assert state.usage_ratio >= tokens / window
    assert 1 <= capacity.answer_room(tokens) <= asked
    if tokens < window:
        assert capacity.answer_room(tokens) <= window - tokens


@pytest.mark.spec("W-06", "W-01", "E-14", "DX-72")
def test_every_change_of_status_is_told_at_its_boundary_upwards_and_downwards() -> None:
    capacity, announcer, events = Capacity(100_000), ContextNotifier(), list[Event]()
    walk = [69_999, 70_000, 84_999, 85_000, 94_999, 95_000, 94_999, 85_000, 84_999, 70_000, 69_999]
    statuses: list[str] = []
    for tokens in walk:
        events.clear()
        announcer.tell(capacity.state(tokens, Breakdown()), capacity.table, events.append, IDS)
        told = [event for event in events if isinstance(event, ContextStatusChanged)]
        statuses.append("".join(event.status for event in told))
        assert all(event.ratio == round(tokens / 100_000, 4) for event in told)
    up, down = ["", "warning", "", "critical", "", "exceeded"], ["critical", "", "warning", "", "safe"]
    assert statuses == up + down


# ── what is handed in ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("CP-18")
def test_another_counter_and_another_summariser_need_no_model() -> None:
    """A message is a token here, and a word of a summary is none: so eight of nine have to go, and one stands in."""
    heard: list[int] = []

    async def write(messages: Sequence[Message], limit: int) -> str:
        heard.append(len(messages))
        return "SUMMARY"

    def one(message: Message) -> int:
        return 100

    compactor = Compactor(Summaries(write, one, lambda text: 0, 10**6), one, lambda text: 0, lambda: AT)
    messages = tuple(entry(f"{n}", "user", f"word {n}") for n in range(9))
    options = Options(target_tokens=700, strategy="summarize", recent=2)
    done = asyncio.run(compactor(messages, options, lambda before, after: None))
    assert (done.before_tokens, done.after_tokens) == (900, 100 * len(done.messages))
    assert heard == [7]
    assert done.messages[0].blocks[0] == Text(done.messages[0].text)
    assert "SUMMARY" in done.messages[0].text
    assert done.messages[1:] == messages[7:]


@pytest.mark.spec("CP-02", "CP-03")
def test_every_option_does_something_and_the_result_tells_all() -> None:
    """Strategy, target and recent messages are options; the system prompt is no message, so nothing can take it."""
    messages = talk(10)
    whole = sum(map(count, messages))
    for strategy in STRATEGIES:
        half = compacted(messages, whole // 2, strategy, 2, "They spoke of AAPL.")
        third = compacted(messages, whole // 3, strategy, 2, "They spoke of AAPL.")
        assert third.after_tokens <= whole // 3 < half.before_tokens == whole
        assert half.after_tokens <= whole // 2
        for done in (half, third):
            assert done.messages[-2:] == messages[-2:]
            assert done.removed_count == len(messages) - len(done.messages)
            assert (done.summary is None) == ("They spoke of AAPL." not in done.messages[0].text)
    kept = [compacted(messages, whole // 2, "summarize", recent, "x").messages[1:] for recent in (0, 4, 8)]
    assert [len(each) for each in kept] == sorted({len(each) for each in kept}), "more is kept where more is asked for"
    assert all(is_summary(compacted(messages, whole // 2, "summarize", n, "x").messages[0]) for n in (0, 4, 8))
