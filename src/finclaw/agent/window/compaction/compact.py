"""The compactor: tool results are shortened, old exchanges become a summary, and if need be they are dropped."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import accumulate
from typing import Final

from finclaw.agent.window.compaction.draft import CompactionDraft, Shape
from finclaw.agent.window.compaction.note import Notes
from finclaw.agent.window.compaction.options import Compaction, Options, Strategy, is_pinned
from finclaw.agent.window.compaction.results import level_results, shorten_results
from finclaw.agent.window.compaction.shorten import cache_counts
from finclaw.agent.window.compaction.summary import FellBack, Summaries
from finclaw.agent.window.tokens import CountMessage, CountText
from finclaw.kernel.message import Message

MARGIN: Final = 1.2
"""For what the counter does not see."""

_FOR_RESULTS: Final = 0.6
_FOR_PROTECTED: Final = 0.75
"""Of the target. Beyond it the oldest of the recent messages are treated like the others."""
_MOST_SUMMARY: Final = 8_192
_LEAST_SUMMARY: Final = 64
_SPARE: Final = 10
"""A tenth of the target may go beyond need, so that the cut is between two exchanges and not within one."""


class Compactor:
    """A compactor of conversations."""

    def __init__(
        self, summaries: Summaries, count: CountMessage, count_text: CountText, now: Callable[[], datetime]
    ) -> None:
        self._summaries = summaries
        self._count = count
        self._count_text = count_text
        self._now = now

    async def __call__(self, messages: Sequence[Message], options: Options, fell_back: FellBack) -> Compaction:
        """Never above the target, unless the input and what is pinned are so by themselves."""
        draft = CompactionDraft(messages, self._count)
        before, target = draft.total, options.target_tokens
        if before <= target:
            return Compaction(messages=messages, before_tokens=before, after_tokens=before, strategy=options.strategy)
        shape = Shape(messages, input_id=options.input_id, recent=options.recent, is_pinned=is_pinned)
        count_text = cache_counts(self._count_text)
        notes = Notes(draft, count_text, self._now())
        work = _Work(options, draft, shape, notes, self._summaries, count_text, fell_back)
        await work.run()
        return Compaction(
            messages=draft.messages,
            events=tuple(draft.events()),
            summary=notes.summary,
            removed_count=len(messages) - len(draft.remaining),
            before_tokens=before,
            after_tokens=draft.total,
            strategy=work.strategy,
            summaries=work.asked,
            fits=draft.total <= target,
        )


class _Work:
    """One compaction under way."""

    def __init__(
        self,
        options: Options,
        draft: CompactionDraft,
        shape: Shape,
        notes: Notes,
        summaries: Summaries,
        count_text: CountText,
        fell_back: FellBack,
    ) -> None:
        self._options = options
        self._target = options.target_tokens
        self._draft = draft
        self._shape = shape
        self._notes = notes
        self._summaries = summaries
        self._count_text = count_text
        self._fell_back = fell_back
        self.strategy: Strategy = options.strategy
        self.asked = 0

    @property
    def _fits(self) -> bool:
        return self._draft.total <= self._target

    async def run(self) -> None:
        self._make_room_among_the_protected()
        if self._fits:
            self.strategy = "truncate-tools"
            return
        match self._options.strategy:
            case "truncate-oldest":
                self._drop_old()
            case "summarize":
                await self._summarise(as_little_as_possible=False)
            case "truncate-tools" | "hybrid" as strategy:
                shorten_results(self._draft, self._old_places(), self._target, self._count_text)
                if self._fits:
                    self.strategy = "truncate-tools"
                elif strategy == "hybrid":
                    await self._summarise(as_little_as_possible=True)
        if not self._fits:
            self._second_pass()

    # ── what is protected ───────────────────────────────────────────────────────────────────────────────────

    def _make_room_among_the_protected(self) -> None:
        """One giant result must not push everything else out, and the recent messages must leave room for others."""
        self._level(least=max(64, self._target // 4))
        excess = self._draft.size(self._shape.protected()) - int(self._target * _FOR_PROTECTED)
        for unit in self._shape.recent()[:-1]:
            if excess <= 0:
                break
            excess -= self._draft.size(unit)
            self._shape.expose(unit)
        if excess > 0:
            self._level(least=16)

    def _level(self, *, least: int) -> None:
        goal = int(self._target * _FOR_RESULTS)
        level_results(self._draft, self._shape.protected(), goal, least, self._count_text)

    # ── summaries ───────────────────────────────────────────────────────────────────────────────────────────

    async def _summarise(self, *, as_little_as_possible: bool) -> None:
        """What lies before the input and what came after it are two ranges: each summary stands in its own place."""
        stretches = self._shape.stretches()
        if len(stretches) > 1:
            stretches.sort(key=lambda each: -self._draft.size(self._shape.places(each)))
        for units in stretches:
            if not self._fits:
                chosen = self._as_many_as_needed(units, self._for_summary) if as_little_as_possible else units
                await self._summarise_stretch(units, chosen)

    @property
    def _for_summary(self) -> int:
        return min(_MOST_SUMMARY, self._target // 4)

    async def _summarise_stretch(self, all_of_it: list[range], units: list[range]) -> None:
        places = self._shape.places(units)
        budget = self._budget(places)
        can = self._notes.slot(places) is not None and self.asked < self._options.summaries
        if not can or budget < _LEAST_SUMMARY:
            self._fall_back_to_dropping("summarize", all_of_it)
            return
        self.asked += 1
        self.strategy = self._options.strategy
        messages, sizes = self._draft.as_it_was(places)
        text = await self._summaries(messages, self._notes.words_within(budget), self._fell_back, sizes)
        if text is None:
            self.strategy = "truncate-oldest"
            self._drop(all_of_it)
        else:
            self._notes.summarise(places, text, budget)

    def _budget(self, places: list[int]) -> int:
        """What the summary may take: the target less what stays, with a margin.

        Where this range alone is not enough, the others will have to go too, and share the room with it.
        """
        stays = self._draft.total - self._draft.size(places)
        room = self._target - stays
        if room < _LEAST_SUMMARY * MARGIN:
            old = self._old_places()
            room = (self._target - self._draft.total + self._draft.size(old)) // 2
        return min(self._for_summary, int(room / MARGIN))

    # ── dropping ────────────────────────────────────────────────────────────────────────────────────────────

    def _fall_back_to_dropping(self, before: Strategy, units: list[range]) -> None:
        self._fell_back(before, "truncate-oldest")
        self.strategy = "truncate-oldest"
        self._drop(units)

    def _drop_old(self) -> None:
        """What was done since the input is told behind it: else it would look as if nothing had been done yet."""
        for units in self._shape.stretches():
            if not self._fits:
                self._drop(units)

    def _drop(self, units: list[range]) -> None:
        """The oldest first, whole; a note in their place says so and keeps the facts."""
        room = self._notes.room_for_note(self._target)
        gone = self._as_many_as_needed(units, room)
        places = self._shape.places(gone)
        if len(places) == len(self._draft.original) and self._notes.slot(places) is None:
            places = self._shape.places(gone[:-1])  # something must be left to send
        if places:
            self._notes.leave_out(places, min(room, self._target - self._draft.total + self._draft.size(places)))

    def _as_many_as_needed(self, units: list[range], room: int) -> list[range]:
        """The oldest whose going makes the rest and so much room fit; up to the end of an exchange if that is near."""
        needed = self._draft.total - self._target + room
        sizes = self._draft.sizes_of(units)
        enough = 0 if needed <= 0 else 1 + bisect_left(list(accumulate(sizes)), needed)
        spare = self._target // _SPARE
        for further in range(enough, len(units)):
            if self._draft.original[units[further].start].role == "user":
                return units[:further]
            spare -= sizes[further]
            if spare < 0:
                return units[:enough]
        return units

    def _second_pass(self) -> None:
        if self.strategy != "truncate-oldest":
            self._fell_back(self.strategy, "truncate-oldest")
            self.strategy = "truncate-oldest"
        self._drop_old()
        if not self._fits:
            self._notes.trim(self._target)
        if not self._fits:
            self._shape.expose(self._shape.units[-1])
            self._drop_old()
            self._notes.trim(self._target)

    def _old_places(self) -> list[int]:
        return self._shape.places(self._shape.removable())
