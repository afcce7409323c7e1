"""Evaluation of expressions: Python parses them, and only the nodes listed here have a value."""

import ast
from collections.abc import Callable, Sequence
from datetime import datetime
from decimal import ROUND_HALF_UP, Context, Decimal, DivisionByZero, InvalidOperation, Overflow, Subnormal, localcontext
from difflib import get_close_matches
from fractions import Fraction
from operator import eq, ge, gt, le, lt, ne
from typing import Any, Final, NamedTuple

from finclaw.builtins.calculator.functions import CONTEXT, FUNCTIONS, MANY, RATIOS, ZERO, add, settle, subtract
from finclaw.builtins.calculator.steps import PYTHON, CannotCalculate, Token, read_tokens
from finclaw.kernel.fact import Fact
from finclaw.kernel.port import ToolOutput
from finclaw.text import shorten

Value = Decimal | tuple[Decimal, ...] | bool

SOURCE: Final = "calculator"
_MOST_SHOWN: Final = 1_000  # characters of an expression that are repeated in the answer
_COMMON: Final = frozenset({*range(13), 100, 365, 1_000, 10_000, 1_000_000})  # equal to too many facts by chance
_MOST_INPUTS: Final = 20
_MOST_STEPS: Final = 200
_MOST_WORK: Final = 20_000  # arguments of functions in one expression
_WORK: Final = {"irr": 18}  # for each argument; 1 for other functions
_LONGEST: Final = 100  # digits before or after the point of an exact result that are worth showing
_SHOWING: Final = Context(prec=28, rounding=ROUND_HALF_UP)
_SUM, _PRODUCT, _SIGN, _ATOM = range(4)  # how tightly the text of an expression holds together
_OPERATORS: Final[dict[type[ast.operator], tuple[str, int, Callable[[Decimal, Decimal], Decimal]]]] = {
    ast.Add: (" + ", _SUM, add),
    ast.Sub: (" - ", _SUM, subtract),
    ast.Mult: (" * ", _PRODUCT, Decimal.__mul__),
    ast.Div: (" / ", _PRODUCT, Decimal.__truediv__),
    ast.Pow: ("^", _SIGN, Decimal.__pow__),
}


_COMPARISONS: Final[dict[type[ast.cmpop], tuple[str, Callable[[Decimal, Decimal], bool]]]] = {
    ast.Lt: ("<", lt),
    ast.LtE: ("<=", le),
    ast.Gt: (">", gt),
    ast.GtE: (">=", ge),
    ast.Eq: ("==", eq),
    ast.NotEq: ("!=", ne),
}


class Result(NamedTuple):
    name: str  # as it was given, or `#` and its number
    value: Value
    reading: str  # in plain arithmetic: percentages are divisions, and units are zeros
    is_ratio: bool


class _Part(NamedTuple):
    value: Value
    text: str
    strength: int = _ATOM
    is_ratio: bool = False

    @property
    def number(self) -> Decimal:
        if isinstance(self.value, Decimal):
            return self.value
        what = "a row of numbers" if isinstance(self.value, tuple) else "yes or no"
        raise CannotCalculate(f"{shorten(self.text, 100)} is {what}, where one number is needed")

    def at_least(self, strength: int) -> str:
        return self.text if self.strength >= strength else f"({self.text})"


def calculate(expression: str, now: datetime, known: Sequence[Fact] = ()) -> ToolOutput:
    """Return the text for the model, and the results as facts that name the known facts among their figures."""
    tokens, currency = read_tokens(expression)
    results = evaluate(tokens)
    subject = shorten(" ".join(expression.split()), _MOST_SHOWN)
    reading = shorten("; ".join(result.reading for result in results), _MOST_SHOWN)
    lines = [f"expression: {subject}", f"reading: {reading}"]
    if currency:
        lines.append(f"currency: {currency}, left out of the arithmetic")
    facts: list[Fact] = []
    inputs = _find_inputs(tokens, known)

    def add_fact(field: str, value: Decimal, unit: str = "") -> None:
        value = _visible_digits(value)
        facts.append(
            Fact(subject=subject, field=field, value=value, unit=unit, as_of=now, source=SOURCE, inputs=inputs)
        )

    for index, result in enumerate(results, start=1):
        name = "result" if index == len(results) else result.name
        text = _describe(result.value)
        if not isinstance(result.value, tuple):
            add_fact(name, Decimal(result.value))
        if isinstance(result.value, Decimal) and result.is_ratio:
            percent = CONTEXT.scaleb(result.value, Decimal(2))
            add_fact(f"{name}_percent", percent, "%")
            text = f"{text} (that is {_describe(percent)}%)"
        lines.append(f"{name}: {text}")
    lines.append(f"source: {SOURCE}")
    return ToolOutput("\n".join(lines), tuple(facts))


