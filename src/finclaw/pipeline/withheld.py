"""The last word on what a person sees: the gate, then every extension's check; what one forbids is never shown."""

import logging
from collections.abc import Sequence
from typing import Final

from finclaw.delivery.checks import Check, objection
from finclaw.delivery.visible import Visible, make_visible
from finclaw.kernel.envelope import Capabilities, Inbound, Outbound
from finclaw.kernel.language import Language, language_of

log = logging.getLogger(__name__)

_WITHHELD: Final[dict[Language, str]] = {"en": "This answer was withheld", "ko": "이 답변은 표시하지 않았습니다"}


def make_seen(outbound: Outbound, capabilities: Capabilities, checks: Sequence[Check], inbound: Inbound) -> Visible:
    """What a person gets: the words themselves, or a line that says why not."""
    visible = make_visible(outbound, capabilities)
    why = objection(checks, _everything(visible)) if visible.parts and checks else None
    if why is None:
        return visible
    log.warning("a text was withheld: %s", why)
    told = make_visible(_instead(outbound, inbound, f": {why}"), capabilities)
    if objection(checks, told.text) is None:
        return told
    return make_visible(_instead(outbound, inbound, "."), capabilities)  # even the reason must not be seen


def _everything(visible: Visible) -> str:
    cards = (embed for part in visible.parts for embed in part.embeds)
    return "\n".join([visible.text, *(line for card in cards for line in (card.title, card.text, card.url or ""))])


def _instead(outbound: Outbound, inbound: Inbound, ending: str) -> Outbound:
    return Outbound(
        text=_WITHHELD[language_of(inbound.text)] + ending,
        kind="notice",
        reply_to=outbound.reply_to,
        thread=outbound.thread,
        ephemeral=outbound.ephemeral,
    )
