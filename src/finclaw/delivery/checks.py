"""Visibility checks of extensions: the last word on what a person sees. A text that one objects to is withheld.

A check that fails objects too: nobody knows what it would have said.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Final, cast

from msgspec import Struct

from finclaw.delivery.visible import Visible, make_visible
from finclaw.kernel.envelope import Capabilities, Inbound, Outbound
from finclaw.kernel.text import Language, language_of

log = logging.getLogger(__name__)

LONGEST_REASON: Final = 300

_WITHHELD: Final[dict[Language, str]] = {"en": "This answer was withheld", "ko": "이 답변은 표시하지 않았습니다"}


class Check(Struct, frozen=True):
    """A visibility check of an extension."""

    extension: str
    look: Callable[[str], str | None]


def find_objection(checks: Sequence[Check], text: str) -> str | None:
    """The first check's words against this text; None when every one lets it pass."""
    for check in checks:
        words = _run_check(check, text)
        if words is not None:
            return words
    return None


def _run_check(check: Check, text: str) -> str | None:
    try:
        said = cast("object", check.look(text))
    except Exception:  # a check is a stranger, and one that cannot look must not let anything through
        log.exception(
            "a visible check of extension %r failed; what it should have looked at is withheld", check.extension
        )
        return f"a check of {check.extension} failed"
    if said is None:
        return None
    words = " ".join(said.split()) if isinstance(said, str) else ""
    return words[:LONGEST_REASON] or f"a check of {check.extension} objects"


def apply_visibility_checks(
    outbound: Outbound, capabilities: Capabilities, checks: Sequence[Check], inbound: Inbound
) -> Visible:
    """What a person gets: the words themselves, or a line that says why not."""
    visible = make_visible(outbound, capabilities)
    why = find_objection(checks, _visible_text(visible)) if visible.parts and checks else None
    if why is None:
        return visible
    log.warning("a text was withheld: %s", why)
    told = make_visible(_withheld_notice(outbound, inbound, f": {why}"), capabilities)
    if find_objection(checks, told.text) is None:
        return told
    return make_visible(_withheld_notice(outbound, inbound, "."), capabilities)  # even the reason must not be seen


def _visible_text(visible: Visible) -> str:
    lines = [visible.text]
    for part in visible.parts:
        lines += (line for card in part.embeds for line in (card.title, card.text, card.url or ""))
        lines += (line for file in part.attachments for line in (file.name, file.alt))
        lines += (line for action in part.actions for line in (action.label, action.command))
    return "\n".join(lines)


def _withheld_notice(outbound: Outbound, inbound: Inbound, ending: str) -> Outbound:
    return Outbound(
        text=_WITHHELD[language_of(inbound.text)] + ending,
        kind="notice",
        reply_to=outbound.reply_to,
        thread=outbound.thread,
        ephemeral=outbound.ephemeral,
    )
