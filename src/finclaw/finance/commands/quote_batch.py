"""Quotes of several instruments that are asked for together, for the commands, the watchlist and the screener."""

from collections.abc import Sequence

from msgspec import Struct

from finclaw.finance.instrument import Instrument
from finclaw.finance.market import Market, Quote
from finclaw.finance.market_data.errors import DataError, DataNotFound
from finclaw.finance.market_data.port import MarketData
from finclaw.finance.quote import facts_of
from finclaw.kernel.fact import Fact


class QuoteBatch(Struct, frozen=True):
    """What could be read, in the list's order, and what could not with the reason."""

    quotes: tuple[Quote, ...]
    missing: tuple[tuple[Instrument, DataError], ...]
    unknown: tuple[str, ...] = ()
    """Symbols that our records lack by now."""

    @property
    def count(self) -> int:
        return len(self.quotes) + len(self.missing) + len(self.unknown)

    def facts(self) -> tuple[Fact, ...]:
        return tuple(fact for each in self.quotes for fact in facts_of(each))


async def load_quotes(market: Market, data: MarketData, symbols: Sequence[str]) -> QuoteBatch:
    known = [each for symbol in symbols if (each := market.instruments.get(symbol)) is not None]
    found = await data.quotes([each.symbol for each in known])
    return QuoteBatch(
        tuple(quote for each in known if isinstance(quote := found[each.symbol], Quote)),
        tuple((each, error) for each in known if isinstance(error := found[each.symbol], DataError)),
        tuple(symbol for symbol in symbols if market.instruments.get(symbol) is None),
    )


def name_missing(batch: QuoteBatch) -> list[str]:
    """A line for each that could not be read, for the model."""
    lines = [f"{each.symbol}: {_reason(error)}" for each, error in batch.missing]
    return [*lines, *(f"{symbol}: no longer in our records" for symbol in batch.unknown)]


def _reason(error: DataError) -> str:
    return "not found" if isinstance(error, DataNotFound) else error.suggestion or error.kind
