"""The tool that shows a portfolio. There is no ledger yet, so it is a sample, the same for everybody, and says so."""

from datetime import datetime
from decimal import Decimal
from typing import Annotated, Literal

from msgspec import Meta, Struct

from finclaw.finance.convert import Leg, convert, rate_facts
from finclaw.finance.market import Market, Quote, percent
from finclaw.finance.output import identity, minute, money, plain_fact, price_fact, record
from finclaw.kernel.fact import Fact
from finclaw.kernel.port import Tool, ToolOutput, ToolScope
from finclaw.tools.define import tool

_DESCRIPTION = (
    "A sample portfolio at current prices: holdings with gains, a total for each currency and one total. It is NOT the "
    "user's own; always say that it is a sample."
)


class Holding(Struct, frozen=True):
    symbol: str
    quantity: Decimal
    average_cost: Decimal


SAMPLE = (
    Holding("005930", Decimal(50), Decimal(68_000)),
    Holding("035420", Decimal(8), Decimal(201_500)),
    Holding("AAPL", Decimal(12), Decimal("205.50")),
    Holding("NVDA", Decimal(20), Decimal("118.25")),
    Holding("BTC-USD", Decimal("0.05"), Decimal("84000.00")),
)
"""Small round numbers, chosen so that nobody takes them for their own."""


class Position(Struct, frozen=True):
    holding: Holding
    quote: Quote

    @property
    def value(self) -> Decimal:
        return money(self.holding.quantity * self.quote.price, self.quote.instrument.currency)

    @property
    def cost(self) -> Decimal:
        return money(self.holding.quantity * self.holding.average_cost, self.quote.instrument.currency)

    @property
    def gain(self) -> Decimal:
        return self.value - self.cost


class PortfolioArguments(Struct, frozen=True, forbid_unknown_fields=True):
    in_currency: Annotated[Literal["KRW", "USD"], Meta(description="Of the one total.")] = "KRW"


def portfolio_tool(market: Market) -> Tool:
    @tool("portfolio__show", _DESCRIPTION, group="finance")
    async def show(args: PortfolioArguments, scope: ToolScope) -> ToolOutput:
        positions = [Position(each, await market.quote(each.symbol)) for each in SAMPLE]
        total, subtotals, legs = await _totals(market, positions, args.in_currency)
        now = market.now()
        texts = [
            record({"portfolio": "sample", "note": "not the user's own holdings", "as_of": minute(now)}),
            *map(_describe_position, positions),
            record(
                {
                    **{f"subtotal {currency}": value for currency, value in subtotals.items()},
                    **{f"rate {leg.quote.instrument.symbol}": leg.quote.price for leg in legs},
                    f"total {args.in_currency}": total,
                    "source": market.source,
                }
            ),
        ]
        facts = [fact for each in positions for fact in _facts(each)]
        facts += [_sum("subtotal", value, currency, now, market.source) for currency, value in subtotals.items()]
        facts += rate_facts(legs)
        facts.append(_sum("total", total, args.in_currency, now, market.source))
        return ToolOutput("\n\n".join(texts), tuple(facts))

    return show


async def _totals(
    market: Market, positions: list[Position], target: str
) -> tuple[Decimal, dict[str, Decimal], tuple[Leg, ...]]:
    """One sum for each currency first: won and dollars are never added, only converted and then added."""
    subtotals: dict[str, Decimal] = {}
    for each in positions:
        currency = each.quote.instrument.currency
        subtotals[currency] = subtotals.get(currency, Decimal(0)) + each.value
    total = Decimal(0)
    used: list[Leg] = []
    for currency, value in subtotals.items():
        if currency == target:
            total += value
            continue
        converted, legs = await convert(market, value, currency, target)
        total += money(converted, target)
        used += [leg for leg in legs if leg not in used]
    return total, subtotals, tuple(used)


def _describe_position(position: Position) -> str:
    return record(
        {
            **identity(position.quote.instrument),
            "quantity": position.holding.quantity,
            "average_cost": position.holding.average_cost,
            "price": position.quote.price,
            "value": position.value,
            "gain": f"{position.gain:+}",
            "gain_percent": f"{percent(position.gain, position.cost):+}",
        }
    )


def _facts(position: Position) -> tuple[Fact, ...]:
    quote = position.quote
    instrument = quote.instrument
    at = quote.as_of
    source = quote.source_label
    gain_percent = percent(position.gain, position.cost)
    return (
        plain_fact(instrument.symbol, "quantity", position.holding.quantity, "pieces", at, source),
        price_fact(instrument, "average_cost", position.holding.average_cost, at, source),
        price_fact(instrument, "price", quote.price, at, source),
        price_fact(instrument, "value", position.value, at, source),
        price_fact(instrument, "gain", position.gain, at, source),
        plain_fact(instrument.symbol, "gain_percent", gain_percent, "%", at, source),
    )


def _sum(field: str, value: Decimal, currency: str, now: datetime, source: str) -> Fact:
    return Fact(subject="portfolio", field=field, value=value, currency=currency, as_of=now, source=source)
