"""Evaluation of expressions: Python parses them, and only the nodes listed here have a value."""

import ast
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from decimal import ROUND_HALF_UP, Context, Decimal, Overflow, Subnormal, localcontext
from difflib import get_close_matches
from fractions import Fraction
from typing import Any, Final, NamedTuple

from finclaw.builtins.calculator.functions import CONTEXT, EXACT, FUNCTIONS, MANY, OPERATORS, RATIOS, is_short, settle
from finclaw.builtins.calculator.steps import CannotCalculate, Token, read_tokens, to_python
from finclaw.kernel.fact import Fact
from finclaw.kernel.port import ToolOutput
from finclaw.text import shorten

Value = Decimal | tuple[Decimal, ...] | bool

SOURCE: Final = "calculator"
_MOST_SHOWN: Final = 1_000  # characters of an expression that are repeated in the answer
_COMMON: Final = frozenset({*range(13), 100, 365, 1_000, 10_000, 1_000_000})  # equal to too many facts by chance
_MOST_INPUTS: Final = 20
_MOST_STEPS: Final = 200
_DEEPEST: Final = 250  # levels of the tree: each takes three frames of Python's stack, which has a thousand
_MOST_WORK: Final = 20_000  # arguments of functions in one expression
_WORK: Final = {"irr": 18}  # for each argument; 1 for other functions
_LONGEST: Final = 100  # digits before or after the point of an exact result that are worth showing
_SHOWING: Final = Context(prec=28, rounding=ROUND_HALF_UP)


class Result(NamedTuple):
    name: str  # as it was given, or `#` and its number
    value: Value
    reading: str  # in plain arithmetic: percentages are divisions, and units are zeros
    is_ratio: bool


def calculate(expression: str, now: datetime, known: Sequence[Fact] = ()) -> ToolOutput:
    """Return the text for the model, and the results as facts that name the known facts among their figures."""
    tokens, currency = read_tokens(expression)
    results = evaluate(tokens)
    subject = shorten(" ".join(expression.split()), _MOST_SHOWN)
    reading = shorten("; ".join(result.reading for result in results), _MOST_SHOWN)
    lines = [f"expression: {subject}", f"reading: {reading}"]
    if currency:
        lines.append(f"currency: {currency}, left out of the arithmetic")
    figures: list[tuple[str, Decimal, str]] = []
    for index, result in enumerate(results, start=1):
        name = "result" if index == len(results) else result.name
        text = _describe(result.value)
        if not isinstance(result.value, tuple):
            figures.append((name, _visible_digits(Decimal(result.value)), ""))
        if isinstance(result.value, Decimal) and result.is_ratio:
            percent = EXACT.scaleb(result.value, 2)
            figures.append((f"{name}_percent", _visible_digits(percent), "%"))
            text = f"{text} (that is {_describe(percent)}%)"
        lines.append(f"{name}: {text}")
    lines.append(f"source: {SOURCE}")
    inputs = _find_inputs(tokens, known)
    facts = [
        Fact(subject=subject, field=field, value=value, unit=unit, as_of=now, source=SOURCE, inputs=inputs)
        for field, value, unit in figures
    ]
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
    source = " ".join(to_python(index, token) for index, token in enumerate(tokens))
    evaluation = _Evaluation(tokens)
    try:
        steps = ast.parse(source).body
        if not 1 <= len(steps) <= _MOST_STEPS:
            raise CannotCalculate(f"there is nothing to calculate, or more than {_MOST_STEPS} steps")
        level: list[ast.AST] = [*steps]
        for _ in range(_DEEPEST):
            level = [child for node in level for child in ast.iter_child_nodes(node)]
        if level:
            raise RecursionError
        with localcontext(CONTEXT):
            return [evaluation.run(index, step) for index, step in enumerate(steps)]
    except SyntaxError as error:
        index = source[: (error.offset or 1) - 1].count(" ")
        near = " ".join(token.text for token in tokens[max(index - 1, 0) : index + 2])
        hint = "; % means percent, as in 15% of 120" if "%" in near else ""
        raise CannotCalculate(f"a number, operator or bracket is missing near {near[:100]!r}{hint}") from None
    except RecursionError:
        why = "this is nested too deep, or has more than 200 operators in a row"
        raise CannotCalculate(f"{why}; use sum(1, 2, ...), or name a part: a = ...; a * 2") from None
    except ArithmeticError:
        raise CannotCalculate("a number is too large or too small") from None


class _PlainArithmetic(ast.NodeTransformer):
    """Percentages become divisions. `a + 15%` takes the percentage of a, unless a consists of percentages."""

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        return ast.BinOp(self.visit(node.value), ast.Div(), ast.Constant(100))

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        takes_share = _adds_percent(node) and not _has_only_percents(node.left)
        left = self.visit(node.left)
        right = self.visit(node.right)
        if takes_share:
            return ast.BinOp(left, ast.Mult(), ast.BinOp(ast.Constant(1), node.op, right))
        return ast.BinOp(left, node.op, right)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        is_group = isinstance(node.func, ast.Name) and node.func.id == "group"
        if is_group and len(node.args) == 1 and not node.keywords:
            return self.visit(node.args[0])
        return self.generic_visit(node)


def _adds_percent(node: ast.BinOp) -> bool:
    return isinstance(node.op, ast.Add | ast.Sub) and _is_percent(node.right)


