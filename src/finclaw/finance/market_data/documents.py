"""News, filings, earnings dates and profiles through a chain of sources. The first that answers is enough."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import date
from typing import TypeVar

from finclaw.finance.instrument import Instrument
from finclaw.finance.market_data.errors import AllSourcesFailed, DataError, DataUnsupported
from finclaw.finance.market_data.port import CompanyProfile, EarningsDate, Filing, NewsItem, Purpose
from finclaw.finance.market_data.source import DataSource, SourceClient
from finclaw.finance.market_data.source_access import SourceAccess

T = TypeVar("T")


async def read_news(
    access: SourceAccess, instrument: Instrument | None, limit: int, purpose: Purpose
) -> Sequence[NewsItem]:
    """Raises AllSourcesFailed, or DataUnsupported where no source is switched on; so do the others here."""
    chain = access.named_chain("market.ALL.news") if instrument is None else access.chain(instrument, "news")
    what = f"news of {instrument.symbol}" if instrument else "news of the market"
    return await _ask_chain(access, chain, purpose, what, lambda each, to: each.read_news(to, instrument, limit))


async def read_filings(access: SourceAccess, instrument: Instrument, limit: int, purpose: Purpose) -> Sequence[Filing]:
    chain, what = access.chain(instrument, "filings"), f"list of filings of {instrument.symbol}"
    return await _ask_chain(access, chain, purpose, what, lambda each, to: each.read_filings(to, instrument, limit))


async def read_earnings(access: SourceAccess, first: date, last: date, purpose: Purpose) -> Sequence[EarningsDate]:
    chain = access.named_chain("stock.US.earnings")
    return await _ask_chain(
        access, chain, purpose, "calendar of earnings", lambda each, to: each.read_earnings(to, first, last)
    )


async def read_profile(access: SourceAccess, instrument: Instrument, purpose: Purpose) -> CompanyProfile:
    chain, what = access.chain(instrument, "profile"), f"profile of {instrument.symbol}"
    return await _ask_chain(access, chain, purpose, what, lambda each, to: each.read_profile(to, instrument))


async def _ask_chain(
    access: SourceAccess,
    chain: Sequence[DataSource],
    purpose: Purpose,
    what: str,
    read: Callable[[DataSource, SourceClient], Awaitable[T]],
) -> T:
    if not chain:
        raise DataUnsupported(f"No source that is switched on has a {what}. Say so.")
    causes: list[DataError] = []
    for source in chain:
        try:
            return await access.ask(source, purpose, lambda client: read(source, client))  # noqa: B023  it is awaited in the same round
        except DataError as error:
            causes.append(error)
    raise AllSourcesFailed(what, tuple(causes))
