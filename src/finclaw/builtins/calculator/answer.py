"""The calculator's answer to an expression: what was understood, and what came out."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Final

from msgspec.structs import replace

from finclaw.builtins.calculator.evaluate import Result, Value, evaluate
from finclaw.builtins.calculator.expression import Statement, figures_in
from finclaw.builtins.calculator.number import Number, format_number
from finclaw.builtins.calculator.parser import parse
from finclaw.builtins.calculator.reading import reading
from finclaw.builtins.calculator.word import read_words
from finclaw.kernel.fact import Fact
from finclaw.kernel.port import ToolOutput

SOURCE: Final = "calculator"
_SHOWN: Final = 1_000
"""Characters of an expression that are told back."""
_HUNDRED: Final = Number(100)
_BY_CHANCE: Final = frozenset({*range(13), 100, 365, 1_000, 10_000, 1_000_000})
_MOST_INPUTS: Final = 20


def calculate(expression: str, now: datetime, known: Sequence[Fact] = ()) -> ToolOutput:
    """What the model reads, and the results as facts. The figures that went in are no facts: anybody may give any.

    Where one is the value of a fact that is known, the results name it.
    """
    words = read_words(expression)
    statements = parse(words)
    results = evaluate(statements)
    lines = [
        f"expression: {_cut(' '.join(expression.split()))}",
        f"reading: {_cut(reading(statements))}",
        *([f"currency: {words.currency}, left out of the arithmetic"] if words.currency else []),
        *(f"{result.name}: {_describe_result(result)}" for result in results[:-1]),
        f"result: {_describe_result(results[-1])}",
        f"source: {SOURCE}",
    ]
    inputs = _find_inputs(statements, known)
    return ToolOutput(
        "\n".join(lines), tuple(replace(fact, inputs=inputs) for fact in _facts(expression, results, now))
    )


def _describe_result(result: Result) -> str:
    told = _format_value(result.value)
    if result.ratio and isinstance(result.value, Number):
        return f"{told} (that is {format_number(result.value * _HUNDRED)}%)"
    return told


def _format_value(value: Value) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return format_number(value) if isinstance(value, Number) else _cut(f"[{', '.join(map(format_number, value))}]")


def _find_inputs(statements: Sequence[Statement], known: Sequence[Fact]) -> tuple[str, ...]:
    """The newest fact of each figure. Small and round ones are left out: they are equal to too much by chance."""
    figures = {each for statement in statements for each in figures_in(statement.expression) if each not in _BY_CHANCE}
    found: dict[Fraction, str] = {}
    for fact in known:
        if (value := Fraction(fact.value)) in figures:
            found.setdefault(value, fact.name)
    return tuple(found.values())[:_MOST_INPUTS]


def _facts(expression: str, results: Sequence[Result], now: datetime) -> Iterator[Fact]:
    subject = _cut(" ".join(expression.split()))

    def fact(field: str, value: Decimal, unit: str = "") -> Fact:
        return Fact(subject=subject, field=field, value=value, unit=unit, as_of=now, source=SOURCE)

    for place, result in enumerate(results):
        field = result.name if place < len(results) - 1 else "result"
        if isinstance(result.value, bool):
            yield fact(field, Decimal(result.value))
        elif isinstance(result.value, Number):
            yield fact(field, result.value.to_decimal()[0])
            if result.ratio:
                yield fact(f"{field}_percent", (result.value * _HUNDRED).to_decimal()[0], "%")


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
