"""Tool results made smaller within a draft: old ones down to a marker, large ones down to a common level."""

from collections.abc import Sequence
from typing import Final

from finclaw.agent.window.compaction.draft import CompactionDraft
from finclaw.agent.window.compaction.shorten import common_level, with_results_within
from finclaw.agent.window.tokens import CountText

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
