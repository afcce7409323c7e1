"""The last filter: everything that a person will see passes it, after every layer.

Control tokens are taken out of what the model says, and secrets: a chat is read by more than one, and kept for long.
So are approval ids and the head of a card, which only the gateway may show.
"""

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from finclaw.delivery.control import ControlToken, extract_control
from finclaw.kernel.envelope import Capabilities, Embed, Outbound
from finclaw.tools.approval.forgery import without_forged_consent
from finclaw.tools.guard.redact import redact_for_display

RESENT_MARK = "(re-sent) "
"""Before a part of which nobody knows whether it has arrived already. Room for it is kept in every part."""


class Visible(Struct, frozen=True):
    """What a person will get, part by part, and what the model asked of the gateway besides."""

    parts: tuple[Outbound, ...]
    text: str
    tokens: frozenset[ControlToken]


def make_visible(outbound: Outbound, capabilities: Capabilities) -> Visible:
    """Only the model's words may carry control tokens; the gateway's own notices have none to give.

    Nor are secrets hidden in those: whoever approves an action sees it to the letter.
    """
    if outbound.kind != "notice":
        outbound = _cleaned(outbound)
    text, tokens = (
        (outbound.text, frozenset[ControlToken]()) if outbound.kind == "notice" else extract_control(outbound.text)
    )
    if tokens & {"NO_REPLY", "SILENT_REPLY"}:
        return Visible((), text, tokens)
    if outbound.embeds and not capabilities.embeds:
        text = "\n\n".join([text, *map(_as_text, outbound.embeds)])
        outbound = replace(outbound, embeds=())
    limit = max(1, capabilities.max_length - len(RESENT_MARK))
    texts = split_text(text, limit) or (("",) if outbound.embeds else ())
    parts = tuple(
        # Only the first part answers the message, a reply mark on each would shout; cards stand below the last.
        replace(
            outbound,
            text=part,
            reply_to=outbound.reply_to if place == 0 else None,
            embeds=outbound.embeds if place == len(texts) - 1 else (),
        )
        for place, part in enumerate(texts)
    )
    return Visible(parts, text.strip(), tokens)


def _cleaned(outbound: Outbound) -> Outbound:
    text = clean_words(outbound.text)
    if text is outbound.text and not outbound.embeds:
        return outbound
    embeds = tuple(
        Embed(title=clean_words(each.title), text=clean_words(each.text), url=each.url) for each in outbound.embeds
    )
    return replace(outbound, text=text, embeds=embeds)


def clean_words(text: str) -> str:
    """A model's words as a person may see them. The very same text where nothing has to go."""
    return without_forged_consent(redact_for_display(text))


def _as_text(embed: Embed) -> str:
    return "\n".join(part for part in (embed.title, embed.text, embed.url) if part)


# ── long texts in parts, cut where a reader would: between paragraphs, lines, sentences, words ───────────────────


_BREAKS: Final = ("\n\n", "\n", ". ", "다. ", " ")


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
