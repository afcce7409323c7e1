"""What extensions may forbid a person to see. A check that fails forbids too: nobody knows what it would have said."""

import logging
from collections.abc import Callable, Sequence
from typing import Final, cast

from msgspec import Struct

log = logging.getLogger(__name__)

LONGEST_REASON: Final = 300


class Check(Struct, frozen=True):
    extension: str
    look: Callable[[str], str | None]


def objection(checks: Sequence[Check], text: str) -> str | None:
    """The first check's words against this text; None when every one lets it pass."""
    for check in checks:
        words = _words(check, text)
        if words is not None:
            return words
    return None


def _words(check: Check, text: str) -> str | None:
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