def _has_only_percents(node: ast.expr) -> bool:
    while isinstance(node, ast.BinOp) and _adds_percent(node):
        node = node.left
    return _is_percent(node)


def _is_percent(node: ast.expr) -> bool:
    """Whether this is 15% or -15%, but not (15%)."""
    while isinstance(node, ast.UnaryOp):
        node = node.operand
    return isinstance(node, ast.Attribute)


class _Evaluation:
    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self._values: dict[str, Value] = {}
        self._work = 0

    def run(self, index: int, step: ast.stmt) -> Result:
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
        tree = _PlainArithmetic().visit(tree)
        value = self._evaluate(tree)
        text = self._write(tree)
        is_ratio = isinstance(tree, ast.Call) and text.partition("(")[0] in RATIOS
        self._values[f"#{index}"] = value
        if name:
            self._values[name] = value
            text = f"{name} = {text}"
        return Result(name or f"#{index}", value, text, is_ratio)

    def _token(self, identifier: str) -> Token:
        return self._tokens[int(identifier[1:])]

    def _write(self, node: ast.expr) -> str:
        text = ast.unparse(node).replace(" / 100", "/100").replace(" ** ", "^")
        return re.sub(r"t[0-9]+", lambda found: self._write_token(self._token(found[0])), text)

    def _write_token(self, token: Token) -> str:
        if token.kind != "number":
            return token.text.lower() if token.kind == "call" else token.text
        number = Decimal(token.value.numerator) / token.value.denominator
        is_plain = number == token.value and number >= 0
        return f"{number:f}" if is_plain else f"({token.value})"

    def _evaluate(self, node: ast.expr) -> Value:
        match node:
            case ast.Constant(value=int(number)):
                return Decimal(number)
            case ast.Name(id=operand):
                return self._look_up(node, self._token(operand))
            case ast.List(elts=elements):
                return tuple(self._numbers(elements))
            case ast.Call(func=ast.Name(id=function), args=arguments, keywords=[]) if function != "group":
                name = self._token(function).text.lower()
                if name.startswith("table_"):  # as in table_sum(row, none)
                    arguments = [each for each in arguments if self._write(each).lower() != "none"]
                return self._call(node, name, self._numbers(arguments))
            case ast.UnaryOp(op=sign, operand=operand):
                number = self._number(operand)
                return -number if isinstance(sign, ast.USub) else number
            case (
                ast.BinOp(left=left, op=operator, right=right)
                | ast.Compare(left=left, ops=[operator], comparators=[right])
            ):
                return self._apply(node, OPERATORS[type(operator)], self._number(left), self._number(right))
            case _:
                raise CannotCalculate("compare two numbers at a time; separate arguments by commas, and steps by ;")

    def _number(self, node: ast.expr) -> Decimal:
        return self._require_number(node, self._evaluate(node))

    def _require_number(self, node: ast.expr, value: Value) -> Decimal:
        if isinstance(value, Decimal):
            return value
        what = "a row of numbers" if isinstance(value, tuple) else "yes or no"
        raise CannotCalculate(f"{shorten(self._write(node), 100)} is {what}, where one number is needed")

    def _numbers(self, nodes: Sequence[ast.expr]) -> list[Decimal]:
        numbers: list[Decimal] = []
        for node in nodes:
            value = self._evaluate(node)
            numbers += value if isinstance(value, tuple) else [self._require_number(node, value)]
            if len(numbers) > MANY:
                raise CannotCalculate(f"at most {MANY} numbers in a row; calculate in several calls")
        return numbers

    def _look_up(self, node: ast.expr, token: Token) -> Value:
        if token.kind == "number":
            if not is_short(Decimal(token.value.numerator).normalize(EXACT)):
                raise CannotCalculate(f"{token.text[:40]}…: the number has too many digits")
            return self._apply(node, lambda: Decimal(token.value.numerator) / token.value.denominator)
        if token.text.lower() == "none":
            raise CannotCalculate("none stands only among the arguments of table_sum and the other table_ functions")
        if token.text not in self._values:
            known = shorten(", ".join(self._values), 200) or "nothing"
            raise CannotCalculate(f"{token.text[:40]!r} has no value; known so far: {known}")
        return self._values[token.text]

    def _call(self, node: ast.expr, name: str, numbers: Sequence[Decimal]) -> Value:
        if name not in FUNCTIONS:
            near = ", ".join(get_close_matches(name[:40], FUNCTIONS, n=3)) or None
            meant = near or ", ".join(FUNCTIONS)
            raise CannotCalculate(f"there is no function {name[:40]!r}; there is {meant}", suggestion=near)
        function, fewest, most = FUNCTIONS[name]
        if not fewest <= len(numbers) <= most:
            takes = " to ".join(map(str, sorted({fewest, most})))
            raise CannotCalculate(f"{name} takes {takes} numbers, and was given {len(numbers)}")
        self._work += len(numbers) * _WORK.get(name, 1)
        if self._work > _MOST_WORK:
            raise CannotCalculate("this is too much work for one call; calculate in several")
        return self._apply(node, function, *numbers)

    def _apply(self, node: ast.expr, function: Callable[..., Decimal | bool], *operands: Decimal) -> Any:
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
        except ArithmeticError:
            pass
        raise CannotCalculate(f"{shorten(self._write(node), 100)}: {problem}")
