"""What must not be passed on, replaced by a word for what it was: cards, people's numbers, accounts, keys.

Used by the guard of tool results, by the gate before a person's eyes, and by the logs.
"""

import re
from collections.abc import Sequence
from typing import Final

from finclaw.tools.guard.clean import clean
from finclaw.tools.guard.glance import may_hold_secrets
from finclaw.tools.guard.span import Redacted

_SHORT: Final = 8_000
"""Up to here a glance is worth it; a long text is looked at in pieces anyway, and seldom holds nothing at all."""


def redact(text: str, *, finance: bool = True, patterns: Sequence[re.Pattern[str]] = ()) -> Redacted:
    """The text without secrets and, with them, without hidden characters. Doing it again changes nothing."""
    if _is_plain(text, patterns):
        return Redacted(text)
    return _searched(clean(text), finance, patterns)


def redact_clean(text: str, finance: bool, patterns: Sequence[re.Pattern[str]]) -> Redacted:
    return Redacted(text) if _is_plain(text, patterns) else _searched(text, finance, patterns)


def _is_plain(text: str, patterns: Sequence[re.Pattern[str]]) -> bool:
    return len(text) <= _SHORT and not patterns and not may_hold_secrets(text)


def _searched(text: str, finance: bool, patterns: Sequence[re.Pattern[str]]) -> Redacted:
    from finclaw.tools.guard.search import searched  # noqa: PLC0415  20 ms, and most commands meet no secret

    return searched(text, finance, patterns)
