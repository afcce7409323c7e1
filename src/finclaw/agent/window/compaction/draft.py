"""A draft of a conversation while it is shortened: what may be removed, and how texts and tool results are cut."""

import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterable, Sequence
from itertools import accumulate, chain
from operator import attrgetter
from typing import Any, Final

from msgspec.structs import replace

from finclaw.agent.window.compaction.facts import names_in
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
    """A draft: at each place the message as it is now, or none. Places are those of the conversation it began with."""

    def __init__(self, messages: Sequence[Message], count: CountMessage) -> None:
        self.original = messages
        self._now: list[Message | None] = list(messages)
        self._count = count
        self.sizes = list(map(count, messages))
        self._first_sizes = self.sizes.copy()
        self.total = sum(self.sizes)

    def __getitem__(self, place: int) -> Message | None:
        return self._now[place]

    def as_it_was(self, places: Iterable[int]) -> tuple[list[Message], list[int]]:
        """The messages of the conversation as it began, and their sizes."""
        return [self.original[place] for place in places], [self._first_sizes[place] for place in places]

    def put(self, place: int, message: Message | None) -> None:
        size = 0 if message is None else self._count(message)
        self.total += size - self.sizes[place]
        self.sizes[place] = size
        self._now[place] = message

    def clear(self, places: Sequence[int]) -> None:
        self.total -= self.size(places)
        sizes, now = self.sizes, self._now
        for place in places:
            sizes[place] = 0
            now[place] = None

    def size(self, places: Iterable[int]) -> int:
        return sum(map(self.sizes.__getitem__, places))

    def sizes_of(self, units: Sequence[range]) -> list[int]:
        before = list(accumulate(self.sizes, initial=0))
        return [before[unit.stop] - before[unit.start] for unit in units]

    @property
    def remaining(self) -> list[int]:
        return [place for place, message in enumerate(self._now) if message is not None]

    @property
    def messages(self) -> tuple[Message, ...]:
        return tuple(message for message in self._now if message is not None)

    def events(self) -> Generator[MessageEvent]:
        """One event takes the whole beginning away; behind that the last go first, since they are found first."""
        left = self.remaining
        beginning = next((place for place in left if not self.original[place].passing), len(self._now))
        if None in self._now[:beginning]:
            yield Truncate(sum([not each.passing for each in self.original[beginning:]]))
        for place in range(len(self._now) - 1, beginning, -1):
            if self._now[place] is None:
                yield Remove(self.original[place].id)
        for place in left:
            message = self._now[place]
            if message is not None and message is not self.original[place]:
                yield Replace(self.original[place].id, message)


class Shape:
    """The shape of a conversation: what belongs together, and what may be removed.

    A unit is the smallest piece that can go without parting a call from its result. The person's current input and
    pinned messages never go, the recent ones only when nothing else helps, and passing ones with their turn.
    """

    def __init__(
        self, messages: Sequence[Message], *, input_id: str, recent: int, is_pinned: Callable[[Message], bool]
    ):
        self._messages = messages
        self.units = _units(messages)
        self.input = next((place for place in range(len(messages) - 1, -1, -1) if messages[place].id == input_id), -1)
        held = [at for at, each in enumerate(messages) if each.passing or (each.metadata and is_pinned(each))]
        stay = {self.input, *held} - {-1}
        settled = {unit.start for unit in self._around(stay) if self._must_stay(unit, is_pinned)}
        self._may_go = [unit for unit in self.units if unit.start not in settled]
        self._settled = [unit for unit in self._around(settled)]
        self._passing = {place for place in stay if messages[place].passing}
        self._recent_from = _start_of_last(messages, recent)

    def removable(self) -> list[range]:
        """Old units, oldest first."""
        return self._may_go[: self._old]

    def stretches(self) -> list[list[range]]:
        """The removable units before the input, and those since: what a summary stands for lies on one side of it."""
        since = bisect_right(self._may_go, self.input, hi=self._old, key=_start)
        return [units for units in (self._may_go[:since], self._may_go[since : self._old]) if units]

    def recent(self) -> list[range]:
        return self._may_go[self._old :]

    def expose(self, unit: range) -> None:
        """From here on it counts as old, and all before it."""
        self._recent_from = max(self._recent_from, unit.stop)

    def protected(self) -> list[int]:
        """Every place that is not removable."""
        return sorted({*chain.from_iterable((*self._settled, *self.recent())), *self._passing})

    def places(self, units: Iterable[range]) -> list[int]:
        """All of the units that may go: passing messages stay where they are."""
        places = [*chain.from_iterable(units)]
        return [place for place in places if place not in self._passing] if self._passing else places

    @property
    def _old(self) -> int:
        """How many of those that may go are old."""
        return bisect_right(self._may_go, self._recent_from, key=_stop)

    def _around(self, places: Iterable[int]) -> Generator[range]:
        for place in places:
            yield self.units[bisect_right(self.units, place, key=_start) - 1]

    def _must_stay(self, unit: range, is_pinned: Callable[[Message], bool]) -> bool:
        """For one message in it, or because all of it goes with the turn anyway."""
        held = any(place == self.input or is_pinned(self._messages[place]) for place in unit)
        return held or all(self._messages[place].passing for place in unit)


