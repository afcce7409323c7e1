"""The one gate: everything a person will see passes here last, after every layer. First form: control tokens."""

from dataclasses import dataclass

from msgspec.structs import replace

from finclaw.delivery.control import ControlToken, extract_control
from finclaw.delivery.split import split_text
from finclaw.kernel.envelope import Capabilities, Outbound

RESENT_MARK = "(re-sent) "
"""Before a part of which nobody knows whether it has arrived already. Room for it is kept in every part."""


@dataclass(frozen=True, slots=True)
class Visible:
    """What a person will get, part by part, and what the model asked of the gateway besides."""

    parts: tuple[Outbound, ...]
    text: str
    tokens: frozenset[ControlToken]


def make_visible(outbound: Outbound, capabilities: Capabilities) -> Visible:
    """Only the model's words may carry control tokens; the gateway's own notices have none to give."""
    text, tokens = (
        (outbound.text, frozenset[ControlToken]()) if outbound.kind == "notice" else extract_control(outbound.text)
    )
    if tokens & {"NO_REPLY", "SILENT_REPLY"}:
        return Visible((), text, tokens)
    limit = max(1, capabilities.max_length - len(RESENT_MARK))
    parts = tuple(
        # Only the first part answers the message; a reply mark on each would shout.
        replace(outbound, text=part, reply_to=outbound.reply_to if place == 0 else None)
        for place, part in enumerate(split_text(text, limit))
    )
    return Visible(parts, text.strip(), tokens)
