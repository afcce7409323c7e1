"""The tool that tells a price."""

from typing import Annotated

from msgspec import Meta, Struct

from finclaw.errors import ToolError
from finclaw.finance.instrument import Ambiguous, Instrument, Unknown
from finclaw.finance.market import Market, Quote
from finclaw.kernel.fact import Fact
from finclaw.kernel.port import Tool, ToolOutput, ToolScope
from finclaw.tools.define import tool

_DESCRIPTION = (
    "The current price of one instrument (share, crypto currency or exchange rate), its previous close and the change "
    "since. Call it once for each instrument asked about; calls may run side by side."
)


class QuoteArguments(Struct, frozen=True, forbid_unknown_fields=True):
    symbol: Annotated[
        str,
        Meta(
            description="Symbol or name, English or Korean, as the user wrote it: AAPL, Apple, 005930, 삼성전자, BTC.",
            min_length=1,
            max_length=80,
        ),
    ]


def quote_tool(market: Market) -> Tool:
    @tool("market__quote", _DESCRIPTION, group="finance")
    async def quote(args: QuoteArguments, scope: ToolScope) -> ToolOutput:
        instrument = resolve(market, args.symbol)
        latest = await market.quote(instrument.symbol)
        return ToolOutput(describe(latest), facts_of(latest))

    return quote


def resolve(market: Market, query: str) -> Instrument:
    """The one instrument that is meant. Raises ToolError with the candidates when that is not certain."""
    found = market.instruments.find(query)
    asked = query.strip().replace('"', "'")
    match found:
        case Instrument():
            return found
        case Ambiguous(candidates):
            raise ToolError(f'"{asked}" may mean {_listed(candidates)}. Ask the user which one is meant.')
        case Unknown(near) if near:
            raise ToolError(f'No instrument is called "{asked}". Did you mean {_listed(near)}? Ask the user.')
        case Unknown():
            raise ToolError(f'No instrument is called "{asked}". Ask the user for its symbol or full name.')


def describe(quote: Quote) -> str:
    """For the model: one thing a line, plain figures, nothing to misread."""
    instrument = quote.instrument
    return "\n".join(
        (
            f"symbol: {instrument.symbol}",
            f"name: {instrument.name_en}",
            f"name_ko: {instrument.name_ko}",
            f"exchange: {instrument.exchange}",
            f"currency: {instrument.currency}",
            f"price: {quote.price}",
            f"change: {quote.change:+}",
            f"change_percent: {quote.change_percent:+}",
            f"previous_close: {quote.previous_close}",
            f"as_of: {quote.as_of.isoformat(timespec='minutes')}",
            f"source: {quote.source}",
        )
    )


def facts_of(quote: Quote) -> tuple[Fact, ...]:
    currency = quote.instrument.currency
    figures = (
        ("price", quote.price, "", currency),
        ("change", quote.change, "", currency),
        ("change_percent", quote.change_percent, "%", None),
        ("previous_close", quote.previous_close, "", currency),
    )
    return tuple(
        Fact(
            subject=quote.instrument.symbol,
            field=field,
            value=value,
            unit=unit,
            currency=in_currency,
            as_of=quote.as_of,
            source=quote.source,
        )
        for field, value, unit, in_currency in figures
    )


def _listed(candidates: tuple[Instrument, ...]) -> str:
    return " or ".join(f'"{each.title}" [{each.symbol}]' for each in candidates)