_start = attrgetter("start")
_stop = attrgetter("stop")


def _units(messages: Sequence[Message]) -> list[range]:
    parted = [0] * (len(messages) + 1)
    for call, result in _pairs(messages):
        if call != result:
            parted[min(call, result) + 1] += 1
            parted[max(call, result) + 1] -= 1
    starts = [place for place, count in enumerate(accumulate(parted)) if count == 0 and place < len(messages)]
    return [range(start, stop) for start, stop in zip(starts, [*starts[1:], len(messages)], strict=True)]


def _pairs(messages: Sequence[Message]) -> Iterable[tuple[int, int]]:
    """The places of each call and its result. Where every id is used once there is nothing to find out."""
    calls: dict[str, int] = {}
    results: dict[str, int] = {}
    for place, message in enumerate(messages):
        for block in message.blocks:
            if isinstance(block, Text):  # as most are
                continue
            if isinstance(block, ToolCall):
                id, seen = block.id, calls
            elif isinstance(block, ToolResult):
                id, seen = block.call_id, results
            else:
                continue
            if seen.setdefault(id, place) != place or (seen is calls and message.role != "assistant"):
                found = match_results(messages, calls_of(messages))
                return [(each.call.place, each.place) for each in found if each.call is not None]
    return [(calls[id], place) for id, place in results.items() if id in calls]


def _start_of_last(messages: Sequence[Message], recent: int) -> int:
    """Where the last so many lasting messages begin; with none of them, behind the end."""
    left = recent
    for place in range(len(messages) - 1, -1, -1):
        if left <= 0:
            return place + 1
        left -= not messages[place].passing
    return 0 if recent > 0 else len(messages)


_MOST_NAMES: Final = 40
"""Tokens for the names in one result."""
_SHARE_OF_NAMES: Final = 40
"""Characters of it for each of them: so they take about a tenth of the room."""
SHORTENED: Final = "shortened"
"""Metadata of a message with cut results: how long each was, by call."""

_HEAD: Final = 0.7
PICTURE: Final = "(a picture)"
_TELLING: Final = 1_000
_JOINER: Final = "\u200d"
_WORD: Final = 40
"""No word or number is longer than this; what is may be cut inside."""


def cache_counts(count: CountText) -> CountText:
    """While one conversation is shortened, a long text is counted once however often somebody asks."""
    known: dict[str, int] = {}

    def count_once(text: str) -> int:
        if len(text) <= _TELLING:
            return count(text)
        if text not in known:
            known[text] = count(text)
        return known[text]

    return count_once


def marker(gone: int, whole: int) -> str:
    return f"[{gone:,} of {whole:,} characters left out]"


def cut(text: str, tokens: int, count: CountText, *, whole: int = 0, names: str = "") -> str:
    """The text within so many tokens, or only a marker; itself when it fits or when a marker would be no shorter.

    `whole` is how long it was before it was ever cut; `names` is what the marker tells of it, if it stands alone.
    """
    whole = max(whole, len(text))
    alone = f"{marker(whole, whole)}\nnamed there: {names}" if names else marker(whole, whole)
    if tokens <= 0 and len(text) > _TELLING and count(alone) < count(text[:_TELLING]):
        return alone  # without a count of all that is left out
    size = count(text)
    if size <= max(0, tokens):
        return text
    spare = tokens - count(alone)
    keep = int(spare * len(text) / size)
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
    here, before = text[at], text[at - 1]
    return _JOINER in (here, before) or unicodedata.category(here)[0] == "M" or "🏻" <= here <= "🏿"


