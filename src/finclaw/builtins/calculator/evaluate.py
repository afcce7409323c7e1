"""Evaluation of expressions: Python parses them, and only the nodes listed here have a value.

All work is counted, so that no expression takes long.
"""

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from decimal import ROUND_HALF_UP, Context, Decimal, Inexact
from difflib import get_close_matches
from fractions import Fraction
from typing import Final, NamedTuple, TypeVar

from finclaw.builtins.calculator.functions import FUNCTIONS, MANY, RATIOS, Impossible, Number, to_decimal
from finclaw.builtins.calculator.steps import CannotCalculate, Expression, Token, read_steps
from finclaw.kernel.fact import Fact
from finclaw.kernel.port import ToolOutput
from finclaw.text import shorten

T = TypeVar("T")
Value = Number | tuple[Number, ...] | bool

SOURCE: Final = "calculator"
_MOST_SHOWN: Final = 1_000
"""Characters of an expression that are repeated in the answer."""
_HUNDRED: Final = Number(100)
_COMMON: Final = frozenset({*range(13), 100, 365, 1_000, 10_000, 1_000_000})
"""Figures that are equal to too many facts by chance."""
_MOST_INPUTS: Final = 20
_MOST_WORK: Final = 20_000
_WORK: Final = {"irr": 18}
"""For each number; 1 for other functions."""
_DEEPEST: Final = 120
_LONGEST: Final = 100
"""Digits of an exact result that are worth showing."""
_SHOWING: Final = Context(prec=28, rounding=ROUND_HALF_UP)
_EXACT: Final = Context(prec=4_000, traps=[Inexact])
_COMPARISONS: Final[Mapping[str, Callable[[Number, Number], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_OPERATIONS: Final[Mapping[str, Callable[[Number, Number], Number]]] = {
    "+": Number.__add__,
    "-": Number.__sub__,
    "*": Number.__mul__,
    "/": Number.__truediv__,
}
_RELATION, _SUM, _PRODUCT, _SIGN, _ATOM = range(5)
"""How tightly the text of an expression holds together."""


class Result(NamedTuple):
    name: str
    """The name it was given, or `#` and its number."""
    value: Value
    reading: str
    """The expression in plain arithmetic: percentages are divisions, and units are zeros."""
    is_ratio: bool


class _Part(NamedTuple):
    value: Value
    text: str
    strength: int = _ATOM

    def at_least(self, strength: int) -> str:
        if self.strength >= strength:
            return self.text
        return f"({self.text})"


def calculate(expression: str, now: datetime, known: Sequence[Fact] = ()) -> ToolOutput:
    """Return the text for the model, and the results as facts that name the known facts among their figures."""
    steps, currency = read_steps(expression)
    results = evaluate(steps)
    subject = shorten(" ".join(expression.split()), _MOST_SHOWN)
    reading = shorten("; ".join(result.reading for result in results), _MOST_SHOWN)
    lines = [f"expression: {subject}", f"reading: {reading}"]
    if currency:
        lines.append(f"currency: {currency}, left out of the arithmetic")
    facts: list[Fact] = []
    inputs = _find_inputs(steps, known)

    def add_fact(field: str, value: Decimal, unit: str = "") -> None:
        facts.append(
            Fact(subject=subject, field=field, value=value, unit=unit, as_of=now, source=SOURCE, inputs=inputs)
        )

    for index, result in enumerate(results, start=1):
        name = result.name
        if index == len(results):
            name = "result"
        text = _describe(result.value)
        if isinstance(result.value, bool):
            add_fact(name, Decimal(result.value))
        elif isinstance(result.value, Number):
            add_fact(name, _visible_digits(result.value))
            if result.is_ratio:
                percent = result.value * _HUNDRED
                add_fact(f"{name}_percent", _visible_digits(percent), "%")
                text = f"{text} (that is {_describe(percent)}%)"
        lines.append(f"{name}: {text}")
    lines.append(f"source: {SOURCE}")
    return ToolOutput("\n".join(lines), tuple(facts))


def evaluate(steps: Sequence[Expression]) -> list[Result]:
    evaluation = _Evaluation()
    for step in steps:
        evaluation.run(step)
    return evaluation.results


class _Evaluation:
    def __init__(self) -> None:
        self.results: list[Result] = []
        self._tokens: list[Token] = []
        self._work = 0
        self._depth = 0

    def run(self, step: Expression) -> None:
        if step.name.lower() in FUNCTIONS or step.name.lower() in ("none", "of"):
            raise CannotCalculate(step.at, f"{step.name!r} has a meaning already; choose another name")
        self._tokens = step.tokens
        # One token a line, so that the line of a node is the index of its token.
        source = "\n".join(_to_python(token) for token in step.tokens)
        tree = ast.parse(f"({source})", mode="eval").body
        part = self._compare(tree) if isinstance(tree, ast.Compare) else self._evaluate(tree)
        reading = part.text
        if step.name:
            reading = f"{step.name} = {reading}"
        is_ratio = isinstance(tree, ast.Call) and self._token(tree).text.lower() in RATIOS
        self.results.append(Result(step.name or f"#{len(self.results)}", part.value, reading, is_ratio))

    def _compare(self, node: ast.Compare) -> _Part:
        relation = self._operator_after(node.left)
        if len(node.ops) > 1:
            second = self._operator_after(node.comparators[0])
            raise CannotCalculate(second.at, f"an operator is missing before {second.text!r}")
        left, one = self._number(node.left)
        right, other = self._number(node.comparators[0])
        value = self._run(relation, _COMPARISONS[relation.text], one, other)
        return _Part(value, f"{left.text} {relation.text} {right.text}", _RELATION)

    def _evaluate(self, node: ast.expr) -> _Part:
        token = self._token(node)
        self._spend(1, token)
        self._depth += 1
        if self._depth > _DEEPEST:
            raise CannotCalculate(token.at, f"nested more than {_DEEPEST} deep; name a part first: a = ...; a * 2")
        match node:
            case ast.Name():
                part = self._look_up(token)
            case ast.List():
                numbers, text = self._numbers(node.elts, token)
                part = _Part(numbers, f"[{text}]")
            case ast.Call():
                part = self._call(token, node.args)
            case ast.Attribute():
                part = self._percent(token, node)
            case ast.UnaryOp():
                part = self._sign(token, node)
            case ast.BinOp(op=ast.Pow()):
                part = self._power(node)
            case ast.BinOp():
                part = self._chain(node)
            case _:
                raise CannotCalculate(token.at, "this cannot be calculated")
        self._depth -= 1
        return part

    def _number(self, node: ast.expr) -> tuple[_Part, Number]:
        part = self._evaluate(node)
        if isinstance(part.value, Number):
            return part, part.value
        what = {bool: "yes or no", tuple: "a row of numbers"}[type(part.value)]
        raise CannotCalculate(self._token(node).at, f"this is {what}, where one number is needed")

    def _percent(self, token: Token, node: ast.Attribute) -> _Part:
        part, number = self._number(node.value)
        value = self._run(token, Number.__truediv__, number, _HUNDRED)
        return _Part(value, f"{part.at_least(_ATOM)}/100", _PRODUCT)

    def _sign(self, token: Token, node: ast.UnaryOp) -> _Part:
        part, number = self._number(node.operand)
        if token.text == "+":
            return part
        return _Part(-number, f"-{part.at_least(_ATOM)}", _SIGN)

    def _power(self, node: ast.BinOp) -> _Part:
        base, one = self._number(node.left)
        exponent, other = self._number(node.right)
        value = self._run(self._operator_after(node.left), Number.__pow__, one, other)
        return _Part(value, f"{base.at_least(_ATOM)}^{exponent.at_least(_ATOM)}", _SIGN)

    def _chain(self, node: ast.BinOp) -> _Part:
        """Calculate from left to right. `a + 15%` takes the percentage of a, unless a consists of percentages."""
        links: list[ast.BinOp] = []
        first: ast.expr = node
        while isinstance(first, ast.BinOp) and not isinstance(first.op, ast.Pow):
            links.append(first)
            first = first.left
        part, value = self._number(first)
        only_percents = _is_percent(first)
        for link in reversed(links):
            token = self._operator_after(link.left)
            operand, number = self._number(link.right)
            is_sum = token.text in ("+", "-")
            is_percent = is_sum and _is_percent(link.right)
            if is_percent and not only_percents:
                number = self._run(token, Number.__mul__, value, number)
                factor = f"(1 {token.text} {operand.at_least(_PRODUCT)})"
                text = f"{part.at_least(_PRODUCT)} * {factor}"
                strength = _PRODUCT
            elif is_sum:
                text = f"{part.text} {token.text} {operand.at_least(_PRODUCT)}"
                strength = _SUM
            else:
                text = f"{part.at_least(_PRODUCT)} {token.text} {operand.at_least(_SIGN)}"
                strength = _PRODUCT
            value = self._run(token, _OPERATIONS[token.text], value, number)
            part = _Part(value, text, strength)
            only_percents = only_percents and is_percent
        return part

    def _call(self, token: Token, arguments: Sequence[ast.expr]) -> _Part:
        if token.kind == "sign":  # a bracket
            return self._evaluate(arguments[0])
        name = token.text.lower()
        if name not in FUNCTIONS:
            near = ", ".join(get_close_matches(name[:40], FUNCTIONS, n=3)) or None
            meant = near or ", ".join(FUNCTIONS)
            raise CannotCalculate(token.at, f"there is no function {name[:40]!r}; there is {meant}", suggestion=near)
        function, fewest, most = FUNCTIONS[name]
        if name.startswith("table_"):
            arguments = [node for node in arguments if self._token(node).text.lower() != "none"]
        numbers, text = self._numbers(arguments, token)
        if not fewest <= len(numbers) <= most:
            takes = " to ".join(map(str, sorted({fewest, most})))
            raise CannotCalculate(token.at, f"{name} takes {takes} numbers, and was given {len(numbers)}")
        self._spend(len(numbers) * _WORK.get(name, 1), token)
        return _Part(self._run(token, function, *numbers), f"{name}({text})")

    def _numbers(self, nodes: Sequence[ast.expr], token: Token) -> tuple[tuple[Number, ...], str]:
        numbers: list[Number] = []
        texts: list[str] = []
        for node in nodes:
            part = self._evaluate(node)
            if isinstance(part.value, bool):
                raise CannotCalculate(self._token(node).at, "this is yes or no, where a number is needed")
            if isinstance(part.value, Number):
                numbers.append(part.value)
            else:
                numbers.extend(part.value)
            texts.append(part.text)
            if len(numbers) > MANY:
                raise CannotCalculate(token.at, f"at most {MANY} numbers; calculate in several calls")
        self._spend(len(numbers), token)
        return tuple(numbers), ", ".join(texts)

    def _look_up(self, token: Token) -> _Part:
        if token.kind == "number":
            return _Part(self._run(token, Number, token.value), _write_literal(token.value))
        if token.kind == "reference":
            if int(token.text) >= len(self.results):
                raise CannotCalculate(token.at, f"there is no step #{token.text} before this one")
            return _Part(self.results[int(token.text)].value, f"#{token.text}")
        for result in reversed(self.results):
            if result.name == token.text:
                return _Part(result.value, token.text)
        known = ", ".join(dict.fromkeys(each.name for each in self.results if each.name[0] != "#")) or "none yet"
        raise CannotCalculate(token.at, f"{token.text[:40]!r} has no value; named so far: {known[:200]}")

    def _token(self, node: ast.expr) -> Token:
        if isinstance(node, ast.Attribute):
            return self._tokens[(node.end_lineno or 1) - 1]
        return self._tokens[node.lineno - 1]

    def _operator_after(self, node: ast.expr) -> Token:
        return self._tokens[node.end_lineno or 0]

    def _run(self, token: Token, function: Callable[..., T], *operands: object) -> T:
        try:
            return function(*operands)
        except Impossible as impossible:
            raise CannotCalculate(token.at, str(impossible)) from None

    def _spend(self, work: int, token: Token) -> None:
        self._work += work
        if self._work > _MOST_WORK:
            raise CannotCalculate(token.at, "this is too much work for one call; calculate in several")


def _to_python(token: Token) -> str:
    if token.kind in ("number", "name", "reference"):
        return "t"
    if token.kind == "call":
        return "t("
    return {"(": "t(", "^": "**", "%": ".t"}.get(token.text, token.text)


def _is_percent(node: ast.expr) -> bool:
    """Recognise 15% and -15%, but not (15%)."""
    return isinstance(node, ast.Attribute) or (isinstance(node, ast.UnaryOp) and _is_percent(node.operand))


def _describe(value: Value) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return shorten(f"[{', '.join(map(_describe, value))}]", _MOST_SHOWN)
    shown = _visible_digits(value)
    if value.value == Fraction(shown):
        return format(shown, "f")
    notation = "f" if -12 <= shown.adjusted() <= 40 else "E"
    return f"≈ {shown:{notation}}"


def _visible_digits(number: Number) -> Decimal:
    """Return all digits of a number if there are at most a hundred, else twenty-eight."""
    if isinstance(number.value, Fraction):
        digits = _write_all_digits(number.value)
        if digits is not None and digits.adjusted() < _LONGEST and -int(digits.as_tuple().exponent) <= _LONGEST:
            return digits
    return _SHOWING.plus(number.near).normalize(_SHOWING)


def _write_all_digits(value: Fraction) -> Decimal | None:
    """Return None if the digits never end."""
    try:
        return to_decimal(value, _EXACT)
    except Inexact:
        return None


def _write_literal(value: Fraction) -> str:
    digits = _write_all_digits(value)
    if digits is None:
        return f"({value})"
    return f"({digits:f})" if value < 0 else f"{digits:f}"


def _find_inputs(steps: Sequence[Expression], known: Sequence[Fact]) -> tuple[str, ...]:
    """Return the names of the newest facts that the figures of the expression are equal to."""
    figures = {token.value for step in steps for token in step.tokens if token.kind == "number"} - _COMMON
    found: dict[Fraction, str] = {}
    for fact in known:
        value = Fraction(fact.value)
        if value in figures:
            found.setdefault(value, fact.name)
    return tuple(found.values())[:_MOST_INPUTS]
