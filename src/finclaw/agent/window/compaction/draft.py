"""A draft of a conversation while it is shortened, and the events that make the shortened one of it."""

from bisect import bisect_right
from collections.abc import Callable, Generator, Iterable, Sequence
from itertools import accumulate, chain
from operator import attrgetter

from finclaw.agent.window.tokens import CountMessage
from finclaw.kernel.message import Message, MessageEvent, Remove, Replace, Text, ToolCall, ToolResult, Truncate
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
