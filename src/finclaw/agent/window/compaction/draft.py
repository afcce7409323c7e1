"""A draft of a conversation while it is shortened: what may be removed, and how texts and tool results are cut.

A cut text keeps its head and its tail; a marker between them says how much is gone.
"""

import unicodedata
from bisect import bisect_right
from collections.abc import Generator, Iterable, Sequence
from itertools import accumulate, chain
from operator import attrgetter
from typing import Any, Final

from msgspec.structs import replace

from finclaw.agent.window.compaction.facts import names_in
from finclaw.agent.window.compaction.options import is_pinned
from finclaw.agent.window.tokens import CountMessage, CountText, arguments_text
from finclaw.kernel.message import (
    Block,
    Image,
    Message,
    MessageEvent,
    Remove,
    Replace,
    Text,
    ToolCall,
    ToolResult,
    Truncate,
)
from finclaw.transcript.integrity import calls_of, match_results


class CompactionDraft:
    """At each place the message as it is now, or none. Places are those of the original conversation."""

    def __init__(self, messages: Sequence[Message], count: CountMessage) -> None:
        self.original = messages
        self._now: list[Message | None] = list(messages)
        self._count = count
        self.original_sizes = list(map(count, messages))
        self.sizes = self.original_sizes.copy()
        self.total = sum(self.sizes)

    def __getitem__(self, place: int) -> Message | None:
        return self._now[place]

    def put(self, place: int, message: Message | None) -> None:
        size = self._count(message) if message else 0
        self.total += size - self.sizes[place]
        self.sizes[place] = size
        self._now[place] = message

    def size(self, places: Iterable[int]) -> int:
        return sum(map(self.sizes.__getitem__, places))

    @property
    def remaining(self) -> list[int]:
        return [place for place, message in enumerate(self._now) if message is not None]

    @property
    def messages(self) -> tuple[Message, ...]:
        return tuple(message for message in self._now if message is not None)

    def events(self) -> Generator[MessageEvent]:
        """One event takes the whole beginning away; after that the last go first, since they are found first."""
        remaining = self.remaining
        beginning = next((place for place in remaining if not self.original[place].passing), len(self._now))
        if None in self._now[:beginning]:
            yield Truncate(sum([not message.passing for message in self.original[beginning:]]))
        for place in range(len(self._now) - 1, beginning, -1):
            if self._now[place] is None:
                yield Remove(self.original[place].id)
        for place in remaining:
            message = self._now[place]
            if message is not None and message is not self.original[place]:
                yield Replace(self.original[place].id, message)


class Shape:
    """What belongs together in a conversation, and what may be removed.

    A unit is the smallest piece that can go without parting a call from its result. The person's current input and
    pinned messages never go, the recent ones only when nothing else helps, and passing ones with their turn.
    """

    def __init__(self, messages: Sequence[Message], *, input_id: str, recent: int) -> None:
        self.units = _units(messages)
        self.input = next((place for place in range(len(messages) - 1, -1, -1) if messages[place].id == input_id), -1)
        self._passing = {place for place, message in enumerate(messages) if message.passing}
        pinned = {place for place, message in enumerate(messages) if message.metadata and is_pinned(message)}
        fixed = {self.input, *pinned}
        self._may_go: list[range] = []
        self._settled: list[range] = []
        for unit in self.units:
            stays = not fixed.isdisjoint(unit) or self._passing.issuperset(unit)
            (self._settled if stays else self._may_go).append(unit)
        self._recent_from = _start_of_last(messages, recent)

    def removable(self) -> list[range]:
        return self._may_go[: self._old]

    def stretches(self) -> list[list[range]]:
        """The removable units before the input, and those since: a summary stands for units of one side."""
        since = bisect_right(self._may_go, self.input, hi=self._old, key=attrgetter("start"))
        return [units for units in (self._may_go[:since], self._may_go[since : self._old]) if units]

    def recent(self) -> list[range]:
        return self._may_go[self._old :]

    def expose(self, unit: range) -> None:
        """Let this unit, and all before it, count as old."""
        self._recent_from = max(self._recent_from, unit.stop)

    def protected(self) -> list[int]:
        return sorted({*chain.from_iterable((*self._settled, *self.recent())), *self._passing})

    def places(self, units: Iterable[range]) -> list[int]:
        """All of the units that may go: passing messages stay where they are."""
        return [place for place in chain.from_iterable(units) if place not in self._passing]

    @property
    def _old(self) -> int:
        return bisect_right(self._may_go, self._recent_from, key=attrgetter("stop"))


