"""Redaction of secrets: card, account and personal numbers, keys and passwords become placeholders.

Used by the guard of tool results, by everything that is displayed to a person, and by the logs. A cheap pre-check
passes most texts. Any other is scanned: all searches over the text, then again around each replacement, until nothing
more is found. Every search is linear in the length of the text.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from finclaw.redaction.accounts import find_accounts
from finclaw.redaction.cards import find_cards
from finclaw.redaction.clean import clean, fold_characters, is_clean
from finclaw.redaction.known_secrets import hide_known_secrets
from finclaw.redaction.labels import find_labelled_secrets
from finclaw.redaction.national_ids import find_resident_numbers, find_social_security_numbers
from finclaw.redaction.patterns import KEY_PATTERNS, LABELS, PRIVATE_KEY_PREFIX, find_keys, find_private_keys
from finclaw.redaction.scan_text import (
    Kind,
    PriorScan,
    Redacted,
    ScanText,
    Span,
    limit_spans,
    may_hold_number,
    replace_spans,
)

_KNOWN: Final[frozenset[Kind]] = frozenset({"secret"})
_PRECHECKED: Final = 8_000
"""Characters up to which the pre-check is worth it: a longer text seldom holds nothing at all."""


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
    if _is_plain(known, patterns):
        return Redacted(known) if known is text else Redacted(known, _KNOWN)
    return _add_known(known is not text, redact_clean(clean(known), finance, patterns))


def redact_clean(text: str, finance: bool, patterns: Sequence[re.Pattern[str]]) -> Redacted:
    """`redact` for a text that is clean already."""
    known = hide_known_secrets(text)
    found = Redacted(known) if _is_plain(known, patterns) else _scan(known, finance, patterns)
    return _add_known(known is not text, found)


def _add_known(has_known: bool, found: Redacted) -> Redacted:
    return Redacted(found.text, found.kinds | _KNOWN) if has_known else found


def _is_plain(text: str, patterns: Sequence[re.Pattern[str]]) -> bool:
    return len(text) <= _PRECHECKED and not patterns and not may_hold_secrets(text)


# ── the pre-check ─────────────────────────────────────────────────────────────────────────────────────────


def _group_words(words: Iterable[str], parts: Sequence[str]) -> Sequence[tuple[str, Sequence[str]]]:
    """Words by the first of these parts that they hold: where the part is missing, none of its words is looked for."""
    groups: dict[str, list[str]] = {}
    for word in words:
        groups.setdefault(next((part for part in parts if part in word), ""), []).append(word)
    return tuple(groups.items())


_LABEL_GROUPS: Final = _group_words(LABELS, ("key", "ss", "cre", "acc", "/"))
_PREFIX_GROUPS: Final = _group_words(
    (PRIVATE_KEY_PREFIX, *(key.prefix for key in KEY_PATTERNS)), ("_", "-", ":", "/", "J", "G", "R", "z", "x")
)


def _has_word(text: str, groups: Sequence[tuple[str, Sequence[str]]]) -> bool:
    """Whether it holds one of the words. Every text that is shown passes here, so it is quick (`cpu_plain`)."""
    return any([part in text and any(map(text.__contains__, words)) for part, words in groups])


def may_hold_secrets(text: str) -> bool:
    """The pre-check: False only where no search would find anything, and cleaning would take nothing away.

    Most texts hold no secret and need no scan. The pre-check asks for the same labels, key patterns and number shapes
    that the scan uses, so it cannot miss what a scan finds.
    """
    if not is_clean(text):
        return True
    text = fold_characters(text)
    return _has_word(text.lower(), _LABEL_GROUPS) or _has_key(text) or may_hold_number(text)


def _has_key(text: str) -> bool:
    return _has_word(text, _PREFIX_GROUPS) and (
        PRIVATE_KEY_PREFIX in text
        or any(key.prefix in text and key.pattern.search(text) is not None for key in KEY_PATTERNS)
    )


# ── the scan ──────────────────────────────────────────────────────────────────────────────────────────────

Search = Callable[[ScanText], Iterator[Span]]

FINANCE: Final[tuple[Search, ...]] = (
    find_cards,
    find_resident_numbers,
    find_social_security_numbers,
    find_accounts,
)
SECRETS: Final[tuple[Search, ...]] = (find_private_keys, find_keys, find_labelled_secrets)

_MOST_SCANS: Final = 8
_SAMPLE: Final = 20_000
_DENSE: Final = _SAMPLE // 32
_READ_IF_DENSE: Final = 120_000
"""A text that begins with a secret in every line is read so far: more than is stored, unless more is asked for."""
_EDGE: Final = 64
"""Longer than any number: a number that the end of the reading cut in two goes with these last characters."""


def _scan(text: str, finance: bool, patterns: Sequence[re.Pattern[str]]) -> Redacted:
    """The text without secrets. A replacement may uncover what stood beside it, so its surroundings are rescanned."""

    def find_spans(scanned: ScanText) -> Iterator[Span]:
        return _find_spans(scanned, finance, patterns)

    is_dense = len(text) > _READ_IF_DENSE and len(list(find_spans(ScanText(text[:_SAMPLE])))) > _DENSE
    scanned = ScanText(text[:_READ_IF_DENSE] if is_dense else text)
    found = replace_spans(text, _hide_rest(text, find_spans(scanned)) if is_dense else find_spans(scanned))
    kinds = found.kinds
    for _ in range(_MOST_SCANS - 1):
        text = found.text
        found = replace_spans(text, _rescan(text, PriorScan(found.places, scanned.absent), find_spans))
        if found.text == text:
            break
        kinds |= found.kinds
    return Redacted(found.text, kinds)


def _find_spans(scanned: ScanText, finance: bool, patterns: Sequence[re.Pattern[str]]) -> Iterator[Span]:
    for search in SECRETS + FINANCE if finance else SECRETS:
        yield from search(scanned)
    for pattern in patterns:
        yield from limit_spans(
            scanned.text, (Span(*found.span(), "private") for found in pattern.finditer(scanned.text))
        )


def _hide_rest(text: str, spans: Iterator[Span]) -> Iterator[Span]:
    """The spans in the beginning of a dense text, and one for all the rest."""
    edge = _READ_IF_DENSE - _EDGE
    yield Span(edge, len(text), "many secrets")
    for span in spans:
        if span.start < edge:
            yield span._replace(end=min(span.end, edge))


# ── the rescan ────────────────────────────────────────────────────────────────────────────────────────────

# The rescan reads the surroundings of the changes only; a whole second scan would break the limit of
# `test_one_secret_in_a_megabyte_costs_no_second_reading`.

_NEAR: Final = 4_000
"""Longer than anything with a space in it that a search takes or looks at beside it, a private key apart.

