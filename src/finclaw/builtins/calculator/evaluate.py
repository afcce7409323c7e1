"""Evaluation of expressions: Python parses them, and only the nodes listed here have a value."""

import ast
from collections.abc import Callable, Sequence
from datetime import datetime
from decimal import ROUND_HALF_UP, Context, Decimal, Overflow, Subnormal, localcontext
from difflib import get_close_matches
from fractions import Fraction
from typing import Any, Final, NamedTuple

from finclaw.builtins.calculator.functions import CONTEXT, FUNCTIONS, MANY, OPERATORS, RATIOS, ZERO, Impossible, settle
from finclaw.builtins.calculator.steps import CannotCalculate, Expression, Token, read_steps
from finclaw.kernel.fact import Fact
from finclaw.kernel.port import ToolOutput
from finclaw.text import shorten

Value = Decimal | tuple[Decimal, ...] | bool

SOURCE: Final = "calculator"
_MOST_SHOWN: Final = 1_000  # characters of an expression that are repeated in the answer
_COMMON: Final = frozenset({*range(13), 100, 365, 1_000, 10_000, 1_000_000})  # equal to too many facts by chance
_MOST_INPUTS: Final = 20
_MOST_WORK: Final = 20_000  # arguments of functions in one expression
_WORK: Final = {"irr": 18}  # for each argument; 1 for other functions
_LONGEST: Final = 100  # digits before or after the point of an exact result that are worth showing
_SHOWING: Final = Context(prec=28, rounding=ROUND_HALF_UP)
_RELATION, _SUM, _PRODUCT, _SIGN, _ATOM = range(5)  # how tightly the text of an expression holds together


class Result(NamedTuple):
    name: str  # as it was given, or `#` and its number
    value: Value
    reading: str  # in plain arithmetic: percentages are divisions, and units are zeros
    is_ratio: bool


class _Part(NamedTuple):
    value: Value
    text: str
    strength: int = _ATOM
    is_percent: bool = False  # 15% or -15%, but not (15%)
    has_percents_only: bool = False  # a sum of percentages

    def at_least(self, strength: int) -> str:
        return self.text if self.strength >= strength else f"({self.text})"


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
        name = "result" if index == len(results) else result.name
        text = _describe(result.value)
        if not isinstance(result.value, tuple):
            add_fact(name, _visible_digits(Decimal(result.value)))
        if isinstance(result.value, Decimal) and result.is_ratio:
            percent = CONTEXT.scaleb(result.value, Decimal(2))
            add_fact(f"{name}_percent", _visible_digits(percent), "%")
            text = f"{text} (that is {_describe(percent)}%)"
        lines.append(f"{name}: {text}")
    lines.append(f"source: {SOURCE}")
    return ToolOutput("\n".join(lines), tuple(facts))


def _find_inputs(steps: Sequence[Expression], known: Sequence[Fact]) -> tuple[str, ...]:
    """Return the names of the newest facts that the figures of the expression are equal to."""
    figures = {token.value for step in steps for token in step.tokens if token.kind == "number"} - _COMMON
    found: dict[Decimal, str] = {}
    for fact in known:
        if Fraction(fact.value) in figures:
            found.setdefault(fact.value, fact.name)
    return tuple(found.values())[:_MOST_INPUTS]


def _describe(value: Value) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return shorten(f"[{', '.join(map(_describe, value))}]", _MOST_SHOWN)
    shown = _visible_digits(value)
    if shown == value:
        return format(shown, "f")
    notation = "f" if -12 <= shown.adjusted() <= 40 else "E"
    return f"≈ {shown:{notation}}"


def _visible_digits(value: Decimal) -> Decimal:
    """Return all digits of a number if there are at most a hundred, else twenty-eight."""
    if value.adjusted() < _LONGEST and -int(value.as_tuple().exponent) <= _LONGEST:
        return Decimal(format(value, "f"))
    return value.normalize(_SHOWING)


def evaluate(steps: Sequence[Expression]) -> list[Result]:
    evaluation = _Evaluation()
    with localcontext(CONTEXT):
        for step in steps:
            evaluation.run(step)
    return evaluation.results


