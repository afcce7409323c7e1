"""What must not be passed on, replaced by a word for what it was: cards, people's numbers, accounts, keys.

Used by the guard of tool results, by the gate before a person's eyes, and by the logs. Every search is linear.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from finclaw.tools.guard.accounts import account_numbers
from finclaw.tools.guard.cards import card_numbers
from finclaw.tools.guard.clean import clean
from finclaw.tools.guard.keys import keys_and_tokens, private_keys
from finclaw.tools.guard.labels import labelled_secrets
from finclaw.tools.guard.residents import resident_numbers, social_security_numbers
from finclaw.tools.guard.span import Kind, Span, replaced
from finclaw.tools.guard.view import View

Search = Callable[[View], Iterator[Span]]

FINANCE: Final[tuple[Search, ...]] = (card_numbers, resident_numbers, social_security_numbers, account_numbers)
SECRETS: Final[tuple[Search, ...]] = (private_keys, keys_and_tokens, labelled_secrets)

_PASSES: Final = 8


class Redacted(Struct, frozen=True):
    text: str
    kinds: frozenset[Kind] = frozenset()


def redact(text: str, *, finance: bool = True, patterns: Sequence[re.Pattern[str]] = ()) -> Redacted:
    """The text without secrets and, with them, without hidden characters. Doing it again changes nothing."""
    return redact_clean(clean(text), finance, patterns)


def redact_clean(text: str, finance: bool, patterns: Sequence[re.Pattern[str]]) -> Redacted:
    kinds = frozenset[Kind]()
    for _ in range(_PASSES):  # what was replaced no longer stands beside what is left, which may now be seen
        changed, found = replaced(text, _spans(View(text), finance, patterns))
        if changed == text:
            break
        text, kinds = changed, kinds | found
    return Redacted(text, kinds)


def _spans(view: View, finance: bool, patterns: Sequence[re.Pattern[str]]) -> Iterator[Span]:
    for search in SECRETS + FINANCE if finance else SECRETS:
        yield from search(view)
    for pattern in patterns:
        yield from (Span(*found.span(), "private") for found in pattern.finditer(view.text))
