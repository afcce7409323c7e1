"""The tokenizer of the calculator: it splits a text into steps whose operands and operators alternate."""

import re
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from typing import Final, NamedTuple

from finclaw.errors import ToolError
from finclaw.numerals.read import NumeralError, read_numeral
from finclaw.numerals.tables import CURRENCY_SIGNS, VULGAR, find_currency

LONGEST: Final = 8_000  # characters of an expression
DEEPEST: Final = 50  # open brackets
_MOST_STEPS: Final = 200
_MOST_OPERATORS: Final = 1_000  # of one step, because a syntax tree is as deep as the longest sum

_NAME: Final = re.compile(r"[A-Za-z가-힣][A-Za-z0-9_가-힣]*")
_TOKEN: Final = re.compile(
    rf"(?P<space>[ \t\r\u00a0]+)|(?P<number>\.?[0-9]|[{''.join(VULGAR)}])"
    r"|const_(?P<constant>m?[0-9]{1,15})(?![A-Za-z0-9_가-힣])|\#(?P<reference>[0-9]{1,4})(?![0-9])"
    rf"|(?P<call>{_NAME.pattern})[ \t\r\u00a0]*\(|(?P<name>{_NAME.pattern})"
    r"|(?P<relation>[<>=!]=|[<>≤≥≠])|(?P<sign>\*\*|[-+*/^()\[\],;=%×÷−–\n])"
)
_SAME: Final = {"**": "^", "×": "*", "÷": "/", "−": "-", "–": "-", "≤": "<=", "≥": ">=", "≠": "!=", "\n": ";"}
_CALL: Final = re.compile(rf"\s*{_NAME.pattern}[ \t\r\u00a0]*\(")
_AMOUNT: Final = re.compile(r"[ ]?[-−(.0-9]")
_DIGITS: Final = re.compile(r"[ ]?\.?[0-9]")
_SIGN_OF: Final = {code: sign for sign, code in reversed(CURRENCY_SIGNS.items())}


class CannotCalculate(ToolError):
    """An error at a character, which `at` counts from one."""

    def __init__(self, at: int, why: str, *, suggestion: str | None = None) -> None:
        super().__init__(f"at character {at}: {why}", suggestion=suggestion)
        self.at = at


class Token(NamedTuple):
    kind: str  # the group of the regular expression, or `end`
    text: str
    at: int
    value: Fraction = Fraction(0)

    @property
    def starts_operand(self) -> bool:
        return self.kind in ("number", "name", "reference", "call") or self.text in ("(", "[")

    @property
    def ends_operand(self) -> bool:
        return self.kind in ("number", "name", "reference") or self.text in (")", "]", "%")


class Expression(NamedTuple):
    name: str  # before the `=`, or empty
    at: int
    tokens: list[Token]


def read_steps(text: str) -> tuple[list[Expression], str]:
    """Return the steps and the sign of the currency that was left out, or raise CannotCalculate."""
    if len(text) > LONGEST:
        raise CannotCalculate(
            LONGEST + 1, f"an expression has at most {LONGEST} characters; calculate in several calls"
        )
    tokenizer = _Tokenizer(text)
    steps: list[Expression] = []
    step = Expression("", 0, [])
    for token in tokenizer.read():
        if token.text in (";", ""):
            if step.tokens or step.name:
                _check_order(step, token)
                steps.append(step)
            step = Expression("", 0, [])
        elif len(steps) == _MOST_STEPS:
            raise CannotCalculate(token.at, f"at most {_MOST_STEPS} steps; calculate in several calls")
        elif token.text != "=":
            step.tokens.append(token)
        elif step.name or [each.kind for each in step.tokens] != ["name"]:
            raise CannotCalculate(token.at, "only a name can be given a value, as in a = 3; to compare, write ==")
        else:
            step = Expression(step.tokens[0].text, step.tokens[0].at, [])
    if not steps:
        raise CannotCalculate(len(text) + 1, "there is nothing to calculate")
    return steps, tokenizer.currency