def _find_inputs(tokens: Sequence[Token], known: Sequence[Fact]) -> tuple[str, ...]:
    """Return the names of the newest facts that the figures of the expression are equal to."""
    figures = {token.value for token in tokens if token.kind == "number"} - _COMMON
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


def evaluate(tokens: Sequence[Token]) -> list[Result]:
    source = " ".join(_to_python(index, token) for index, token in enumerate(tokens))
    try:
        steps = ast.parse(source).body
    except SyntaxError as error:
        index = source[: (error.offset or 1) - 1].count(" ")
        near = " ".join(token.text for token in tokens[max(index - 1, 0) : index + 2])
        hint = "; % means percent, as in 15% of 120" if "%" in near else ""
        raise CannotCalculate(f"a number, operator or bracket is missing near {near[:100]!r}{hint}") from None
    if not 1 <= len(steps) <= _MOST_STEPS:
        raise CannotCalculate(f"there is nothing to calculate, or more than the at most {_MOST_STEPS} steps of a call")
    evaluation = _Evaluation(tokens)
    with localcontext(CONTEXT):
        for step in steps:
            evaluation.run(step)
    return evaluation.results


def _to_python(index: int, token: Token) -> str:
    """Return a name that leads back to the token, for all that has a value."""
    if token.kind == "call" or token.text == "(":
        return f"t{index}("
    if token.kind in ("number", "reference", "name"):
        return f"t{index}"
    return PYTHON.get(token.text, token.text)


