"""The calculator's answer to an expression: what was understood, and what came out."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Final

from finclaw.builtins.calculator.evaluate import Result, Value, evaluate
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


def calculate(expression: str, now: datetime) -> ToolOutput:
    """What the model reads, and the results as facts. The figures that went in are no facts: anybody may give any."""
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
    return ToolOutput("\n".join(lines), tuple(_facts(expression, results, now)))


def _describe_result(result: Result) -> str:
    told = _format_value(result.value)
    if result.ratio and isinstance(result.value, Number):
        return f"{told} (that is {format_number(result.value * _HUNDRED)}%)"
    return told


def _format_value(value: Value) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return format_number(value) if isinstance(value, Number) else _cut(f"[{', '.join(map(format_number, value))}]")


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
