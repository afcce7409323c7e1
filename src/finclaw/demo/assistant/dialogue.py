"""The dialogue so far, as the assistant needs it: the last thing said, and what it had looked up before that."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from finclaw.kernel.message import Message, Text, ToolCall, ToolResult

_LOOK_BACK = 8
"""Messages of a person. What was spoken of before that is no longer what "it" means."""


class Candidate(Struct, frozen=True):
    symbol: str
    name_en: str
    name_ko: str


class Exchange(Struct, frozen=True):
    """One thing a person said, and what the tools have found about it since."""

    text: str = ""
    message_id: str = ""
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()

    def result_of(self, call: ToolCall) -> ToolResult | None:
        return next((result for result in self.results if result.call_id == call.id), None)

    @property
    def answered_calls(self) -> tuple[ToolCall, ...]:
        """Calls that found what they looked for."""
        return tuple(call for call in self.calls if (result := self.result_of(call)) and not result.is_error)

    @property
    def symbols(self) -> tuple[str, ...]:
        """What was found, by its symbol: what "it" means now."""
        subjects = (
            fact.subject.partition("#")[0]
            for call in self.answered_calls
            if call.name in ("market__quote", "market__history", "market__chart", "market__compare", "alert__add")
            for fact in (self.result_of(call) or ToolResult("", "", "")).facts
            if fact.field in ("price", "start", "threshold", "close")
        )
        return tuple(dict.fromkeys(subjects))


class Dialogue(Struct, frozen=True):
    now: Exchange
    before: Exchange
    """The latest exchange that used a tool; an empty one when there was none."""
    offered: Exchange
    """The exchange right before this one: only its offers can be taken up."""


def read_dialogue(messages: Sequence[Message]) -> Dialogue:
    exchanges = _backwards(messages)
    now = next(exchanges, Exchange())
    last = next(exchanges, Exchange())
    before = last if last.calls else next((each for each in exchanges if each.calls), Exchange())
    return Dialogue(now, before, last)


def failure_of(result: ToolResult | None, *names: str) -> str | None:
    """The suggestion of a failure of one of these kinds, "" if it has none; None when it is no such failure."""
    if result is None or result.error is None or result.error.name not in names:
        return None
    return result.error.suggestion or ""


def candidates_of(result: ToolResult | None) -> tuple[str, tuple[Candidate, ...]]:
    """What was asked, and what it may have meant: `symbol | name | Korean name`, a line each."""
    asked, *lines = (failure_of(result, "AmbiguousName", "UnknownName") or "").split("\n")
    rows = (line.split(" | ") for line in lines)
    return asked, tuple(Candidate(*row) for row in rows if len(row) == 3)


def _backwards(messages: Sequence[Message]) -> Iterator[Exchange]:
    calls: list[ToolCall] = []
    results: list[ToolResult] = []
    left = _LOOK_BACK
    for message in reversed(messages):
        if message.role == "user":  # one without words too: a picture must not be answered with an old price
            yield Exchange(read_words(message), message.id, tuple(calls), tuple(results))
            calls, results = [], []
            left -= 1
            if not left:
                return
        calls[:0] = message.tool_calls
        results[:0] = message.tool_results
    if calls or results:
        yield Exchange("", "", tuple(calls), tuple(results))


def read_words(message: Message) -> str:
    """What the person wrote: the first text. Behind it may stand a note by the gateway about an attachment."""
    return next((block.text for block in message.blocks if isinstance(block, Text)), "")
