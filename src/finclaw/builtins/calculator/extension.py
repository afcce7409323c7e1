"""The calculator as the house sees it: one tool, which tells what it understood and what came out."""

import asyncio
from collections.abc import Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Final

from msgspec import Meta, Struct

from finclaw.builtins.calculator.evaluate import Result, Value, evaluate
from finclaw.builtins.calculator.number import Number, written
from finclaw.builtins.calculator.parser import parse
from finclaw.builtins.calculator.reading import reading
from finclaw.builtins.calculator.word import read_words
from finclaw.kernel.extension import ExtensionApi
from finclaw.kernel.fact import Fact
from finclaw.kernel.port import Clock, Tool, ToolOutput, ToolScope
from finclaw.tools.define import tool

NAME: Final = "calc__evaluate"
SOURCE: Final = "calculator"
_SHOWN: Final = 1_000
"""Characters of an expression that are told back."""
_HUNDRED: Final = Number(100)

_DESCRIPTION: Final = """\
Exact arithmetic. Use it for every sum, ratio, percentage or return; never calculate by yourself. \
Numbers: 1,234.5, 15%, 4.2bn, 3억 5,000만, $10 (one currency at a time; among function arguments write no thousands \
separators). Operators: + - * / ^ ( ) < <= > >= == !=, and "15% of 120". 120 + 15% is 138, as on a pocket calculator. \
Steps: "a = 1,234.5; b = a*3; b/a", or add(1, 2), divide(#0, 3). \
Functions: abs round(x, places) floor ceil sqrt ln log10 exp power min max sum average median count stdev stdevp, \
growth(old, new) cagr(begin, end, years) pct(part, whole) as parts of one, change(old, new) as a difference, \
compound(principal, rate, years, times_a_year), npv(rate, flow1, ...) irr(flow0, ...), \
pv(rate, n, pmt, fv) fv(rate, n, pmt, pv) pmt(rate, n, pv, fv) with the signs of spreadsheets, \
table_sum table_average table_max table_min of [1, 2, 3]. round goes half up. ≈ stands before what is rounded."""


class Calculation(Struct, frozen=True, forbid_unknown_fields=True):
    expression: Annotated[
        str, Meta(min_length=1, description="What to calculate, with the figures as they were given.")
    ]


class Calculator:
    name = "calculator"

    def register(self, api: ExtensionApi) -> None:
        api.tools.register(calculator_tool(api.clock))


def calculator_tool(clock: Clock) -> Tool:
    @tool(NAME, _DESCRIPTION, group="finance")
    async def calculate(args: Calculation, scope: ToolScope) -> ToolOutput:
        # In a thread, because the longest expressions take a good part of a second.
        return await asyncio.to_thread(calculated, args.expression, clock.now())

    return calculate


def calculated(expression: str, now: datetime) -> ToolOutput:
    """What the model reads, and the results as facts. The figures that went in are no facts: anybody may give any."""
    words = read_words(expression)
    statements = parse(words)
    results = evaluate(statements)
    lines = [
        f"expression: {_cut(' '.join(expression.split()))}",
        f"reading: {_cut(reading(statements))}",
        *([f"currency: {words.currency}, left out of the arithmetic"] if words.currency else []),
        *(f"{result.name}: {_told(result)}" for result in results[:-1]),
        f"result: {_told(results[-1])}",
        f"source: {SOURCE}",
    ]
    return ToolOutput("\n".join(lines), tuple(_facts(expression, results, now)))


def _told(result: Result) -> str:
    told = _written(result.value)
    if result.ratio and isinstance(result.value, Number):
        return f"{told} (that is {written(result.value * _HUNDRED)}%)"
    return told


def _written(value: Value) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return written(value) if isinstance(value, Number) else _cut(f"[{', '.join(map(written, value))}]")


def _facts(expression: str, results: Sequence[Result], now: datetime) -> Iterator[Fact]:
    subject = _cut(" ".join(expression.split()))

    def fact(field: str, value: Decimal, unit: str = "") -> Fact:
        return Fact(subject=subject, field=field, value=value, unit=unit, as_of=now, source=SOURCE)

    for place, result in enumerate(results):
        field = result.name if place < len(results) - 1 else "result"
        if isinstance(result.value, bool):
            yield fact(field, Decimal(result.value))
        elif isinstance(result.value, Number):
            yield fact(field, result.value.shown()[0])
            if result.ratio:
                yield fact(f"{field}_percent", (result.value * _HUNDRED).shown()[0], "%")


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
