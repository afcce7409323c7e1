"""The quote tool: a price, in another currency too if it is wanted."""

from decimal import Decimal
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from finclaw.finance.convert import CurrencyCode, Leg, convert, rate_facts, rounded_amount
from finclaw.finance.market import ExtendedPrice, Market, Quote, percent
from finclaw.finance.output import identity, minute, plain_fact, price_fact, record, state
from finclaw.finance.resolve import resolve
from finclaw.kernel.fact import Fact
from finclaw.kernel.port import Tool, ToolOutput, ToolScope
from finclaw.tools.define import tool

_DESCRIPTION = (
    "The current price of one instrument (share, fund, index, coin or exchange rate), its previous close, the change "
    "since, and whether its market is open; outside trading hours the price is the last close. One call for each."
)

SymbolName = Annotated[
    str,
    Meta(
        description="Symbol or name as the user wrote it: AAPL, 005930, 삼성전자.",
        min_length=1,
        max_length=80,
    ),
]

ListedName = Annotated[str, Meta(min_length=1, max_length=80)]
"""The same in a list, which says what it is of."""


class QuoteArguments(Struct, frozen=True, forbid_unknown_fields=True):
    symbol: SymbolName
    in_currency: Annotated[CurrencyCode | None, Meta(description="The price in this currency too.")] = None


def quote_tool(market: Market) -> Tool:
    @tool("market__quote", _DESCRIPTION, group="finance")
    async def quote(args: QuoteArguments, scope: ToolScope) -> ToolOutput:
        instrument = resolve(market, args.symbol)
        latest = await market.quote(instrument.symbol)
        wanted = args.in_currency
        # A rate or an index has no price that could be paid in another currency.
        if wanted is None or wanted == instrument.currency or instrument.kind in ("rate", "index"):
            return ToolOutput(describe(latest), facts_of(latest))
        value, legs = await convert(market, latest.price, instrument.currency, wanted)
        return _in_another_currency(latest, wanted, rounded_amount(value, wanted), legs)

    return quote


def describe(quote: Quote) -> str:
    """For the model: one thing a line, plain figures, nothing to misread."""
    return record(
        {
            **identity(quote.instrument),
            "price": quote.price,
            "change": f"{quote.change:+}",
            "change_percent": f"{quote.change_percent:+}",
            "previous_close": quote.previous_close,
            "volume": quote.volume or None,
            "market": state(quote.opening),
            "as_of": minute(quote.as_of),
            "source": quote.source,
            **_describe_provenance(quote),
        }
    )


def _describe_provenance(quote: Quote) -> dict[str, object]:
    """What must be said with the price where it holds: none of these lines is there for a plain live one."""
    lines: dict[str, object] = {
        "venue": quote.venue if quote.venue not in ("", quote.instrument.exchange) else None,
        "phase": quote.phase if quote.phase in ("pre", "after") else None,
        "change_counted_from": quote.day_basis or None,
        "fixing_of": quote.fixing,
        "delayed_minutes": quote.delay or None,
        "unconfirmed": None if quote.is_confirmed else "a second source did not confirm this price; say so",
        "stale": "no source answered; this is an older price, say so with its time" if quote.stale else None,
        "failed_sources": "; ".join(quote.failed) or None,
    }
    if extended := quote.extended:
        told = f"{extended.price} ({minute(extended.as_of)}); it is not the close, tell it apart"
        lines[f"{extended.phase}_market_price"] = told
        lines[f"{extended.phase}_market_change_percent"] = f"{_extended_change(quote, extended):+} against the close"
    return lines


def facts_of(quote: Quote) -> tuple[Fact, ...]:
    """Each with the venue and the phase of the trading day it is of; that of a close is `closed`."""
    instrument, at, source, volume = quote.instrument, quote.as_of, quote.source_label, Decimal(quote.volume)
    of_now = (
        price_fact(instrument, "price", quote.price, at, source),
        price_fact(instrument, "change", quote.change, at, source),
        plain_fact(instrument.symbol, "change_percent", quote.change_percent, "%", at, source),
        *([plain_fact(instrument.symbol, "volume", volume, "pieces", at, source)] if volume else []),
    )
    closes = (
        price_fact(instrument, "previous_close", quote.previous_close, at, source),
        *([price_fact(instrument, "close", quote.close, at, source)] if quote.close is not None else []),
    )
    facts = (
        *(replace(each, venue=quote.venue, phase=quote.phase) for each in of_now),
        *(replace(each, venue=instrument.exchange, phase="closed") for each in closes),
        *(() if quote.extended is None else _extended_facts(quote, quote.extended)),
    )
    return tuple(replace(each, stale=True) for each in facts) if quote.stale else facts


def _extended_facts(quote: Quote, extended: ExtendedPrice) -> tuple[Fact, Fact]:
    """The price before or after the session, and its change against the close: never against the close before."""
    at, source, name = extended.as_of, quote.source_label, f"{extended.phase}_market"
    symbol, change = quote.instrument.symbol, _extended_change(quote, extended)
    price = price_fact(quote.instrument, f"{name}_price", extended.price, at, source)
    percentage = plain_fact(symbol, f"{name}_change_percent", change, "%", at, source)
    traded = {"venue": extended.venue, "phase": extended.phase}
    return replace(price, **traded), replace(percentage, **traded)


def _extended_change(quote: Quote, extended: ExtendedPrice) -> Decimal:
    return percent(extended.price - quote.price, quote.price)


def _in_another_currency(quote: Quote, wanted: str, value: Decimal, legs: tuple[Leg, ...]) -> ToolOutput:
    rates = "".join(f"\nrate {leg.quote.instrument.symbol}: {leg.quote.price}" for leg in legs)
    converted = Fact(
        subject=quote.instrument.symbol,
        field="price_in",
        value=value,
        currency=wanted,
        as_of=max([quote.as_of, *(leg.quote.as_of for leg in legs)]),
        source=quote.source_label,
    )
    text = f"{describe(quote)}\nprice in {wanted}: {value}{rates}"
    return ToolOutput(text, (*facts_of(quote), converted, *rate_facts(legs)))
