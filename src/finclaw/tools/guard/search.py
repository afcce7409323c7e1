"""The searches for secrets, one after the other, until there is nothing more to find. Every search is linear."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from finclaw.tools.guard.accounts import account_numbers
from finclaw.tools.guard.cards import card_numbers
from finclaw.tools.guard.keys import keys_and_tokens, private_keys
from finclaw.tools.guard.labels import labelled_secrets
from finclaw.tools.guard.near import near
from finclaw.tools.guard.residents import resident_numbers, social_security_numbers
from finclaw.tools.guard.span import Redacted, Span, few, replaced
from finclaw.tools.guard.view import Known, View

Search = Callable[[View], Iterator[Span]]

FINANCE: Final[tuple[Search, ...]] = (card_numbers, resident_numbers, social_security_numbers, account_numbers)
SECRETS: Final[tuple[Search, ...]] = (private_keys, keys_and_tokens, labelled_secrets)

_PASSES: Final = 8
_SAMPLE: Final = 20_000
_DENSE: Final = _SAMPLE // 32
_READ_IF_DENSE: Final = 120_000
"""A text that begins with a secret in every line is read so far: more than is stored, unless more is asked for."""
_EDGE: Final = 64
"""Longer than any number: what the end of the reading may have cut in two goes with these last characters."""


def searched(text: str, finance: bool, patterns: Sequence[re.Pattern[str]]) -> Redacted:
    def spans_in(view: View) -> Iterator[Span]:
        return _spans(view, finance, patterns)

    is_dense = len(text) > _READ_IF_DENSE and _count(spans_in(View(text[:_SAMPLE]))) > _DENSE
    view = View(text[:_READ_IF_DENSE] if is_dense else text)
    found = replaced(text, _beginning(text, spans_in(view)) if is_dense else spans_in(view))
    kinds = found.kinds
    for _ in range(_PASSES - 1):  # what was replaced no longer stands beside what is left, which may now be seen
        text, known = found.text, Known(found.places, view.absent)
        found = replaced(text, near(text, known, spans_in))
        if found.text == text:
            break
        kinds |= found.kinds
    return Redacted(found.text, kinds)


def _count(spans: Iterator[Span]) -> int:
    return sum(1 for _ in spans)


def _beginning(text: str, spans: Iterator[Span]) -> Iterator[Span]:
    """The spans of what is read of a dense text, and one for all the rest."""
    edge = _READ_IF_DENSE - _EDGE
    yield Span(edge, len(text), "many secrets")
    for span in spans:
        if span.start < edge:
            yield span._replace(end=min(span.end, edge))


def _spans(view: View, finance: bool, patterns: Sequence[re.Pattern[str]]) -> Iterator[Span]:
    for search in SECRETS + FINANCE if finance else SECRETS:
        for span in search(view):
            if span.kind == "many secrets":
                view.hidden_from = min(view.hidden_from, span.start)
            yield span
    for pattern in patterns:
        yield from few(view.text, (Span(*found.span(), "private") for found in pattern.finditer(view.text)))
