"""Fixings: an exchange rate that a central bank publishes once a business day, through a chain of sources."""

from msgspec.structs import replace

from finclaw.finance.instrument import Instrument
from finclaw.finance.market_data.errors import (
    AllSourcesFailed,
    DataError,
    DataImplausible,
    DataUnsupported,
    refuse_unreadable,
)
from finclaw.finance.market_data.plausible import PriceReading, check_reading
from finclaw.finance.market_data.port import ExchangeRate, Purpose
from finclaw.finance.market_data.source_access import SourceAccess


async def read_fixing(access: SourceAccess, base: str, quote: str, purpose: Purpose) -> ExchangeRate:
    """Raises AllSourcesFailed, or DataUnsupported where no source is switched on."""
    symbol = f"{base}/{quote}"
    pair = Instrument(symbol=symbol, exchange="FX", name_en=symbol, name_ko=symbol, currency=quote, kind="rate")
    chain = access.chain(pair, "fixing")
    if not chain:
        raise DataUnsupported(f"No source that is switched on has a fixing of {symbol}. Say so.")
    causes: list[DataError] = []
    for source in chain:
        try:
            rate = await access.ask(source, purpose, lambda client: source.read_fixing(client, base, quote))  # noqa: B023  it is awaited in the same round
            with refuse_unreadable(source.info.name):
                _check(rate, pair, access)
        except DataError as error:
            causes.append(error)
            continue
        return replace(rate, failed=tuple(f"{each.source} {each.kind}" for each in causes))
    raise AllSourcesFailed(f"fixing of {symbol}", tuple(causes))


def _check(rate: ExchangeRate, pair: Instrument, access: SourceAccess) -> None:
    """Raises DataError. The rules of prices hold; the close before it is not part of a fixing."""
    if (rate.base, rate.quote, rate.basis) != (pair.symbol[:3], pair.currency, "fixing"):
        raise DataImplausible(
            f"{rate.source} spoke of {rate.base}/{rate.quote}, not of {pair.symbol}", source=rate.source
        )
    reading = PriceReading(
        instrument=pair,
        source=rate.source,
        price=rate.rate,
        currency=rate.quote,
        as_of=rate.as_of,
        previous_close=rate.rate,
        fixing=rate.day,
    )
    check_reading(reading, access.calendar, access.clock.now())
