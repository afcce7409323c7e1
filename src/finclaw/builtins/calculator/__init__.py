"""The calculator extension: one tool for exact arithmetic, which also reports how it read the expression."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Final

from msgspec import Meta, Struct

from finclaw.kernel.extension import ExtensionApi
from finclaw.kernel.fact import Fact
from finclaw.kernel.port import Clock, Tool, ToolOutput, ToolScope
from finclaw.tools.define import tool

NAME: Final = "calc__evaluate"

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
        known = await scope.facts() if scope.facts else ()
        # The longest expressions take a good part of a second.
        return await asyncio.to_thread(_calculate, args.expression, clock.now(), known)

    return calculate


def _calculate(expression: str, now: datetime, known: Sequence[Fact]) -> ToolOutput:
    from finclaw.builtins.calculator.evaluate import calculate  # noqa: PLC0415  15 ms, and most turns have no figures

    return calculate(expression, now, known)
