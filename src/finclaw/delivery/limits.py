"""Limits of a channel: how long a text is as the platform counts, and whether texts and buttons fit."""

from collections.abc import Sequence

from finclaw.kernel.envelope import ActionButton, Capabilities
from finclaw.text import LengthUnit


def text_length(text: str, unit: LengthUnit) -> int:
    if unit == "characters" or text.isascii():
        return len(text)
    if unit == "bytes":
        return len(text.encode(errors="replace"))
    return len(text.encode("utf-16-le", errors="surrogatepass")) // 2


def has_room_for(capabilities: Capabilities, text: str) -> bool:
    """Whether one message may be as long as this."""
    return text_length(text, capabilities.length_unit) <= capabilities.max_length


def has_buttons_for(capabilities: Capabilities, actions: Sequence[ActionButton]) -> bool:
    """Whether one message may have all these buttons."""
    most = capabilities.buttons
    if most is None or len(actions) > most.count:
        return False
    return all(len(each.label) <= most.label and len(each.command.encode()) <= most.data for each in actions)
