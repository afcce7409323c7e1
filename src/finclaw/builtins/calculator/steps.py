"""The tokenizer of the calculator: it splits a text into steps whose operands and operators alternate."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import Final, Literal

from finclaw.errors import ToolError
from finclaw.numerals.read import NumeralError, read_numeral
from finclaw.numerals.tables import CURRENCY_SIGNS, VULGAR, find_currency

LONGEST: Final = 8_000
"""Characters of an expression."""
DEEPEST: Final = 50
"""Open brackets."""
_MOST_STEPS: Final = 200
_MOST_OPERATORS: Final = 1_000
"""Operators of one step, because a syntax tree is as deep as the longest sum."""

RELATIONS: Final = ("<", "<=", ">", ">=", "==", "!=")
_SPACE: Final = re.compile(r"[ \t\r\u00a0]+")
_NUMBER: Final = re.compile(rf"\.?[0-9]|[{''.join(VULGAR)}]")
_CONSTANT: Final = re.compile(r"const_(m?)([0-9]{1,15})(?![A-Za-z0-9_가-힣])")
_NAME: Final = re.compile(r"[A-Za-z가-힣][A-Za-z0-9_가-힣]*")
_REFERENCE: Final = re.compile(r"#([0-9]{1,4})(?![0-9])")
_SIGN: Final = re.compile(r"\*\*|<=|>=|==|!=|[-+*/^()\[\],;=<>%×÷−–≤≥≠\n]")
_SAME: Final = {"**": "^", "×": "*", "÷": "/", "−": "-", "–": "-", "≤": "<=", "≥": ">=", "≠": "!=", "\n": ";"}
_CALL: Final = re.compile(r"[ \t\r\n\u00a0]*([A-Za-z가-힣][A-Za-z0-9_가-힣]*)[ \t\r\u00a0]*\(")
_AMOUNT: Final = re.compile(r"[ ]?[-−(.0-9]")
_DIGITS: Final = re.compile(r"[ ]?\.?[0-9]")
_SIGN_OF: Final = {code: sign for sign, code in reversed(CURRENCY_SIGNS.items())}


class CannotCalculate(ToolError):
    """An error at a character, which `at` counts from one."""

    def __init__(self, at: int, why: str, *, suggestion: str | None = None) -> None:
        super().__init__(f"at character {at}: {why}", suggestion=suggestion)
        self.at = at


@dataclass(frozen=True, slots=True)
class Token:
    kind: Literal["number", "name", "reference", "call", "sign", "end"]
    text: str
    at: int
    value: Fraction = Fraction(0)

    @property
    def starts_operand(self) -> bool:
        return self.kind not in ("sign", "end") or self.text in ("(", "[")

    @property
    def ends_operand(self) -> bool:
        return self.kind in ("number", "name", "reference") or self.text in (")", "]", "%")


@dataclass(slots=True)
class Expression:
    """`name = tokens`, or tokens alone."""

    name: str = ""
    at: int = 0
    tokens: list[Token] = field(default_factory=list[Token])


def read_steps(text: str) -> tuple[list[Expression], str]:
    """Return the steps and the sign of the currency that was left out, or raise CannotCalculate."""
    if len(text) > LONGEST:
        raise CannotCalculate(
            LONGEST + 1, f"an expression has at most {LONGEST} characters; calculate in several calls"
        )
    tokenizer = _Tokenizer(text)
    steps = [Expression()]
    for token in tokenizer.read():
        step = steps[-1]
        if token.text == ";" or token.kind == "end":
            if step.tokens or step.name:
                _check_order(step, token)
                steps.append(Expression())
        elif len(steps) > _MOST_STEPS:
            raise CannotCalculate(token.at, f"at most {_MOST_STEPS} steps; calculate in several calls")
        elif token.text != "=":
            step.tokens.append(token)
        elif step.name or [each.kind for each in step.tokens] != ["name"]:
            raise CannotCalculate(token.at, "only a name can be given a value, as in a = 3; to compare, write ==")
        else:
            steps[-1] = Expression(step.tokens[0].text, step.tokens[0].at)
    steps.pop()
    if not steps:
        raise CannotCalculate(len(text) + 1, "there is nothing to calculate")
    return steps, tokenizer.currency


def _check_order(step: Expression, end: Token) -> None:
    operators = 0
    for last, token in pairwise((Token("sign", "", step.at), *step.tokens, end)):
        if last.ends_operand and token.starts_operand:
            if last.text == "%":
                raise CannotCalculate(last.at, "% means percent here, and a remainder is not offered; write 15% of 120")
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
            if space := _SPACE.match(self._text, self._at):
                self._at = space.end()
            elif not self._skip_currency():
                self._last = self._read_token()
                yield self._last
        self._check_closed(Token("end", "", self._at + 1))
        yield Token("end", "", self._at + 1)

    def _skip_currency(self) -> bool:
        """Leave out `$` before an amount, and `USD` beside a number."""
        sign = self._text[self._at]
        if sign in CURRENCY_SIGNS:
            self._note_currency(CURRENCY_SIGNS[sign])
            if not _AMOUNT.match(self._text, self._at + 1):
                raise CannotCalculate(self._at + 1, f"{sign} stands before an amount")
            self._at += 1
            return True
        name = _NAME.match(self._text, self._at)
        if name is None or not (self._last.kind == "number" or _DIGITS.match(self._text, name.end())):
            return False
        currency = find_currency(name[0])
        if currency is None:
            return False
        self._note_currency(currency)
        self._at = name.end()
        return True

    def _note_currency(self, code: str) -> None:
        currency = _SIGN_OF.get(code, code)
        if self.currency not in ("", currency):
            raise CannotCalculate(
                self._at + 1,
                f"{self.currency} and {currency} do not add up; convert one of them with fx__convert first",
            )
        self.currency = currency

    def _read_token(self) -> Token:
        text = self._text
        start = self._at
        if _NUMBER.match(text, start):
            return self._read_number()
        if found := _CONSTANT.match(text, start):
            token = Token("number", found[0], start + 1, Fraction(found[1].replace("m", "-") + found[2]))
        elif found := _REFERENCE.match(text, start):
            token = Token("reference", found[1], start + 1)
        elif (found := _CALL.match(text, start)) and not (found[1] == "of" and self._last.ends_operand):
            token = self._push(Token("call", found[1], start + 1))
        elif (found := _NAME.match(text, start)) and found[0] == "of" and self._last.ends_operand:
            token = Token("sign", "*", start + 1)
        elif found:
            token = Token("name", found[0], start + 1)
        elif found := _SIGN.match(text, start):
            token = self._read_sign(_SAME.get(found[0], found[0]), found.end())
        else:
            hint = "; digits are 0 to 9" if text[start].isdigit() else ""
            raise CannotCalculate(start + 1, f"{text[start]!r} means nothing here{hint}")
        self._at = found.end()
        return token

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

    def _read_sign(self, sign: str, end: int) -> Token:
        token = Token("sign", sign, self._at + 1)
        if sign in ("(", "["):
            self._push(token)
        elif sign in (")", "]"):
            if not self._open:
                raise CannotCalculate(token.at, f"this {sign!r} closes nothing")
            if (sign == "]") is not (self._open[-1].text == "["):
                self._check_closed(token)
            self._open.pop()
        elif sign in (*RELATIONS, ";") or (sign == "," and self._open and self._open[-1].text == "("):
            self._check_closed(token)
        elif sign == "," and not self._open:
            if self._last.text != ")" or not _CALL.match(self._text, end):
                raise CannotCalculate(token.at, "this comma separates nothing; steps are separated by ;")
            return Token("sign", ";", token.at)
        return token

    def _push(self, token: Token) -> Token:
        self._open.append(token)
        if len(self._open) > DEEPEST:
            raise CannotCalculate(token.at, f"nested more than {DEEPEST} deep; name a part first: a = ...; a * 2")
        return token

    def _check_closed(self, token: Token) -> None:
        if self._open:
            raise CannotCalculate(token.at, f"the bracket of character {self._open[-1].at} is not closed")
