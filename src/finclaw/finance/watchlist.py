"""Watchlists: `/watch`, whose answers are imported with the first one (`cold_cpu`), the tools, and the screener."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Final

from msgspec import Meta, Struct

from finclaw.errors import ToolDenied, ToolError
from finclaw.finance.commands import FinanceCommand
from finclaw.finance.market import Market, Quote, percent
from finclaw.finance.market_data.port import MarketData
from finclaw.finance.output import minute, plain_fact, price_fact, record
from finclaw.finance.quote import ListedName, describe, facts_of, load_quotes, name_missing
from finclaw.finance.resolve import Settle, resolve
from finclaw.kernel.extension import Database, ExtensionApi, Transaction
from finclaw.kernel.person import Person
from finclaw.kernel.port import Clock, CommandArgument, CommandReply, CommandScope, Tool, ToolOutput, ToolScope
from finclaw.kernel.record import Erasure
from finclaw.tools.define import tool

if TYPE_CHECKING:
    from finclaw.finance.answers import WatchAnswers


class Watching:
    name = "watching"

    def __init__(
        self,
        market: Callable[[], Market],
        data: Callable[[], MarketData],
        person: Callable[[str], Person],
        settle: Settle,
        prefix: str = "/",
        exists: Callable[[], bool] = lambda: True,
    ) -> None:
        """`data` is opened with the first use, `person` found by id; `exists`: whether anybody watched anything yet."""
        self._market = market
        self._data = data
        self._person = person
        self._settle = settle
        self._prefix = prefix
        self._exists = exists
        self._made: WatchAnswers | None = None

    def register(self, api: ExtensionApi) -> None:
        self._lists = Watchlists(api.database(MIGRATIONS), api.clock, self._exists)
        self._desk = WatchDesk(market=self._market(), data=self._data, lists=self._lists, person=self._person)
        for each in (*watch_tools(self._desk), screen_tool(self._desk)):
            api.tools.register(each)
        prefix = self._prefix
        api.commands.register(
            FinanceCommand(
                name="watch",
                names={"ko": "관심"},
                aliases=("관심종목",),
                description="Your watchlist: shown, added to, removed from / 관심 종목 보기, 추가, 삭제",
                usage=f"{prefix}watch [add|remove AAPL] ({prefix}관심 추가 삼성전자)",
                arguments=(
                    CommandArgument("VERB", "add, remove or list / 추가, 삭제, 목록", required=False),
                    CommandArgument(
                        "SYMBOL",
                        "symbols or names: AAPL, Apple, BTC / 종목 코드나 이름: 삼성전자, AAPL, BTC",
                        required=False,
                    ),
                ),
                answer=self._answer,
            )
        )
        api.on_forget(self.forget_person)

    def peek_symbols(self, person: Person) -> tuple[str, ...] | None:
        return self._lists.peek_symbols(person)

    async def symbols(self, person: Person) -> tuple[str, ...]:
        return await self._lists.symbols(person)

    async def forget_person(self, erasure: Erasure) -> None:
        if erasure.person is not None:
            for name in erasure.names:
                await self._lists.forget(name)

    async def _answer(self, args: Sequence[str], scope: CommandScope) -> CommandReply:
        from finclaw.finance.answers import WatchAnswers  # noqa: PLC0415  `cold_cpu`: words of answers

        self._made = self._made or WatchAnswers(self._desk, self._settle, self._prefix)
        return await self._made.answer(args, scope)


MIGRATIONS: Final = (
    """
    CREATE TABLE watched (
        person TEXT NOT NULL,
        symbol TEXT NOT NULL,
        place INTEGER NOT NULL,
        added_at TEXT NOT NULL,
        PRIMARY KEY (person, symbol)
    )
    """,
)
MOST_WATCHED: Final = 50
"""Of one person: as many as are quoted at once without using up a source's budget for others."""

_MOST_KNOWN: Final = 10_000  # persons whose lists are kept in memory


class TooManyWatched(ToolError):
    pass


