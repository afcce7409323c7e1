"""The split of a long answer into parts, cut where a reader would: between paragraphs, lines, sentences, words."""

from typing import Final

from msgspec.structs import replace

from finclaw.delivery.limits import text_length
from finclaw.kernel.envelope import Capabilities, Outbound
from finclaw.kernel.text import LengthUnit

RESENT_MARK = "(re-sent) "
"""Before a part of which nobody knows whether it has arrived already. Room for it is kept in every part."""
_BREAKS: Final = ("\n\n", "\n", ". ", "다. ", " ")


def split_outbound(outbound: Outbound, capabilities: Capabilities, share: int = 1) -> tuple[Outbound, ...]:
    """Only the first part answers the message, a reply mark on each would shout; what is beside the text stands below
    the last. Of the channel's length only one `share`th is used.
    """
    limit = max(1, (capabilities.max_length - len(RESENT_MARK)) // share)
    beside = outbound.embeds or outbound.attachments or outbound.actions
    texts = split_text(outbound.text, limit, capabilities.length_unit) or (("",) if beside else ())
    return tuple(
        replace(
            outbound,
            text=part,
            reply_to=outbound.reply_to if place == 0 else None,
            embeds=outbound.embeds if place == len(texts) - 1 else (),
            attachments=outbound.attachments if place == len(texts) - 1 else (),
            actions=outbound.actions if place == len(texts) - 1 else (),
            facts=(),
        )
        for place, part in enumerate(texts)
    )


def split_text(text: str, limit: int, unit: LengthUnit = "characters") -> tuple[str, ...]:
    """Parts no longer than `limit`, but for a single character that is; only white space at the cuts is left out."""
    if limit < 1:
        raise ValueError(f"a part must hold at least one character, not {limit}")
    parts: list[str] = []
    rest = text.strip()
    while text_length(rest, unit) > limit and len(rest) > 1:
        cut = _cut(rest, _count_fitting(rest, limit, unit))
        parts.append(rest[:cut].rstrip())
        rest = rest[cut:].lstrip()
    return tuple(part for part in (*parts, rest) if part)


def _count_fitting(text: str, limit: int, unit: LengthUnit) -> int:
    """How many characters from the front fit; at least one, so that there is an end."""
    if unit == "characters":
        return limit
    used = 0
    for place, character in enumerate(text):
        used += text_length(character, unit)
        if used > limit:
            return max(1, place)
    return len(text)


def _cut(text: str, limit: int) -> int:
    for mark in _BREAKS:
        found = text.rfind(mark, 1, limit - len(mark) + 1)
        if found > limit // 2:
            return found + len(mark)
    return limit