# ── tool results ────────────────────────────────────────────────────────────────────────────────────────────


def with_results_within(message: Message, tokens: int, count: CountText, *, names: bool = True) -> Message:
    """The message with each of its results cut to so many tokens; the same object when nothing had to be cut.

    `names`: where nothing is left of one, those that stood in it are told; but not when it is cut once more.
    """
    known: dict[str, Any] = message.metadata.get(SHORTENED) or {}
    lengths: dict[str, int] = {}
    blocks: list[Block] = []
    for block in message.blocks:
        if isinstance(block, ToolResult):
            whole = known.get(block.call_id, len(block.content))
            told = _names(block.content, count) if names and tokens <= 0 and block.call_id not in known else ""
            content = cut(block.content, tokens, count, whole=whole, names=told)
            if content != block.content:
                lengths[block.call_id] = whole
                block = replace(block, content=content)  # noqa: PLW2901
        blocks.append(block)
    if not lengths:
        return message
    return replace(message, blocks=tuple(blocks), metadata={**message.metadata, SHORTENED: {**known, **lengths}})


def _names(content: str, count: CountText) -> str:
    """Whose number stands only here could not be asked about any more."""
    return names_in(content, min(_MOST_NAMES, len(content) // _SHARE_OF_NAMES), count)


def with_words_within(message: Message, tokens: int, count: CountText) -> Message:
    """For a reader with little room: texts, calls and results share the tokens, and of a picture it is only told."""
    wordy = sum(1 for block in message.blocks if isinstance(block, Text | ToolCall | ToolResult))
    share = tokens // max(1, wordy)
    return replace(message, blocks=tuple(_told_within(block, share, count) for block in message.blocks))


def _told_within(block: Block, tokens: int, count: CountText) -> Block:
    match block:
        case Text(text):
            return Text(cut(text, tokens, count))
        case ToolResult():
            return replace(block, content=cut(block.content, tokens, count))
        case ToolCall() if count(told := arguments_text(block)) > tokens:
            return replace(block, args={}, bad_args=cut(told, tokens, count))
        case Image():
            return Text(PICTURE)
        case _:
            return block


def common_level(sizes: Sequence[int], goal: int) -> int:
    """The size to which the larger ones must be cut so that all together are within the goal."""
    left = goal
    for place, size in enumerate(ordered := sorted(sizes)):
        share = left // (len(ordered) - place)
        if size > share:
            return max(0, share)
        left -= size
    return max(sizes, default=0)


_MOST_SHORTENED: Final = 100
"""In one compaction: each is an event in the log. Where so many are not enough, whole exchanges have to go."""


def shorten_results(draft: CompactionDraft, places: Sequence[int], target: int, count: CountText) -> None:
    """The largest first, until the target is reached: so the fewest messages change."""
    candidates = [place for place in places if (message := draft[place]) is not None and message.role == "tool"]
    candidates.sort(key=lambda place: -draft.sizes[place])
    for names in (True, False):  # which are worth some room, but no exchange
        for place in candidates[:_MOST_SHORTENED]:
            if draft.total <= target:
                return
            _within(draft, place, 0, count, names=names)


def level_results(draft: CompactionDraft, places: Sequence[int], goal: int, least: int, count: CountText) -> None:
    """Cut the larger of the results, all to one size but none below `least`, until all these places meet the goal."""
    size = draft.size(places)
    if size <= goal:
        return
    results = {place: message.tool_results for place in places if (message := draft[place]) is not None}
    sizes = [count(result.content) for some in results.values() for result in some]
    level = max(least, common_level(sizes, goal - (size - sum(sizes))))
    for place, some in results.items():
        if any(count(result.content) > level for result in some):
            _within(draft, place, level, count)


def _within(draft: CompactionDraft, place: int, tokens: int, count: CountText, *, names: bool = True) -> None:
    message = draft[place]
    if message is not None:
        shorter = with_results_within(message, tokens, count, names=names)
        if shorter is not message:
            draft.put(place, shorter)
