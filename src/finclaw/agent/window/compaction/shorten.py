"""Shortening of texts to a number of tokens: head and tail stay, and a marker between them says how much is gone."""

import unicodedata
from collections.abc import Sequence
from typing import Any, Final

from msgspec.structs import replace

from finclaw.agent.window.compaction.draft import CompactionDraft
from finclaw.agent.window.compaction.facts import names_in
from finclaw.agent.window.tokens import CountText, arguments_text
from finclaw.kernel.message import Block, Image, Message, Text, ToolCall, ToolResult

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