class Watchlists:
    def __init__(self, database: Database, clock: Clock, exists: Callable[[], bool] = lambda: True) -> None:
        """`exists` is called once, before the database is opened: whether anybody has ever watched anything."""
        self._database = database
        self._clock = clock
        self._exists = exists
        self._is_empty: bool | None = None
        self._known: dict[str, tuple[str, ...]] = {}

    def peek_symbols(self, person: Person) -> tuple[str, ...] | None:
        if self._is_empty is None:
            self._is_empty = not self._exists()
        if self._is_empty:
            return ()
        return self._known.get(person.id)

    async def symbols(self, person: Person) -> tuple[str, ...]:
        if person.id in self._known:
            return self._known[person.id]

        def read(rows: Transaction) -> tuple[str, ...]:
            _adopt(rows, person)
            return _list(rows, person.id)

        found = await self._database.transaction(read)
        while len(self._known) >= _MOST_KNOWN:
            del self._known[next(iter(self._known))]
        self._known[person.id] = found
        return found

    async def add(self, person: Person, symbols: Sequence[str]) -> tuple[str, ...]:
        """Those that were not there yet. Raises TooManyWatched, and then adds none."""
        at = self._clock.now().isoformat()

        def write(rows: Transaction) -> tuple[str, ...]:
            _adopt(rows, person)
            known = _list(rows, person.id)
            new = tuple(each for each in dict.fromkeys(symbols) if each not in known)
            if len(known) + len(new) > MOST_WATCHED:
                raise TooManyWatched(
                    f"A watchlist holds {MOST_WATCHED} instruments, and {len(known)} are on this one. Ask the user "
                    "which to remove."
                )
            ((last,),) = rows.execute("SELECT coalesce(max(place), 0) FROM watched WHERE person = ?", (person.id,))
            for place, symbol in enumerate(new, start=int(last) + 1):
                rows.execute(
                    "INSERT INTO watched (person, symbol, place, added_at) VALUES (?, ?, ?, ?)",
                    (person.id, symbol, place, at),
                )
            return new

        return await self._change(person.id, write)

    async def remove(self, person: Person, symbols: Sequence[str] | None) -> tuple[str, ...]:
        """Those that were there; None removes all."""

        def write(rows: Transaction) -> tuple[str, ...]:
            _adopt(rows, person)
            known = _list(rows, person.id)
            gone = tuple(each for each in known if symbols is None or each in symbols)
            for each in gone:
                rows.execute("DELETE FROM watched WHERE person = ? AND symbol = ?", (person.id, each))
            return gone

        return await self._change(person.id, write)

    async def forget(self, name: str) -> None:
        await self._database.execute("DELETE FROM watched WHERE person = ?", name)
        self._known.pop(name, None)

    async def _change(self, name: str, write: Callable[[Transaction], tuple[str, ...]]) -> tuple[str, ...]:
        self._is_empty = False
        try:
            return await self._database.transaction(write)
        finally:
            self._known.pop(name, None)


def _list(rows: Transaction, person: str) -> tuple[str, ...]:
    found = rows.execute("SELECT symbol FROM watched WHERE person = ? ORDER BY place", (person,))
    return tuple(str(symbol) for (symbol,) in found)


def _adopt(rows: Transaction, person: Person) -> None:
    """Take over the lists of identities that were persons of their own before they became theirs."""
    for name in person.former:
        rows.execute(
            "INSERT INTO watched (person, symbol, place, added_at) SELECT ?, symbol, place, added_at FROM watched "
            "WHERE person = ? ON CONFLICT (person, symbol) DO NOTHING",
            (person.id, name),
        )
        rows.execute("DELETE FROM watched WHERE person = ?", (name,))


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
    market: Market
    data: Callable[[], MarketData]
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
        wanted = [resolve(desk.market, each).symbol for each in args.symbols or ()]
        gone = await desk.lists.remove(person, None if args.all else wanted)
        absent = [each for each in wanted if each not in gone]
        lines = [f"removed: {', '.join(gone) or 'none'}", *(f"was not there: {each}" for each in absent)]
        return ToolOutput("\n".join([*lines, f"on the watchlist: {len(await desk.lists.symbols(person))}"]))

    return (show, add, remove)


def person_of(desk: WatchDesk, scope: ToolScope) -> Person:
    if not scope.person:
        raise ToolDenied("a watchlist belongs to a person, and no person speaks here; go on without it")
    return desk.person(scope.person)


_SCREEN = (
    "Finds those of the person's watchlist, or of `symbols`, that meet every condition given: change in percent, price "
    "in its own currency, within so many percent of the highest or lowest close of 52 weeks. Tell how many were looked "
    "at and which could not be read."
)
_YEAR: Final = timedelta(weeks=52)
_SHORTEST: Final = timedelta(weeks=50)  # a history that begins later is no year's
_AT_ONCE: Final = 4


