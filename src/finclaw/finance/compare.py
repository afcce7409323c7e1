"""The tool that sets instruments side by side. What is compared is the change in percent: prices say nothing."""

from typing import Annotated

from msgspec import Meta, Struct

from finclaw.errors import ToolError
from finclaw.finance.market import Market
from finclaw.finance.output import identity, minute, record
from finclaw.finance.period import Move, Period, move, move_facts
from finclaw.finance.quote import ListedName
from finclaw.finance.resolve import SeveralNames, resolve
from finclaw.kernel.port import Tool, ToolOutput, ToolScope
from finclaw.tools.define import tool

MOST = 6

_DESCRIPTION = (
    "Compares two to six instruments over a period, best first: start, end and change of each in its own currency. "
    "Not adjusted for exchange rates; say so where currencies differ."
)


class OnlyOne(ToolError):
    """A comparison of a single instrument."""


class CompareArguments(Struct, frozen=True, forbid_unknown_fields=True):
    symbols: Annotated[tuple[ListedName, ...], Meta(min_length=1, max_length=MOST)]
    period: Period = "month"


def compare_tool(market: Market) -> Tool:
    @tool("market__compare", _DESCRIPTION, group="finance")
    async def compare(args: CompareArguments, scope: ToolScope) -> ToolOutput:
        instruments = [resolve(market, name) for each in args.symbols for name in _names(market, each)]
        chosen = tuple(dict.fromkeys(instruments))
        if len(chosen) < 2:
            raise OnlyOne("There is only one instrument to compare. Ask the user for another.")
        moves = [await move(market, each, args.period) for each in chosen[:MOST]]
        moves.sort(key=lambda each: -each.change_percent)
        return ToolOutput(
            "\n\n".join(map(_describe_move, moves)), tuple(fact for each in moves for fact in move_facts(each))
        )

    return compare


def _names(market: Market, query: str) -> tuple[str, ...]:
    """Here several names in one place do no harm: all of them are wanted."""
    try:
        resolve(market, query)
    except SeveralNames as several:
        return tuple((several.suggestion or "").splitlines()[1:])
    except ToolError:
        pass
    return (query,)


def _describe_move(moved: Move) -> str:
    return record(
        {
            **identity(moved.instrument),
            "period": moved.period,
            "start": f"{moved.start} ({minute(moved.starts)})",
            "end": f"{moved.end} ({minute(moved.ends)})",
            "change": f"{moved.change:+}",
            "change_percent": f"{moved.change_percent:+}",
            "source": moved.source,
        }
    )
