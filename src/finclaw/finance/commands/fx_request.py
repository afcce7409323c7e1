"""What people type behind `/fx`: an amount and one or two currencies, in English or Korean."""

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Final, NamedTuple

from finclaw.numerals.find import find_figures
from finclaw.numerals.tables import find_currency

_BETWEEN: Final = re.compile(r"[\s/,=?→]+|->")
_PARTICLES: Final = re.compile(r"(?:에서|으로|로|을|를|은|는|이|가|의)$")
_SMALL_WORDS: Final = frozenset(("to", "in", "into", "from", "환율", "환전", "rate", "?"))
_PAIR: Final = re.compile(r"([A-Za-z]{3})([A-Za-z]{3})")


class FxRequest(NamedTuple):
    """An amount and its currency, and the one that it is wanted in; each None where it was not said."""

    amount: Decimal | None = None
    base: str | None = None
    target: str | None = None
    left: str = ""
    """A word that is neither, or a third currency."""


def read_fx(args: Sequence[str]) -> FxRequest:
    text = " ".join(args)
    figures = [each for each in find_figures(text) if each.kind == "amount" and each.high is None]
    if len(figures) > 1 or (figures and figures[0].value <= 0):
        return FxRequest(left=text)
    currencies: list[str] = []
    amount = None
    for each in figures:
        amount = Decimal(each.value.numerator) / Decimal(each.value.denominator)
        currencies += [each.currency] if each.currency else []
        text = f"{text[: each.start]} {text[each.end :]}"
    for word in filter(None, _BETWEEN.split(text)):
        found = _currencies_of(word)
        if not found and word.casefold() not in _SMALL_WORDS and not _PARTICLES.fullmatch(word):
            return FxRequest(left=word)
        currencies += found
    if len(currencies) > 2:
        return FxRequest(left=currencies[2])
    base, target = (*currencies, None, None)[:2]
    return FxRequest(amount, base, target)


def _currencies_of(word: str) -> list[str]:
    for each in (word, _PARTICLES.sub("", word)):
        if found := find_currency(each):
            return [found]
    pair = _PAIR.fullmatch(word)
    both = [find_currency(each) for each in pair.groups()] if pair else []
    return [each for each in both if each] if all(both) else []


def default_target(base: str, home: str) -> str:
    """The person's own currency; of that itself, the one that it is mostly compared with."""
    if base != home:
        return home
    return "USD" if home == "KRW" else "KRW"