class ScreenArguments(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    change_above: float | None = None
    change_below: float | None = None
    price_above: float | None = None
    price_below: float | None = None
    near_52_week_high: float | None = None
    near_52_week_low: float | None = None
    symbols: FewNames | None = None

    @property
    def needs_year(self) -> bool:
        return self.near_52_week_high is not None or self.near_52_week_low is not None


_CONDITIONS: Final = tuple(name for name in ScreenArguments.__struct_fields__ if name != "symbols")


class NoCondition(ToolError):
    """A screen without any condition."""


class YearRange(Struct, frozen=True):
    high: Decimal
    low: Decimal
    source: str


def screen_tool(desk: WatchDesk) -> Tool:
    @tool("market__screen", _SCREEN, group="finance", timeout=60.0)
    async def screen(args: ScreenArguments, scope: ToolScope) -> ToolOutput:
        if all(getattr(args, name) is None for name in _CONDITIONS):
            raise NoCondition("Give at least one condition. Ask the user what to look for.")
        if args.symbols is None:
            symbols: Sequence[str] = await desk.lists.symbols(person_of(desk, scope))
        else:
            symbols = tuple(dict.fromkeys(resolve(desk.market, each).symbol for each in args.symbols))
        if not symbols:
            raise ToolError("The watchlist is empty, so there is nothing to look through. Say so.")
        watched = await load_quotes(desk.market, desk.data(), symbols)
        found = [quote for quote in watched.quotes if _meets(quote, args)]
        ranges, failed = await _load_ranges(desk.market, found, args)
        found = [quote for quote in found if _is_near(quote, args, ranges)]
        unread = [*name_missing(watched), *failed]
        now = desk.market.now()
        counts = {"looked_at": watched.count, "met": len(found), "could_not_read": len(unread)}
        records = [record({**counts, "unread": "; ".join(unread) or None, "as_of": minute(now)})]
        facts = [
            plain_fact("watchlist", field, Decimal(count), "instruments", now, "watchlist")
            for field, count in counts.items()
        ]
        for each in found:
            text = describe(each)
            facts += facts_of(each)
            if year := ranges.get(each.instrument.symbol):
                text += f"\nhighest_close_52_weeks: {year.high}\nlowest_close_52_weeks: {year.low}"
                at = each.as_of
                facts.append(price_fact(each.instrument, "highest_close_52_weeks", year.high, at, year.source))
                facts.append(price_fact(each.instrument, "lowest_close_52_weeks", year.low, at, year.source))
            records.append(text)
        return ToolOutput("\n\n".join(records), tuple(facts))

    return screen


def _exact(number: float) -> Decimal:
    return Decimal(str(number))


def _meets(quote: Quote, args: ScreenArguments) -> bool:
    is_in_change = _is_between(quote.change_percent, args.change_above, args.change_below)
    return is_in_change and _is_between(quote.price, args.price_above, args.price_below)


def _is_between(value: Decimal, above: float | None, below: float | None) -> bool:
    return (above is None or value > _exact(above)) and (below is None or value < _exact(below))


async def _load_ranges(
    market: Market, quotes: Sequence[Quote], args: ScreenArguments
) -> tuple[dict[str, YearRange], list[str]]:
    """Of those that are left, a few at a time: a year of bars is a request for each."""
    if not args.needs_year:
        return {}, []
    gate = asyncio.Semaphore(_AT_ONCE)
    ranges: dict[str, YearRange] = {}
    failed: list[str] = []

    async def load(quote: Quote) -> None:
        symbol = quote.instrument.symbol
        async with gate:
            try:
                ranges[symbol] = await load_year_range(market, quote)
            except ToolError as error:
                failed.append(f"{symbol}: {error.suggestion or error}")

    await asyncio.gather(*map(load, quotes))
    return ranges, failed


async def load_year_range(market: Market, quote: Quote) -> YearRange:
    symbol = quote.instrument.symbol
    now = market.now()
    closes = await market.closes(symbol, (now - _YEAR).date())
    if not closes.prices or closes.prices[0][0] > now - _SHORTEST:
        raise ToolError(f"{symbol} has no prices of a whole year", suggestion="no prices of a whole year")
    prices = [price for _, price in closes.prices]
    return YearRange(max(prices), min(prices), closes.source)


def _is_near(quote: Quote, args: ScreenArguments, ranges: dict[str, YearRange]) -> bool:
    year = ranges.get(quote.instrument.symbol)
    if year is None:
        return not args.needs_year
    from_high = percent(year.high - quote.price, year.high)
    from_low = percent(quote.price - year.low, year.low)
    is_near_high = args.near_52_week_high is None or from_high <= _exact(args.near_52_week_high)
    is_near_low = args.near_52_week_low is None or from_low <= _exact(args.near_52_week_low)
    return is_near_high and is_near_low