def _units(messages: Sequence[Message]) -> list[range]:
    parted = [0] * (len(messages) + 1)
    for result in match_results(messages, calls_of(messages)):
        if result.call is not None and result.call.place != result.place:
            parted[min(result.call.place, result.place) + 1] += 1
            parted[max(result.call.place, result.place) + 1] -= 1
    starts = [place for place, count in enumerate(accumulate(parted[:-1])) if count == 0]
    return [range(start, stop) for start, stop in zip(starts, [*starts[1:], len(messages)], strict=True)]


def _start_of_last(messages: Sequence[Message], recent: int) -> int:
    """Where the last so many lasting messages begin; with none of them, behind the end."""
    lasting = [place for place, message in enumerate(messages) if not message.passing]
    if recent <= 0:
        return len(messages)
    if recent > len(lasting):
        return 0
    return lasting[-recent]


# ── texts ───────────────────────────────────────────────────────────────────────────────────────────────────

_HEAD: Final = 0.7
_COUNTED_IN_FULL: Final = 1_000  # characters: a longer text of which only the marker stays is not counted in full
_JOINER: Final = "\u200d"
_WORD: Final = 40  # characters of the longest word or number; a longer run may be cut inside


def marker(gone: int, whole: int) -> str:
    return f"[{gone:,} of {whole:,} characters left out]"


def cut(text: str, tokens: int, count: CountText, *, whole: int = 0, names: str = "") -> str:
    """Cut a text to so many tokens, or to a marker. `whole` is its original length, `names` go into a marker alone."""
    whole = max(whole, len(text))
    alone = marker(whole, whole)
    if names:
        alone += f"\nnamed there: {names}"
    if tokens <= 0 and len(text) > _COUNTED_IN_FULL and count(alone) < count(text[:_COUNTED_IN_FULL]):
        return alone
    size = count(text)
    if size <= max(0, tokens):
        return text
    keep = int((tokens - count(alone)) * len(text) / size)
    while keep > len(alone):
        shorter = _around(text, keep, whole)
        if count(shorter) <= tokens:
            return shorter
        keep = keep * 3 // 4
    return alone if count(alone) < size else text


def _around(text: str, keep: int, whole: int) -> str:
    head = text[: cut_point(text, int(keep * _HEAD))]
    start = len(text) - (keep - len(head))
    tail = text[max(len(head), _next_start(text, start)) :]
    return f"{head.rstrip()}\n{marker(whole - len(head) - len(tail), whole)}\n{tail.lstrip()}"


