"""The tools of the watchlist: shown with its quotes, added to, removed from."""

from collections.abc import Callable
from typing import Annotated

from msgspec import Meta, Struct

from finclaw.errors import ToolDenied, ToolError
from finclaw.finance.market import Market
from finclaw.finance.market_data.port import MarketData
from finclaw.finance.output import record
from finclaw.finance.quote import ListedName, describe, load_quotes, name_missing
from finclaw.finance.resolve import resolve
from finclaw.finance.watchlist.store import MOST_WATCHED, Watchlists
from finclaw.kernel.person import Person
from finclaw.kernel.port import Tool, ToolOutput, ToolScope
from finclaw.tools.define import tool

_LIST = "The person's watchlist with the current price of each instrument on it."
_ADD = "Puts instruments on the person's watchlist, when they ask for it. Repeat back what was added."
_REMOVE = "Takes instruments off the person's watchlist, or all of them, when they ask for it."

FewNames = Annotated[
    tuple[ListedName, ...], Meta(min_length=1, max_length=20, description="Symbols or names as the user wrote them.")
]


class WatchListArguments(Struct, frozen=True, forbid_unknown_fields=True):
    pass


class WatchArguments(Struct, frozen=True, forbid_unknown_fields=True):
    symbols: FewNames


class UnwatchArguments(Struct, frozen=True, forbid_unknown_fields=True):
    symbols: FewNames | None = None
    all: bool = False


class WatchDesk(Struct, frozen=True, kw_only=True):
    """What the tools and the command of the watchlist need."""

    market: Market
    data: Callable[[], MarketData]
    """Opened with the first use."""
    lists: Watchlists
    person: Callable[[str], Person]


def watch_tools(desk: WatchDesk) -> tuple[Tool, ...]:
    @tool("watch__list", _LIST, group="finance")
    async def show(args: WatchListArguments, scope: ToolScope) -> ToolOutput:
        symbols = await desk.lists.symbols(person_of(desk, scope))
        if not symbols:
            return ToolOutput("watchlist: empty")
        watched = await load_quotes(desk.market, desk.data(), symbols)
        head = record({"watchlist": watched.count, "could_not_read": "; ".join(name_missing(watched)) or None})
        return ToolOutput("\n\n".join([head, *map(describe, watched.quotes)]), watched.facts())

    @tool("watch__add", _ADD, group="finance", changes=True, parallel_safe=False)
    async def add(args: WatchArguments, scope: ToolScope) -> ToolOutput:
        person = person_of(desk, scope)
        instruments = [resolve(desk.market, each) for each in args.symbols]
        new = await desk.lists.add(person, [each.symbol for each in instruments])
        lines = [
            f"{'added' if each.symbol in new else 'already there'}: {each.title} [{each.symbol}]"
            for each in dict.fromkeys(instruments)
        ]
        count = len(await desk.lists.symbols(person))
        return ToolOutput("\n".join([*lines, f"on the watchlist: {count} of at most {MOST_WATCHED}"]))

    @tool("watch__remove", _REMOVE, group="finance", changes=True, parallel_safe=False)
    async def remove(args: UnwatchArguments, scope: ToolScope) -> ToolOutput:
        person = person_of(desk, scope)
        if args.all == (args.symbols is not None):
            raise ToolError("Say which instruments to take off, or all of them. Ask the user.")
        wanted = None if args.symbols is None else [resolve(desk.market, each).symbol for each in args.symbols]
        gone = await desk.lists.remove(person, wanted)
        absent = [each for each in wanted or () if each not in gone]
        lines = [f"removed: {', '.join(gone) or 'none'}", *(f"was not there: {each}" for each in absent)]
        return ToolOutput("\n".join([*lines, f"on the watchlist: {len(await desk.lists.symbols(person))}"]))

    return (show, add, remove)


def person_of(desk: WatchDesk, scope: ToolScope) -> Person:
    if not scope.person:
        raise ToolDenied("a watchlist belongs to a person, and no person speaks here; go on without it")
    return desk.person(scope.person)