class _Evaluation:
    def __init__(self) -> None:
        self.results: list[Result] = []
        self._tokens: list[Token] = []
        self._parts: dict[ast.AST, _Part] = {}
        self._work = 0

    def run(self, step: Expression) -> None:
        if step.name.lower() in (*FUNCTIONS, "none", "of"):
            raise CannotCalculate(step.at, f"{step.name!r} has a meaning already; choose another name")
        self._tokens = step.tokens
        # One token a line, so that the line of a node is the index of its token.
        source = "\n".join(_to_python(token) for token in step.tokens)
        tree = ast.parse(f"({source})", mode="eval").body
        for node in reversed(list(ast.walk(tree))):  # children before parents
            if isinstance(node, ast.expr):
                self._parts[node] = self._evaluate(node, self._tokens[node.lineno - 1])
        part = self._parts[tree]
        reading = f"{step.name} = {part.text}" if step.name else part.text
        is_ratio = isinstance(tree, ast.Call) and step.tokens[0].text.lower() in RATIOS
        self.results.append(Result(step.name or f"#{len(self.results)}", part.value, reading, is_ratio))

    def _evaluate(self, node: ast.expr, token: Token) -> _Part:
        match node:
            case ast.Name():
                part = self._look_up(token)
            case ast.List(elts=elements):
                numbers, text = self._numbers(elements, token)
                part = _Part(numbers, f"[{text}]")
            case ast.Call(args=arguments):
                part = self._call(token, arguments)
            case ast.Attribute(value=inner):
                part, number = self._number(inner)
                part = _Part(settle(number / 100), f"{part.at_least(_ATOM)}/100", _PRODUCT, True, True)
            case ast.UnaryOp(operand=inner):
                part, number = self._number(inner)
                if token.text == "-":
                    part = part._replace(value=-number, text=f"-{part.at_least(_ATOM)}", strength=_SIGN)
            case ast.BinOp(left=left, right=right) | ast.Compare(left=left, comparators=[right]):
                part = self._combine(left, self._tokens[left.end_lineno or 0], right)
            case _:  # a comparison of three
                second = [token for token in self._tokens if token.kind == "relation"][1]
                raise CannotCalculate(second.at, f"an operator is missing before {second.text!r}")
        return part

    def _number(self, node: ast.expr) -> tuple[_Part, Decimal]:
        part = self._parts[node]
        if isinstance(part.value, Decimal):
            return part, part.value
        what = "a row of numbers" if isinstance(part.value, tuple) else "yes or no"
        raise CannotCalculate(self._tokens[node.lineno - 1].at, f"this is {what}, where one number is needed")

    def _combine(self, left: ast.expr, token: Token, right: ast.expr) -> _Part:
        """Calculate two operands. `a + 15%` takes the percentage of a, unless a consists of percentages."""
        one, number = self._number(left)
        two, other = self._number(right)
        sign = token.text
        strength = _PRODUCT
        if sign in ("+", "-") and two.is_percent and not one.has_percents_only:
            other = self._run(token, OPERATORS["*"], number, other)
            text = f"{one.at_least(_PRODUCT)} * (1 {sign} {two.at_least(_PRODUCT)})"
        elif sign in ("+", "-"):
            text = f"{one.text} {sign} {two.at_least(_PRODUCT)}"
            strength = _SUM
        elif sign == "^":
            text = f"{one.at_least(_ATOM)}^{two.at_least(_ATOM)}"
            strength = _SIGN
        elif sign in ("*", "/"):
            text = f"{one.at_least(_PRODUCT)} {sign} {two.at_least(_SIGN)}"
        else:
            text = f"{one.text} {sign} {two.text}"
            strength = _RELATION
        value = self._run(token, OPERATORS[sign], number, other)
        return _Part(value, text, strength, False, strength == _SUM and one.has_percents_only and two.is_percent)

    def _call(self, token: Token, arguments: Sequence[ast.expr]) -> _Part:
        if token.text == "(":
            return self._parts[arguments[0]]._replace(is_percent=False, has_percents_only=False)
        name = token.text.lower()
        if name not in FUNCTIONS:
            near = ", ".join(get_close_matches(name[:40], FUNCTIONS, n=3)) or None
            meant = near or ", ".join(FUNCTIONS)
            raise CannotCalculate(token.at, f"there is no function {name[:40]!r}; there is {meant}", suggestion=near)
        function, fewest, most = FUNCTIONS[name]
        numbers, text = self._numbers(arguments, token)
        if not fewest <= len(numbers) <= most:
            takes = " to ".join(map(str, sorted({fewest, most})))
            raise CannotCalculate(token.at, f"{name} takes {takes} numbers, and was given {len(numbers)}")
        self._work += len(numbers) * _WORK.get(name, 1)
        if self._work > _MOST_WORK:
            raise CannotCalculate(token.at, "this is too much work for one call; calculate in several")
        return _Part(self._run(token, function, *numbers), f"{name}({text})")

    def _numbers(self, nodes: Sequence[ast.expr], token: Token) -> tuple[tuple[Decimal, ...], str]:
        numbers: list[Decimal] = []
        for node in nodes:
            value = self._parts[node].value
            if isinstance(value, tuple):
                numbers += value
            else:
                numbers.append(self._number(node)[1])
            if len(numbers) > MANY:
                raise CannotCalculate(token.at, f"at most {MANY} numbers; calculate in several calls")
        return tuple(numbers), ", ".join(self._parts[node].text for node in nodes)

    def _look_up(self, token: Token) -> _Part:
        if token.kind == "number":
            value = token.value
            number = self._run(token, lambda: Decimal(value.numerator) / value.denominator)
            return _Part(number, f"{number:f}" if number == value and number >= 0 else f"({value})")
        if token.kind == "call" or token.text == "(":  # evaluated with its arguments
            return _Part(ZERO, "")
        if token.kind == "reference":
            if int(token.text) >= len(self.results):
                raise CannotCalculate(token.at, f"there is no step #{token.text} before this one")
            return _Part(self.results[int(token.text)].value, f"#{token.text}")
        if token.text.lower() == "none":  # as in table_sum(row, none)
            return _Part((), token.text)
        for result in reversed(self.results):
            if result.name == token.text:
                return _Part(result.value, token.text)
        known = ", ".join(dict.fromkeys(each.name for each in self.results if each.name[0] != "#")) or "none yet"
        raise CannotCalculate(token.at, f"{token.text[:40]!r} has no value; named so far: {known[:200]}")

    def _run(self, token: Token, function: Callable[..., Decimal | bool], *operands: Decimal) -> Any:
        try:
            value = function(*operands)
        except Impossible as impossible:
            raise CannotCalculate(token.at, str(impossible)) from None
        except (Overflow, Subnormal):
            raise CannotCalculate(token.at, "the result is too large or too small") from None
        return value if isinstance(value, bool) else settle(value)


def _to_python(token: Token) -> str:
    if token.kind in ("number", "name", "reference"):
        return "t"
    if token.kind == "call" or token.text == "(":
        return "t("
    return {"^": "**", "%": ".t"}.get(token.text, token.text)
