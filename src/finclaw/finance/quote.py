"""The quote tool, quotes of several instruments at once, and a quote as facts and back."""

import re
from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Annotated, Literal, cast

from msgspec import Meta, Struct
from msgspec.structs import replace

from finclaw.finance.calendar import TableCalendar
from finclaw.finance.convert import CurrencyCode, Leg, convert, rate_facts, rounded_amount
from finclaw.finance.instrument import Instrument
from finclaw.finance.market import ExtendedPrice, Market, Phase, Quote
from finclaw.finance.market_data.errors import DataError
from finclaw.finance.market_data.port import MarketData
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
    str, Meta(description="Symbol or name as the user wrote it: AAPL, 005930, 삼성전자.", min_length=1, max_length=80)
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
    lines: dict[str, object] = {}
    if quote.venue not in ("", quote.instrument.exchange):
        lines["venue"] = quote.venue
    if quote.phase in ("pre", "after"):
        lines["phase"] = quote.phase
    lines["change_counted_from"] = quote.day_basis or None
    lines["fixing_of"] = quote.fixing
    lines["delayed_minutes"] = quote.delay or None
    if not quote.is_confirmed:
        lines["unconfirmed"] = "a second source did not confirm this price; say so"
    if quote.stale:
        lines["stale"] = "no source answered; this is an older price, say so with its time"
    lines["failed_sources"] = "; ".join(quote.failed) or None
    if extended := quote.extended:
        told = f"{extended.price} ({minute(extended.as_of)}); it is not the close, tell it apart"
        lines[f"{extended.phase}_market_price"] = told
        lines[f"{extended.phase}_market_change_percent"] = f"{quote.extended_change_percent:+} against the close"
    return lines


def facts_of(quote: Quote) -> tuple[Fact, ...]:
    """Each with the venue and the phase of the trading day it is of; that of a close is `closed`."""
    instrument = quote.instrument
    at = quote.as_of
    source = quote.source_label
    of_now = [
        price_fact(instrument, "price", quote.price, at, source),
        price_fact(instrument, "change", quote.change, at, source),
        plain_fact(instrument.symbol, "change_percent", quote.change_percent, "%", at, source),
    ]
    if quote.volume:
        of_now.append(plain_fact(instrument.symbol, "volume", Decimal(quote.volume), "pieces", at, source))
    closes = [price_fact(instrument, "previous_close", quote.previous_close, at, source)]
    if quote.close is not None:
        closes.append(price_fact(instrument, "close", quote.close, at, source))
    facts = [
        *(replace(each, venue=quote.venue, phase=quote.phase) for each in of_now),
        *(replace(each, venue=instrument.exchange, phase="closed") for each in closes),
    ]
    if quote.extended is not None:
        facts += _extended_facts(quote, quote.extended)
    return tuple(replace(each, stale=quote.stale) for each in facts)


def _extended_facts(quote: Quote, extended: ExtendedPrice) -> tuple[Fact, Fact]:
    """The price before or after the session, and its change against the close: never against the close before."""
    at = extended.as_of
    source = quote.source_label
    name = f"{extended.phase}_market"
    change = quote.extended_change_percent
    price = price_fact(quote.instrument, f"{name}_price", extended.price, at, source)
    percentage = plain_fact(quote.instrument.symbol, f"{name}_change_percent", change, "%", at, source)
    traded = {"venue": extended.venue, "phase": extended.phase}
    return replace(price, **traded), replace(percentage, **traded)


def _in_another_currency(quote: Quote, wanted: str, value: Decimal, legs: tuple[Leg, ...]) -> ToolOutput:
    rates = "".join(f"\nrate {leg.quote.instrument.symbol}: {leg.quote.price}" for leg in legs)
    at = max([quote.as_of, *(leg.quote.as_of for leg in legs)])
    converted = plain_fact(quote.instrument.symbol, "price_in", value, "", at, quote.source_label)
    converted = replace(converted, currency=wanted)
    text = f"{describe(quote)}\nprice in {wanted}: {value}{rates}"
    return ToolOutput(text, (*facts_of(quote), converted, *rate_facts(legs)))


class QuoteBatch(Struct, frozen=True):
    quotes: tuple[Quote, ...]
    missing: tuple[tuple[Instrument, DataError], ...]
    unknown: tuple[str, ...] = ()  # symbols that our records lack by now

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
    lines = [f"{each.symbol}: {error.suggestion or error.kind}" for each, error in batch.missing]
    return [*lines, *(f"{symbol}: no longer in our records" for symbol in batch.unknown)]


_NOTE_NAMES = ("fixing of", "change since", "delayed", "unconfirmed", "stale")
_NOTES = re.compile(rf" \(((?:{'|'.join(_NOTE_NAMES)})[^()]*)\)$")


def read_quote(facts: Sequence[Fact], instrument: Instrument) -> Quote:
    """The quote of which these are the facts. Raises KeyError where they are not a quote's."""
    by_field = {fact.field: fact for fact in facts if fact.subject == instrument.symbol}
    price = by_field["price"]
    values = {field: fact.value for field, fact in by_field.items()}
    source = price.source
    notes: dict[str, str] = {}
    if found := _NOTES.search(source):
        source = source[: found.start()]
        written = found[1].split(", ")
        notes = {
            name: note.removeprefix(name).strip() for note in written for name in _NOTE_NAMES if note.startswith(name)
        }
    fixing = notes.get("fixing of")
    return Quote(
        instrument=instrument,
        price=price.value,
        previous_close=values["previous_close"],
        volume=int(values.get("volume", 0)),
        as_of=price.as_of,
        opening=TableCalendar().opening(instrument.exchange, price.as_of),
        source=source,
        venue=price.venue,
        phase=cast("Phase", price.phase or "regular"),
        close=values.get("close"),
        extended=_read_extended(by_field, "pre") or _read_extended(by_field, "after"),
        day_basis=notes.get("change since", ""),
        fixing=date.fromisoformat(fixing) if fixing else None,
        delay=int(notes.get("delayed", "0").removesuffix(" min")),
        is_confirmed="unconfirmed" not in notes,
        stale="stale" in notes,
    )


def _read_extended(by_field: Mapping[str, Fact], phase: Literal["pre", "after"]) -> ExtendedPrice | None:
    price = by_field.get(f"{phase}_market_price")
    if price is None:
        return None
    return ExtendedPrice(price=price.value, phase=phase, venue=price.venue, as_of=price.as_of)
