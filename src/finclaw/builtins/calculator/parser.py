"""The parser of expressions: a recursive descent by hand.

It knows what it accepts, and never asks Python what a text means.
"""

import re
from fractions import Fraction
from typing import Final, cast

from finclaw.builtins.calculator.expression import (
    Chain,
    Comparison,
    Expression,
    FunctionCall,
    Link,
    ListExpression,
    Literally,
    Name,
    Negation,
    Operator,
    Percent,
    Power,
    Relation,
    Statement,
    StepReference,
)
from finclaw.builtins.calculator.problem import CannotCalculate
from finclaw.builtins.calculator.word import Word, Words

DEEPEST: Final = 50
_MOST_STATEMENTS: Final = 200
_RELATIONS: Final = frozenset({"<", "<=", ">", ">=", "==", "!="})
_CONSTANT: Final = re.compile(r"const_(m?)([0-9]{1,15})")


def parse(words: Words) -> tuple[Statement, ...]:
    """Raises CannotCalculate, which says where and what would do."""
    return _Parser(words.words).statements()


class _Parser:
    def __init__(self, words: tuple[Word, ...]) -> None:
        self._words = words
        self._place = 0
        self._depth = 0

    # ── statements ──────────────────────────────────────────────────────────────────────────────────────────

    def statements(self) -> tuple[Statement, ...]:
        found: list[Statement] = []
        while True:
            while self._take(";"):
                pass
            if self._word.kind == "end":
                break
            if len(found) == _MOST_STATEMENTS:
                raise self._problem(f"at most {_MOST_STATEMENTS} steps; calculate in several calls")
            found.append(self._statement())
            self._end_of(found[-1])
        if not found:
            raise self._problem("there is nothing to calculate")
        return tuple(found)

    def _statement(self) -> Statement:
        word, after = self._word, self._words[min(self._place + 1, len(self._words) - 1)]
        if word.kind == "name" and after.text == "=":
            self._place += 2
            return Statement(word.text, self._comparison(), word.at)
        return Statement("", self._comparison(), word.at)

    def _end_of(self, statement: Statement) -> None:
        """A semicolon or a new line; a comma only where one call follows another, as in `add(1, 2), divide(#0, 3)`."""
        if self._word.kind == "end" or self._take(";"):
            return
        after = self._words[min(self._place + 1, len(self._words) - 1)]
        if self._word.text == "," and isinstance(statement.expression, FunctionCall) and after.kind == "name":
            self._place += 1
            return
        raise self._problem(_what_is_missing(self._word))

    def _comparison(self) -> Expression:
        left = self._sum()
        if self._word.text not in _RELATIONS:
            return left
        word = self._next()
        return Comparison(left, cast("Relation", word.text), self._sum(), word.at)

    # ── operators, the weakest first ────────────────────────────────────────────────────────────────────────

    def _sum(self) -> Expression:
        first, links = self._product(), list[Link]()
        while self._word.kind == "sign" and self._word.text in ("+", "-"):
            word = self._next()
            links.append(Link(cast("Operator", word.text), self._product(), word.at))
        return Chain(first, tuple(links), links[0].at) if links else first

    def _product(self) -> Expression:
        first, links = self._signed(), list[Link]()
        while self._word.text in ("*", "/", "of"):
            word = self._next()
            links.append(Link(cast("Operator", word.text), self._signed(), word.at))
        return Chain(first, tuple(links), links[0].at) if links else first

    def _signed(self) -> Expression:
        word = self._word
        if word.kind != "sign" or word.text not in ("+", "-"):
            return self._power()
        self._descend()
        self._place += 1
        operand = self._signed()
        self._depth -= 1
        return operand if word.text == "+" else Negation(operand, word.at)

    def _power(self) -> Expression:
        base = self._percent()
        word = self._word
        if word.text != "^":
            return base
        self._descend()
        self._place += 1
        exponent = self._signed()
        self._depth -= 1
        return Power(base, exponent, word.at)

    def _percent(self) -> Expression:
        operand, word = self._atom(), self._word
        if not self._take("%"):
            return operand
        after = self._word
        if after.kind in ("number", "step") or after.text == "(" or (after.kind == "name" and after.text != "of"):
            raise CannotCalculate(word.at, "% means percent here, and a remainder is not offered; write 15% of 120")
        return Percent(operand, word.at)

    # ── what operators stand between ────────────────────────────────────────────────────────────────────────

    def _atom(self) -> Expression:
        word = self._word
        if word.kind == "number":
            self._place += 1
            return Literally(word.value, word.at)
        if word.kind == "step":
            self._place += 1
            return StepReference(int(word.text), word.at)
        if word.kind == "name":
            return self._named()
        if word.text in ("(", "["):
            return self._bracketed()
        raise self._problem("a number is missing" + (f" before {word.text!r}" if word.text else " at the end"))

    def _named(self) -> Expression:
        word = self._next()
        if self._take("("):
            return FunctionCall(word.text.lower(), self._items(")"), word.at)
        if constant := _CONSTANT.fullmatch(word.text):
            value = Fraction(int(constant[2]))
            return Literally(-value if constant[1] else value, word.at)
        return Name(word.text, word.at)

    def _bracketed(self) -> Expression:
        word = self._next()
        if word.text == "[":
            return ListExpression(self._items("]"), word.at)
        self._descend()
        inside = self._sum()
        if not self._take(")"):
            raise self._problem(f"the bracket of character {word.at} is not closed")
        self._depth -= 1
        # One of a percent makes it a number: 120 + (15%) is 120.15.
        return Chain(inside, (), word.at) if isinstance(inside, Percent | Negation) else inside

    def _items(self, closing: str) -> tuple[Expression, ...]:
        opened = self._words[self._place - 1]
        self._descend()
        items: list[Expression] = []
        while not (not items and self._word.text == closing):
            items.append(self._sum())
            if not self._take(","):
                break
        if not self._take(closing):
            raise self._problem(f"the bracket of character {opened.at} is not closed, or a comma is missing")
        self._depth -= 1
        return tuple(items)

    # ── walking ─────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def _word(self) -> Word:
        return self._words[self._place]

    def _next(self) -> Word:
        self._place += 1
        return self._words[self._place - 1]

    def _take(self, sign: str) -> bool:
        if self._word.kind != "sign" or self._word.text != sign:
            return False
        self._place += 1
        return True

    def _descend(self) -> None:
        self._depth += 1
        if self._depth > DEEPEST:
            raise self._problem(f"nested more than {DEEPEST} deep; name a part first: a = ...; a * 2")

    def _problem(self, why: str) -> CannotCalculate:
        return CannotCalculate(self._word.at, why)


def _what_is_missing(word: Word) -> str:
    if word.text == "=":
        return "only a name can be given a value, as in a = 3; to compare, write =="
    if word.text == ",":
        return "this comma separates nothing; steps are separated by ;"
    if word.text in (")", "]"):
        return f"this {word.text!r} closes nothing"
    return f"an operator is missing before {word.text!r}"