class _Evaluation:
    def __init__(self, tokens: Sequence[Token]) -> None:
        self.results: list[Result] = []
        self._tokens = tokens
        self._work = 0

    def run(self, step: ast.stmt) -> None:
        name = ""
        match step:
            case ast.Expr(value=tree):
                pass
            case ast.Assign(targets=[ast.Name(id=target)], value=tree) if self._token(target).kind == "name":
                name = self._token(target).text
            case _:
                raise CannotCalculate("only a name can be given a value, as in a = 3; to compare, write ==")
        if name.lower() in (*FUNCTIONS, "none"):
            raise CannotCalculate(f"{name!r} has a meaning already; choose another name")
        try:
            part = self._evaluate(tree)
        except RecursionError:
            raise CannotCalculate("this is nested too deep; name a part first: a = ...; a * 2") from None
        reading = f"{name} = {part.text}" if name else part.text
        self.results.append(Result(name or f"#{len(self.results)}", part.value, reading, part.is_ratio))

    def _token(self, identifier: str) -> Token:
        return self._tokens[int(identifier[1:])]

    def _evaluate(self, node: ast.expr) -> _Part:
        match node:
            case ast.Name(id=operand):
                part = self._look_up(self._token(operand))
            case ast.List(elts=elements):
                numbers, text = self._numbers(elements)
                part = _Part(numbers, f"[{text}]")
            case ast.Call(func=ast.Name(id=function), args=arguments, keywords=[]):
                part = self._call(self._token(function).text, arguments)
            case ast.Attribute(value=inner):
                part = self._evaluate(inner)
                part = _Part(settle(part.number / 100), f"{part.at_least(_ATOM)}/100", _PRODUCT)
            case ast.UnaryOp(op=sign, operand=inner):
                part = self._evaluate(inner)
                negative = -part.number
                if isinstance(sign, ast.USub):
                    part = _Part(negative, f"-{part.at_least(_ATOM)}", _SIGN)
            case ast.BinOp():
                part = self._combine(node)
            case ast.Compare(left=left, ops=[operator], comparators=[right]):
                one = self._evaluate(left)
                two = self._evaluate(right)
                sign, compare = _COMPARISONS[type(operator)]
                is_true = compare(subtract(one.number, two.number), ZERO)
                part = _Part(is_true, f"{one.text} {sign} {two.text}")
            case _:
                raise CannotCalculate("compare two numbers at a time; separate arguments by commas, and steps by ;")
        return part

    def _combine(self, node: ast.BinOp) -> _Part:
        """Calculate a chain such as a + b * c - d from its left end, without a recursion for each operator.

        `a + 15%` takes the percentage of a, unless everything before it is percentages too.
        """
        chain: list[ast.BinOp] = []
        first: ast.expr = node
        while isinstance(first, ast.BinOp):
            chain.append(first)
            first = first.left
        result = self._evaluate(first)
        are_percents = _is_percent(first)
        for link in reversed(chain):
            sign, strength, function = _OPERATORS[type(link.op)]
            right = self._evaluate(link.right)
            number = right.number
            adds_percent = strength == _SUM and _is_percent(link.right)
            if adds_percent and not are_percents:
                number = _run(result.text, Decimal.__mul__, result.number, number)
                text = f"{result.at_least(_PRODUCT)} * (1{sign}{right.at_least(_PRODUCT)})"
                strength = _PRODUCT
            else:
                left = result.at_least(_ATOM if strength == _SIGN else strength)
                text = f"{left}{sign}{right.at_least(strength + 1)}"
            result = _Part(_run(text, function, result.number, number), text, strength)
            are_percents = are_percents and adds_percent
        return result

    def _call(self, written: str, arguments: Sequence[ast.expr]) -> _Part:
        if written == "(" and len(arguments) == 1:
            return self._evaluate(arguments[0])
        name = written.lower()
        if name not in FUNCTIONS:
            near = ", ".join(get_close_matches(name[:40], FUNCTIONS, n=3)) or None
            meant = near or ", ".join(FUNCTIONS)
            raise CannotCalculate(f"there is no function {name[:40]!r}; there is {meant}", suggestion=near)
        function, fewest, most = FUNCTIONS[name]
        numbers, inner = self._numbers(arguments)
        if not fewest <= len(numbers) <= most:
            takes = " to ".join(map(str, sorted({fewest, most})))
            raise CannotCalculate(f"{name} takes {takes} numbers, and was given {len(numbers)}")
        self._work += len(numbers) * _WORK.get(name, 1)
        if self._work > _MOST_WORK:
            raise CannotCalculate("this is too much work for one call; calculate in several")
        text = f"{name}({inner})"
        return _Part(_run(text, function, *numbers), text, is_ratio=name in RATIOS)

    def _numbers(self, nodes: Sequence[ast.expr]) -> tuple[tuple[Decimal, ...], str]:
        parts = [self._evaluate(node) for node in nodes]
        numbers: list[Decimal] = []
        for part in parts:
            numbers += part.value if isinstance(part.value, tuple) else (part.number,)
            if len(numbers) > MANY:
                raise CannotCalculate(f"at most {MANY} numbers in a row; calculate in several calls")
        return tuple(numbers), ", ".join(part.text for part in parts)

    def _look_up(self, token: Token) -> _Part:
        if token.kind == "number":
            number = _run(token.text, lambda: Decimal(token.value.numerator) / token.value.denominator)
            is_plain = number == token.value and number >= 0
            return _Part(number, f"{number:f}" if is_plain else f"({token.value})")
        if token.kind == "reference":
            if int(token.text) >= len(self.results):
                raise CannotCalculate(f"there is no step #{token.text} before this one")
            return _Part(self.results[int(token.text)].value, f"#{token.text}")
        if token.text.lower() == "none":  # as in table_sum(row, none)
            return _Part((), token.text)
        for result in reversed(self.results):
            if result.name == token.text:
                return _Part(result.value, token.text)
        known = ", ".join(dict.fromkeys(each.name for each in self.results if each.name[0] != "#")) or "none yet"
        raise CannotCalculate(f"{token.text[:40]!r} has no value; named so far: {known[:200]}")


def _is_percent(node: ast.expr) -> bool:
    """Whether this is 15% or -15%, but not (15%)."""
    while isinstance(node, ast.UnaryOp):
        node = node.operand
    return isinstance(node, ast.Attribute)


def _run(text: str, function: Callable[..., Decimal | bool], *operands: Decimal) -> Any:
    problem = "this has no value: a division by zero, or a power, root or logarithm that does not exist"
    try:
        value = function(*operands)
        if isinstance(value, bool):
            return value
        if value.is_finite():
            return settle(value)
    except ValueError as error:
        problem = str(error)
    except (Overflow, Subnormal):
        problem = "the result is too large or too small"
    except (DivisionByZero, InvalidOperation):
        pass
    raise CannotCalculate(f"{shorten(text, 100)}: {problem}")
