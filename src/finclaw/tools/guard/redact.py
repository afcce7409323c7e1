"""What must not be passed on, replaced by a word for what it was: cards, people's numbers, accounts, keys.

Used by the guard of tool results, by the gate before a person's eyes, and by the logs.
"""

import re
from collections.abc import Sequence
from typing import Final

from finclaw.redaction import hide_known_secrets
from finclaw.tools.guard.clean import clean
from finclaw.tools.guard.glance import may_hold_secrets
from finclaw.tools.guard.span import Kind, Redacted

_KNOWN: Final[frozenset[Kind]] = frozenset({"secret"})
_SHORT: Final = 8_000
"""Up to here a glance is worth it; a long text is looked at in pieces anyway, and seldom holds nothing at all."""


def redact(text: str, *, finance: bool = True, patterns: Sequence[re.Pattern[str]] = ()) -> Redacted:
    """The text without secrets and, with them, without hidden characters. Doing it again changes nothing."""
    known = hide_known_secrets(text)
    if _is_plain(known, patterns):
        return Redacted(known) if known is text else Redacted(known, _KNOWN)
    return _with_kind(known is not text, redact_clean(clean(known), finance, patterns))


def redact_clean(text: str, finance: bool, patterns: Sequence[re.Pattern[str]]) -> Redacted:
    known = hide_known_secrets(text)
    found = Redacted(known) if _is_plain(known, patterns) else _searched(known, finance, patterns)
    return _with_kind(known is not text, found)


def _with_kind(has_known: bool, found: Redacted) -> Redacted:
    return Redacted(found.text, found.kinds | _KNOWN) if has_known else found


def _is_plain(text: str, patterns: Sequence[re.Pattern[str]]) -> bool:
    return len(text) <= _SHORT and not patterns and not may_hold_secrets(text)


def _searched(text: str, finance: bool, patterns: Sequence[re.Pattern[str]]) -> Redacted:
    from finclaw.tools.guard.search import searched  # noqa: PLC0415  20 ms, and most commands meet no secret

    return searched(text, finance, patterns)