def _check_order(step: Expression, end: Token) -> None:
    operators = 0
    for last, token in pairwise((Token("sign", "", step.at), *step.tokens, end)):
        if last.text == "%" and token.starts_operand:
            raise CannotCalculate(last.at, "% means percent here, and a remainder is not offered; write 15% of 120")
        if last.ends_operand and token.starts_operand:
            raise CannotCalculate(token.at, f"an operator is missing before {token.text!r}")
        is_empty_row = (last.kind == "call" or last.text == "[") and token.text in (")", "]")
        if not (last.ends_operand or token.starts_operand or token.text in ("+", "-") or is_empty_row):
            before = f"before {token.text!r}" if token.text else "at the end"
            raise CannotCalculate(token.at, f"a number is missing {before}")
        operators += token.text in ("+", "-", "*", "/", "^")
        if operators > _MOST_OPERATORS:
            raise CannotCalculate(token.at, f"at most {_MOST_OPERATORS} operators in a step; use sum(1, 2, ...)")


class _Tokenizer:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._open: list[Token] = []
        self._last = Token("end", "", 0)
        self.currency = ""

    def read(self) -> Iterator[Token]:
        while self._at < len(self._text):
            if not self._skip_currency() and (token := self._read_token()):
                self._last = token
                yield token
        self._check_closed(self._at + 1)
        yield Token("end", "", self._at + 1)

    def _skip_currency(self) -> bool:
        """Leave out `$` before an amount, and `USD` beside a number."""
        sign = self._text[self._at]
        name = _NAME.match(self._text, self._at)
        if sign in CURRENCY_SIGNS:
            if not _AMOUNT.match(self._text, self._at + 1):
                raise CannotCalculate(self._at + 1, f"{sign} stands before an amount")
            end = self._at + 1
            code = CURRENCY_SIGNS[sign]
        elif name and (self._last.kind == "number" or _DIGITS.match(self._text, name.end())):
            end = name.end()
            code = find_currency(name[0])
        else:
            return False
        if code is None:
            return False
        self._note_currency(code)
        self._at = end
        return True

    def _note_currency(self, code: str) -> None:
        currency = _SIGN_OF.get(code, code)
        if self.currency not in ("", currency):
            why = f"{self.currency} and {currency} do not add up; convert one of them with fx__convert first"
            raise CannotCalculate(self._at + 1, why)
        self.currency = currency

    def _read_token(self) -> Token | None:
        """Return None for blanks."""
        at = self._at + 1
        found = _TOKEN.match(self._text, self._at)
        if found is None:
            character = self._text[self._at]
            hint = "; digits are 0 to 9" if character.isdigit() else ""
            raise CannotCalculate(at, f"{character!r} means nothing here{hint}")
        kind = found.lastgroup or ""
        text = _SAME.get(found[kind], found[kind])
        if kind == "number":
            return self._read_number()
        if text == "of" and self._last.ends_operand:
            self._at = found.end(kind)
            return Token("sign", "*", at)
        self._at = found.end()
        if kind == "constant":
            return Token("number", found[0], at, Fraction(text.replace("m", "-")))
        token = Token(kind, text, at)
        if text == "," and not self._open:
            if self._last.text != ")" or not _CALL.match(self._text, self._at):
                raise CannotCalculate(at, "this comma separates nothing; steps are separated by ;")
            return Token("sign", ";", at)
        self._match_brackets(token)
        return None if kind == "space" else token

    def _match_brackets(self, token: Token) -> None:
        last = self._open[-1].text if self._open else ""
        if token.kind == "call" or token.text in ("(", "["):
            self._open.append(token)
            if len(self._open) > DEEPEST:
                why = f"nested more than {DEEPEST} deep; name a part first: a = ...; a * 2"
                raise CannotCalculate(token.at, why)
        elif token.text in (")", "]"):
            if not self._open:
                raise CannotCalculate(token.at, f"this {token.text!r} closes nothing")
            if (token.text == "]") is not (last == "["):
                self._check_closed(token.at)
            self._open.pop()
        elif token.text == ";" or token.kind == "relation" or (token.text == "," and last == "("):
            self._check_closed(token.at)

    def _read_number(self) -> Token:
        start = self._at
        is_row = bool(self._open) and self._open[-1].text != "("
        try:
            numeral = read_numeral(self._text, start, commas_separate=is_row)
        except NumeralError as error:
            raise CannotCalculate(error.at, str(error)) from error
        if numeral.currency:
            self._note_currency(numeral.currency)
        self._at = numeral.end
        return Token("number", self._text[start : numeral.end], start + 1, numeral.value)

    def _check_closed(self, at: int) -> None:
        if self._open:
            raise CannotCalculate(at, f"the bracket of character {self._open[-1].at} is not closed")
