"""The split of a long answer into parts, cut where a reader would: between paragraphs, lines, sentences, words."""

from typing import Final

from msgspec.structs import replace

from finclaw.kernel.envelope import Outbound

RESENT_MARK = "(re-sent) "
"""Before a part of which nobody knows whether it has arrived already. Room for it is kept in every part."""
_BREAKS: Final = ("\n\n", "\n", ". ", "다. ", " ")


def split_outbound(outbound: Outbound, max_length: int) -> tuple[Outbound, ...]:
    """Only the first part answers the message, a reply mark on each would shout; cards stand below the last."""
    limit = max(1, max_length - len(RESENT_MARK))
    texts = split_text(outbound.text, limit) or (("",) if outbound.embeds else ())
    return tuple(
        replace(
            outbound,
            text=part,
            reply_to=outbound.reply_to if place == 0 else None,
            embeds=outbound.embeds if place == len(texts) - 1 else (),
        )
        for place, part in enumerate(texts)
    )


def split_text(text: str, limit: int) -> tuple[str, ...]:
    """Parts no longer than `limit`; nothing but white space at the cuts is left out."""
    if limit < 1:
        raise ValueError(f"a part must hold at least one character, not {limit}")
    parts: list[str] = []
    rest = text.strip()
    while len(rest) > limit:
        cut = _cut(rest, limit)
        parts.append(rest[:cut].rstrip())
        rest = rest[cut:].lstrip()
    return tuple(part for part in (*parts, rest) if part)


def _cut(text: str, limit: int) -> int:
    for mark in _BREAKS:
        found = text.rfind(mark, 1, limit - len(mark) + 1)
        if found > limit // 2:
            return found + len(mark)
    return limit
