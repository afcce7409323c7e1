"""The tokenizer of expressions: numbers, names, signs. Currency signs are taken out, if they all are the same."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal

from finclaw.builtins.calculator.problem import CannotCalculate
from finclaw.numerals.read import NumeralError, read_numeral
from finclaw.numerals.tables import CURRENCY_SIGNS, VULGAR, find_currency

Kind = Literal["number", "name", "step", "sign", "end"]

LONGEST: Final = 8_000
"""Characters of an expression."""

_SPACE: Final = re.compile(r"[ \t\r\u00a0]+")
_NAME: Final = re.compile(r"[A-Za-z가-힣][A-Za-z0-9_가-힣]*")
_STEP: Final = re.compile(r"#[0-9]{1,4}(?![0-9])")
_NUMBER: Final = re.compile(rf"\.?[0-9]|[{''.join(VULGAR)}]")
_SIGN: Final = re.compile(r"\*\*|<=|>=|==|!=|[-+*/^()\[\],;=<>%×÷−–≤≥≠\n]")
_AMOUNT: Final = re.compile(r"[ ]?[-−(.0-9]")
_DIGITS: Final = re.compile(r"[ ]?\.?[0-9]")
_SIGN_OF: Final = {code: sign for sign, code in reversed(CURRENCY_SIGNS.items())}
_SAME: Final = {"**": "^", "×": "*", "÷": "/", "−": "-", "–": "-", "≤": "<=", "≥": ">=", "≠": "!=", "\n": ";"}


@dataclass(frozen=True, slots=True)
class Word:
    kind: Kind
    text: str
    at: int
    """The number of its first character, from one."""
    value: Fraction = Fraction(0)


@dataclass(frozen=True, slots=True)
class Words:
    words: tuple[Word, ...]
    currency: str
    """The sign that was left out of the arithmetic; empty when there was none."""


def read_words(text: str) -> Words:
    if len(text) > LONGEST:
        raise CannotCalculate(
            LONGEST + 1, f"an expression has at most {LONGEST} characters; calculate in several calls"
        )
    reader = _Reader(text)
    words = tuple(reader.words())
    return Words((*words, Word("end", "", len(text) + 1)), reader.currency)


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._brackets: list[bool] = []
        """The open ones, and whether commas separate in them: in `f(` and `[` they do."""
        self._last: Word | None = None
        self.currency = ""

    def words(self) -> Iterator[Word]:
        while self._at < len(self._text):
            if space := _SPACE.match(self._text, self._at):
                self._at = space.end()
            elif (word := self._next()) is not None:
                self._last = word
                yield word

    def _next(self) -> Word | None:
        """None after a currency, which is no word of the arithmetic."""
        text, start = self._text, self._at
        if _NUMBER.match(text, start):
            return self._number()
        if found := _NAME.match(text, start):
            return self._name(found)
        if found := _STEP.match(text, start):
            return self._word("step", found[0][1:], found.end())
        if found := _SIGN.match(text, start):
            return self._sign(_SAME.get(found[0], found[0]), found.end())
        if text[start] in CURRENCY_SIGNS:
            return self._currency(CURRENCY_SIGNS[text[start]], start + 1)
        raise CannotCalculate(
            start + 1, f"{text[start]!r} means nothing here" + ("; digits are 0 to 9" if text[start].isdigit() else "")
        )

    def _number(self) -> Word:
        separate = bool(self._brackets) and self._brackets[-1]
        try:
            numeral = read_numeral(self._text, self._at, commas_separate=separate)
        except NumeralError as error:
            raise CannotCalculate(error.at, str(error)) from error
        if numeral.currency:
            self._note_currency(numeral.currency)
        return self._word("number", self._text[self._at : numeral.end], numeral.end, numeral.value)

    def _name(self, found: re.Match[str]) -> Word | None:
        currency = find_currency(found[0])
        after_number = self._last is not None and self._last.kind == "number"
        if currency and (after_number or _DIGITS.match(self._text, found.end())):
            self._note_currency(currency)
            self._at = found.end()
            return None
        return self._word("name", found[0], found.end())

    def _sign(self, sign: str, end: int) -> Word:
        if sign in "([":
            self._brackets.append(sign == "[" or (self._last is not None and self._last.kind == "name"))
        elif sign in ")]" and self._brackets:
            self._brackets.pop()
        return self._word("sign", sign, end)

    def _currency(self, currency: str, end: int) -> None:
        self._note_currency(currency)
        if not _AMOUNT.match(self._text, end):
            raise CannotCalculate(self._at + 1, f"{self._text[self._at]} stands before an amount")
        self._at = end

    def _note_currency(self, code: str) -> None:
        currency = _SIGN_OF.get(code, code)
        if self.currency not in ("", currency):
            raise CannotCalculate(
                self._at + 1,
                f"{self.currency} and {currency} do not add up; convert one of them with fx__convert first",
            )
        self.currency = currency

    def _word(self, kind: Kind, text: str, end: int, value: Fraction = Fraction(0)) -> Word:
        word = Word(kind, text, self._at + 1, value)
        self._at = end
        return word
