"""The last filter: everything that a person will see passes it, after every layer.

Control tokens are taken out of what the model says, and secrets: a chat is read by more than one, and kept for long.
So are approval ids and the head of a card, which only the gateway may show.
"""

from msgspec import Struct
from msgspec.structs import replace

from finclaw.delivery.control import ControlToken, extract_control
from finclaw.delivery.split import split_outbound
from finclaw.kernel.envelope import Capabilities, Embed, Outbound
from finclaw.tools.approval.forgery import without_forged_consent
from finclaw.tools.guard.redact import redact_for_display


class Visible(Struct, frozen=True):
    """An answer as a person will get it, part by part, and the control tokens that the model wrote in it."""

    parts: tuple[Outbound, ...]
    text: str
    tokens: frozenset[ControlToken]


def make_visible(outbound: Outbound, capabilities: Capabilities) -> Visible:
    """Only the model's words may carry control tokens; the gateway's own notices have none to give.

    Nor are secrets hidden in those: whoever approves an action sees it to the letter.
    """
    if outbound.kind != "notice":
        outbound = _clean_outbound(outbound)
    text, tokens = (
        (outbound.text, frozenset[ControlToken]()) if outbound.kind == "notice" else extract_control(outbound.text)
    )
    if tokens & {"NO_REPLY", "SILENT_REPLY"}:
        return Visible((), text, tokens)
    if outbound.embeds and not capabilities.embeds:
        text = "\n\n".join([text, *map(_as_text, outbound.embeds)])
        outbound = replace(outbound, embeds=())
    return Visible(split_outbound(replace(outbound, text=text), capabilities), text.strip(), tokens)


def _clean_outbound(outbound: Outbound) -> Outbound:
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