def cut_point(text: str, at: int) -> int:
    """Where to cut at the latest: behind a line, else behind a word, else between two whole characters."""
    at = max(0, min(at, len(text)))
    line = text.rfind("\n", at * 4 // 5, at)
    if line >= 0:
        return line + 1
    word = max(text.rfind(space, max(0, at - _WORD), at) for space in (" ", "\t", "\n"))
    if word > 0:
        return word + 1
    while 0 < at < len(text) and _belongs_together(text, at):
        at -= 1
    return at


def _next_start(text: str, at: int) -> int:
    """Like `cut_point`, at the earliest."""
    line = text.find("\n", at, at + max(_WORD, (len(text) - at) // 5))
    if line >= 0:
        return line + 1
    word = text.find(" ", at, at + _WORD)
    if word >= 0:
        return word + 1
    while 0 < at < len(text) and _belongs_together(text, at):
        at += 1
    return at


def _belongs_together(text: str, at: int) -> bool:
    """A letter and its accents, or the parts of one emoji, are one character to a reader."""
    here = text[at]
    return _JOINER in (here, text[at - 1]) or unicodedata.category(here)[0] == "M" or "🏻" <= here <= "🏿"


# ── tool results ────────────────────────────────────────────────────────────────────────────────────────────

SHORTENED: Final = "shortened"  # metadata: how long each cut result was, by call
PICTURE: Final = "(a picture)"
_MOST_NAMES: Final = 40  # tokens for the names in one result
_SHARE_OF_NAMES: Final = 40  # characters of a result for each name
_MOST_SHORTENED: Final = 100  # in one compaction: each is an event in the log


def shorten_results(draft: CompactionDraft, places: Sequence[int], target: int, count: CountText) -> None:
    """The largest first, so that the fewest messages change."""
    candidates = [place for place in places if (message := draft[place]) is not None and message.role == "tool"]
    candidates.sort(key=lambda place: -draft.sizes[place])
    for names in (True, False):  # the names in them are worth some room, but no exchange
        for place in candidates[:_MOST_SHORTENED]:
            if draft.total <= target:
                return
            _shorten_at(draft, place, 0, count, names=names)


def level_results(draft: CompactionDraft, places: Sequence[int], goal: int, least: int, count: CountText) -> None:
    """Cut the larger of the results, all to one size but none below `least`, until all these places meet the goal."""
    size = draft.size(places)
    if size <= goal:
        return
    results = {place: message.tool_results for place in places if (message := draft[place]) is not None}
    sizes = [count(result.content) for found in results.values() for result in found]
    level = max(least, common_level(sizes, goal - (size - sum(sizes))))
    for place, found in results.items():
        if any(count(result.content) > level for result in found):
            _shorten_at(draft, place, level, count)


def common_level(sizes: Sequence[int], goal: int) -> int:
    """The size to which the larger ones must be cut so that their sum meets the goal."""
    left = goal
    ordered = sorted(sizes)
    for place, size in enumerate(ordered):
        share = left // (len(ordered) - place)
        if size > share:
            return max(0, share)
        left -= size
    return max(sizes, default=0)


def _shorten_at(draft: CompactionDraft, place: int, tokens: int, count: CountText, *, names: bool = True) -> None:
    message = draft[place]
    if message is not None:
        shorter = with_results_within(message, tokens, count, names=names)
        if shorter is not message:
            draft.put(place, shorter)


def with_results_within(message: Message, tokens: int, count: CountText, *, names: bool = True) -> Message:
    """The same object when nothing had to be cut. `names`: an empty result's marker names what stood in it."""
    known: dict[str, Any] = message.metadata.get(SHORTENED) or {}
    lengths: dict[str, int] = {}
    blocks: list[Block] = []
    for block in message.blocks:
        if isinstance(block, ToolResult):
            shorter = _cut_result(block, tokens, count, known, names=names)
            if shorter.content != block.content:
                lengths[block.call_id] = known.get(block.call_id, len(block.content))
                blocks.append(shorter)
                continue
        blocks.append(block)
    if not lengths:
        return message
    return replace(message, blocks=tuple(blocks), metadata={**message.metadata, SHORTENED: {**known, **lengths}})


def _cut_result(result: ToolResult, tokens: int, count: CountText, known: dict[str, Any], *, names: bool) -> ToolResult:
    named = ""
    if names and tokens <= 0 and result.call_id not in known:
        named = names_in(result.content, min(_MOST_NAMES, len(result.content) // _SHARE_OF_NAMES), count)
    whole = known.get(result.call_id, len(result.content))
    return replace(result, content=cut(result.content, tokens, count, whole=whole, names=named))


def with_words_within(message: Message, tokens: int, count: CountText) -> Message:
    """For a reader with little room: texts, calls and results share the tokens, and a picture is only mentioned."""
    wordy = sum(1 for block in message.blocks if isinstance(block, Text | ToolCall | ToolResult))
    share = tokens // max(1, wordy)
    return replace(message, blocks=tuple(_block_within(block, share, count) for block in message.blocks))


def _block_within(block: Block, tokens: int, count: CountText) -> Block:
    match block:
        case Text(text):
            return Text(cut(text, tokens, count))
        case ToolResult():
            return replace(block, content=cut(block.content, tokens, count))
        case ToolCall() if count(arguments := arguments_text(block)) > tokens:
            return replace(block, args={}, bad_args=cut(arguments, tokens, count))
        case Image():
            return Text(PICTURE)
        case _:
            return block
