"""Currency conversion, and the tool for it. The rates used are told with the result."""

from datetime import datetime
from decimal import Decimal
from typing import Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from finclaw.errors import ToolError
from finclaw.finance.market import Market, Quote
from finclaw.finance.output import USER, minute, money, record
from finclaw.kernel.fact import Fact
from finclaw.kernel.port import Tool, ToolOutput, ToolScope
from finclaw.tools.define import tool

CurrencyCode = Literal["USD", "KRW", "EUR", "JPY", "GBP", "BTC", "ETH", "SOL", "XRP"]

_COINS = ("BTC", "ETH", "SOL", "XRP")
_PER_DOLLAR = ("KRW", "JPY")
"""Rates that are quoted as so many for one dollar; the others are dollars for one."""

_DESCRIPTION = "Converts an amount of money into another currency, with every rate it used. Never convert by yourself."


class Leg(Struct, frozen=True):
    quote: Quote
    times: bool  # whether an amount is multiplied by the rate, or divided

    def apply(self, amount: Decimal) -> Decimal:
        if self.times:
            return amount * self.quote.price
        return amount / self.quote.price

    def reverse(self) -> "Leg":
        return Leg(self.quote, not self.times)


class Conversion(Struct, frozen=True, kw_only=True):
    amount: Decimal
    base: str
    result: Decimal
    target: str
    legs: tuple[Leg, ...]

    @property
    def as_of(self) -> datetime:
        return max(leg.quote.as_of for leg in self.legs)

    @property
    def source(self) -> str:
        return ", ".join(dict.fromkeys(leg.quote.source_label for leg in self.legs))

    def facts(self) -> tuple[Fact, ...]:
        pair = f"{self.base}/{self.target}"
        at = self.as_of
        amount = Fact(subject=pair, field="amount", value=self.amount, currency=self.base, as_of=at, source=USER)
        result = replace(amount, field="result", value=self.result, currency=self.target, source=self.source)
        return (amount, result, *rate_facts(self.legs))


class SameCurrency(ToolError):
    pass


Amount = Annotated[str, Meta(description="Plain digits: 2500.50", pattern=r"^\d{1,18}(\.\d{1,8})?$")]


class ConvertArguments(Struct, frozen=True, forbid_unknown_fields=True, rename={"from_": "from"}):
    amount: Amount
    from_: CurrencyCode
    to: CurrencyCode


def convert_tool(market: Market) -> Tool:
    @tool("fx__convert", _DESCRIPTION, group="finance")
    async def fx_convert(args: ConvertArguments, scope: ToolScope) -> ToolOutput:
        done = await load_conversion(market, Decimal(args.amount), args.from_, args.to)
        text = record(
            {
                "amount": f"{done.amount} {done.base}",
                "result": f"{done.result} {done.target}",
                **{f"rate {leg.quote.instrument.symbol}": leg.quote.price for leg in done.legs},
                "as_of": minute(done.as_of),
                "source": done.source,
            }
        )
        return ToolOutput(text, done.facts())

    return fx_convert


async def load_conversion(market: Market, amount: Decimal, base: str, target: str) -> Conversion:
    if base == target:
        raise SameCurrency(f"Both sides are {target}: nothing to convert. Ask the user for the other currency.")
    value, legs = await convert(market, amount, base, target)
    return Conversion(amount=amount, base=base, result=rounded_amount(value, target), target=target, legs=legs)


async def convert(market: Market, amount: Decimal, source: str, target: str) -> tuple[Decimal, tuple[Leg, ...]]:
    """The amount in the other currency, not rounded, with the rates in their order.

    The way goes through the dollar, but for what is quoted in won: a coin's price there is another one, and a bank
    posts its rates there when nobody has one in dollars.
    """
    direct = await _load_won_rate(market, source, target)
    legs = direct or (
        *await _dollars_for(market, source),
        *(leg.reverse() for leg in await _dollars_for(market, target)),
    )
    for leg in legs:
        amount = leg.apply(amount)
    return amount, legs


def rate_facts(legs: tuple[Leg, ...]) -> tuple[Fact, ...]:
    return tuple(
        Fact(
            subject=leg.quote.instrument.symbol,
            field="rate",
            value=leg.quote.price,
            currency=leg.quote.instrument.currency,
            as_of=leg.quote.as_of,
            source=leg.quote.source_label,
            venue=leg.quote.venue,
            phase=leg.quote.phase,
        )
        for leg in legs
    )


def rounded_amount(value: Decimal, currency: str) -> Decimal:
    """To the smallest coin, and finer where that would be coarse: a yen is not 9 won, a won not zero dollars."""
    if currency in _COINS:
        return value.quantize(Decimal("0.00000001"))
    rounded = money(value, currency)
    is_coarse = abs(value - rounded) * 1_000 > abs(value)
    if is_coarse and abs(value) < 1:
        return value.quantize(Decimal("0.000001"))
    if is_coarse:
        return value.quantize(Decimal("0.01"))
    return rounded


async def _load_won_rate(market: Market, source: str, target: str) -> tuple[Leg, ...]:
    """The one rate between the won and a coin or another currency; empty where the market does not have it."""
    if "KRW" not in (source, target):
        return ()
    other = source if target == "KRW" else target
    symbol = f"{other}-KRW" if other in _COINS else f"{other}/KRW"
    if market.instruments.get(symbol) is None:
        return ()
    try:
        return (Leg(await market.quote(symbol), times=other == source),)
    except ToolError:
        if other in _COINS or other == "USD":
            raise
        return ()


async def _dollars_for(market: Market, currency: str) -> tuple[Leg, ...]:
    if currency == "USD":
        return ()
    if currency in _COINS:
        return (Leg(await market.quote(f"{currency}-USD"), times=True),)
    if currency in _PER_DOLLAR:
        return (Leg(await market.quote(f"USD/{currency}"), times=False),)
    return (Leg(await market.quote(f"{currency}/USD"), times=True),)
