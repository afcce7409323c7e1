"""The tokenizer of the calculator, which translates figures, names and signs so that Python can parse the rest."""

import re
from fractions import Fraction
from typing import Final, NamedTuple

from finclaw.errors import ToolError
from finclaw.numerals.read import NumeralError, read_numeral
from finclaw.numerals.tables import CURRENCY_SIGNS, VULGAR, find_currency

LONGEST: Final = 8_000  # characters of an expression
DEEPEST: Final = 50  # open brackets
_MOST_OPERATORS: Final = 1_000  # because a syntax tree is as deep as the longest sum

_NAME: Final = r"[A-Za-z가-힣][A-Za-z0-9_가-힣]*"
_END: Final = r"(?![A-Za-z0-9_가-힣])"
_TOKEN: Final = re.compile(
    rf"(?P<space>[^\S\n]+)|(?P<number>\.?[0-9]|[{''.join(VULGAR)}])|const_(?P<constant>m?[0-9]{{1,15}}){_END}"
    rf"|(?P<reference>\#[0-9]{{1,4}})(?![0-9])|(?P<currency>[{''.join(CURRENCY_SIGNS)}])(?=[ ]?[-−(.0-9])"
    rf"|(?P<operator>of{_END}|\*\*|[<>=!]=|[-+*/^%×÷−–<>≤≥≠])|(?P<next>,)(?=\s*{_NAME}\s*\()"
    rf"|(?P<mark>[=,;\n()\[\]])|(?P<call>{_NAME})[^\S\n]*\(|(?P<name>{_NAME})"
)
_DIGITS: Final = re.compile(r"[ ]?\.?[0-9]")
_PYTHON: Final = {
    **{"of": "*", "^": "**", "×": "*", "÷": "/", "−": "-", "–": "-", "≤": "<=", "≥": ">=", "≠": "!="},
    **{"%": ".percent", "(": "group(", "\n": ";"},
}
_SIGN_OF: Final = {code: sign for sign, code in reversed(CURRENCY_SIGNS.items())}


class CannotCalculate(ToolError):
    """An error that names the part of the expression which is wrong."""


class Token(NamedTuple):
    kind: str  # the group of the regular expression
    text: str
    value: Fraction = Fraction(0)


def read_tokens(text: str) -> tuple[list[Token], str]:
    """Return the tokens and the sign of the currency that was left out, or raise CannotCalculate."""
    if len(text) > LONGEST:
        raise CannotCalculate(f"an expression has at most {LONGEST} characters; calculate in several calls")
    reader = _Reader(text)
    reader.read()
    currencies = sorted(_SIGN_OF.get(code, code) for code in reader.currencies)
    if len(currencies) > 1:
        raise CannotCalculate(f"{' and '.join(currencies)} do not add up; convert one of them with fx__convert first")
    if sum(token.kind == "operator" for token in reader.tokens) > _MOST_OPERATORS:
        raise CannotCalculate(f"at most {_MOST_OPERATORS} operators; use sum(1, 2, ...)")
    return reader.tokens, "".join(currencies)


def to_python(index: int, token: Token) -> str:
    """Return what the token is for Python: a figure or name becomes a name that leads back to the token."""
    if token.kind in ("number", "reference", "name"):
        return f"t{index}"
    return f"t{index}(" if token.kind == "call" else _PYTHON.get(token.text, token.text)


class _Reader:
    def __init__(self, text: str) -> None:
        self.tokens: list[Token] = []
        self.currencies: set[str] = set()  # their codes
        self._text = text
        self._open: list[str] = []  # brackets, and the names of functions

    def read(self) -> None:
        at = 0
        while at < len(self._text):
            found = _TOKEN.match(self._text, at)
            if found is None:
                raise CannotCalculate(f"{self._text[at]!r} means nothing here; digits are 0 to 9")
            kind = found.lastgroup or ""
            at = found.end()
            if kind == "number":
                at = self._read_number(found.start())
            elif kind == "constant":
                self.tokens.append(Token("number", found[0], Fraction(found[kind].replace("m", "-"))))
            elif currency := self._find_currency(found):
                self.currencies.add(currency)
            elif kind != "space":
                self._add(Token(kind, found[kind]))

    def _read_number(self, start: int) -> int:
        in_row = bool(self._open) and self._open[-1] != "("
        try:
            numeral = read_numeral(self._text, start, commas_separate=in_row)
        except NumeralError as error:
            raise CannotCalculate(f"{self._text[start : error.at + 9]!r}: {error}") from error
        if numeral.currency:
            self.currencies.add(numeral.currency)
        self.tokens.append(Token("number", self._text[start : numeral.end], numeral.value))
        return numeral.end

    def _find_currency(self, found: re.Match[str]) -> str | None:
        """Return the code of `$`, or of a word such as USD if a number stands beside it."""
        follows_number = bool(self.tokens) and self.tokens[-1].kind == "number"
        is_beside = follows_number or _DIGITS.match(self._text, found.end())
        is_currency = found.lastgroup == "currency" or (found.lastgroup == "name" and is_beside)
        return find_currency(found[0]) if is_currency else None

    def _add(self, token: Token) -> None:
        if token.kind == "call" or token.text in ("(", "["):
            self._open.append(token.text)
        elif token.text in (")", "]") and self._open:
            self._open.pop()
        elif token.kind == "next" and not self._open:
            token = Token("mark", ";")
        if len(self._open) > DEEPEST:
            raise CannotCalculate(f"brackets are nested more than {DEEPEST} deep; name a part: a = ...; a * 2")
        ends = (";", "\n")
        if token.text in ends and (not self.tokens or self.tokens[-1].text in ends):
            return  # an empty step
        self.tokens.append(token)
