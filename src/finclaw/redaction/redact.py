"""Redaction of secrets: card, account and personal numbers, keys and passwords become placeholders.

Used by the guard of tool results, by everything that is displayed to a person, and by the logs. A cheap pre-check
passes most texts. Any other is scanned by all searches, and again after a replacement, until nothing more is found.
Every search is linear in the length of the text.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from finclaw.redaction.clean import clean, fold_characters, is_clean
from finclaw.redaction.known_secrets import hide_known_secrets
from finclaw.redaction.numbers import find_numbers, may_hold_number
from finclaw.redaction.patterns import Kind, Span, find_keys, find_labelled_secrets, labels_in, may_hold_key

LONGEST: Final = 260_000
"""Characters that are scanned. The rest of a longer text is hidden, as nobody would know what is in it."""
EDGE: Final = 4_000
"""Longer than any secret: one that the end of the scan cut in two is hidden with these last characters."""
_PRECHECKED: Final = 8_000
"""Characters up to which the pre-check is worth it: a longer text seldom holds nothing at all."""
_MOST_SCANS: Final = 8
_HALF_PLACEHOLDER: Final = re.compile(r"\[[^\[\]]{0,30}\Z")
_KNOWN: Final[frozenset[Kind]] = frozenset({"secret"})


class Redacted(Struct, frozen=True):
    """A text without secrets, and the kinds that were in it."""

    text: str
    kinds: frozenset[Kind] = frozenset()


def redact_for_display(text: str) -> str:
    """The text as people, observers, the journal and the log may see it; the very same object if it holds no secret."""
    safe = redact(text)
    return safe.text if safe.kinds else text


def describe_error(error: BaseException) -> str:
    """The type and the message of an error, redacted: a server likes to repeat the key that it refused."""
    return redact_for_display(f"{type(error).__name__}: {error}")


def redact(text: str, *, finance: bool = True, patterns: Sequence[re.Pattern[str]] = ()) -> Redacted:
    """The text without secrets and, if it held any, without hidden characters. Doing it again changes nothing."""
    known = hide_known_secrets(text)
    found = Redacted(known)
    if not _is_plain(known, patterns):
        found = redact_clean(clean(known), finance, patterns)
    return found if known is text else Redacted(found.text, found.kinds | _KNOWN)


def redact_clean(text: str, finance: bool, patterns: Sequence[re.Pattern[str]]) -> Redacted:
    """`redact` for a text that is clean already."""
    kinds = set[Kind]()
    known = hide_known_secrets(text)
    if known is not text:
        kinds.add("secret")
    if _is_plain(known, patterns):
        return Redacted(known, frozenset(kinds))
    text = known[:LONGEST]
    for _ in range(_MOST_SCANS):
        replaced = _replace(text, find_spans(text, finance, patterns), kinds)
        if replaced == text:
            break
        text = replaced
    if len(known) > LONGEST:
        kinds.add("unchecked rest")
        text = _HALF_PLACEHOLDER.sub("", text[: min(len(text), LONGEST) - EDGE]) + "[unchecked rest]"
    return Redacted(text, frozenset(kinds))


# ── the pre-check ─────────────────────────────────────────────────────────────────────────────────────────


def _is_plain(text: str, patterns: Sequence[re.Pattern[str]]) -> bool:
    return len(text) <= _PRECHECKED and not patterns and not may_hold_secrets(text)


def may_hold_secrets(text: str) -> bool:
    """The pre-check: False only where no search would find anything, and cleaning would take nothing away.

    Most texts hold no secret and need no scan. The pre-check asks for the same labels, key patterns and number shapes
    that the scan uses, so it cannot miss what a scan finds.
    """
    if not is_clean(text):
        return True
    text = fold_characters(text)
    return bool(labels_in(text.lower())) or may_hold_key(text) or may_hold_number(text)


# ── the scan ──────────────────────────────────────────────────────────────────────────────────────────────


def find_spans(text: str, finance: bool = True, patterns: Sequence[re.Pattern[str]] = ()) -> Iterator[Span]:
    folded = fold_characters(text)
    lowered = folded.replace("İ", "i").lower()  # of all letters only this one would become two
    yield from find_keys(folded)
    yield from find_labelled_secrets(folded, lowered)
    if finance:
        yield from find_numbers(folded, lowered)
    for pattern in patterns:
        for found in pattern.finditer(folded):
            yield Span(found.start(), found.end(), "private")


def _replace(text: str, spans: Iterator[Span], kinds: set[Kind]) -> str:
    """Replace the spans and add their kinds. Where two overlap, the first and longest names what both cover."""
    parts = list[str]()
    position = 0
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        if span.start >= position:
            parts += (text[position : span.start], span.placeholder)
            kinds.add(span.kind)
        position = max(position, span.end)
    return "".join([*parts, text[position:]])