A replacement makes no new beginning of a private key.
"""
_SPACE: Final = re.compile(r"\s")
_UNSURE: Final = 200
"""A span so near to where a stretch was cut out may not be there in the whole text."""


def _rescan(text: str, prior: PriorScan, find_spans: Callable[[ScanText], Iterator[Span]]) -> list[Span]:
    """The spans that are new after a change."""
    if not prior.changed:
        return []
    stretches = _stretches(text, prior.changed)
    if sum(end - start for start, end in stretches) > len(text) // 2:
        return list(find_spans(ScanText(text, prior)))
    spans = list[Span]()
    for start, end in stretches:
        for span in find_spans(ScanText(text[start:end], prior.within(start, end))):
            moved = span._replace(start=span.start + start, end=span.end + start)
            if (start and moved.start < start + _UNSURE) or (end < len(text) and moved.end > end - _UNSURE):
                return list(find_spans(ScanText(text, prior)))
            spans.append(moved)
    return spans


def _stretches(text: str, places: Sequence[int]) -> list[tuple[int, int]]:
    """The surroundings of the places, from space to space: a key without one may be of any length."""
    stretches = list[tuple[int, int]]()
    for first, last in _group_places(places):
        covered = stretches[-1][1] if stretches else 0
        if min(last + _NEAR, len(text)) <= covered:
            continue
        start, end = _space_before(text, first - _NEAR, covered), _space_behind(text, last + _NEAR)
        if stretches and start <= covered:
            start = stretches.pop()[0]
        stretches.append((start, end))
    return stretches


def _group_places(places: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The first and the last of those places whose surroundings meet."""
    first = last = places[0]
    for place in places:
        if place - last > 2 * _NEAR:
            yield first, last
            first = place
        last = place
    yield first, last


def _space_before(text: str, place: int, lowest: int) -> int:
    found = _SPACE.search(text[place:lowest:-1]) if place > lowest else None
    return place - found.start() if found is not None else lowest


def _space_behind(text: str, place: int) -> int:
    found = _SPACE.search(text, place)
    return found.start() if found is not None else len(text)
