"""Price alerts: set, listed, removed. They live in this process only, and every answer about them says so."""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from finclaw.errors import ToolError
from finclaw.finance.instrument import Instrument
from finclaw.finance.market import Market, Quote
from finclaw.finance.output import USER, identity, minute, plain_fact, price_fact, record
from finclaw.finance.quote import SymbolName
from finclaw.finance.resolve import resolve
from finclaw.finance.venue import tick_size
from finclaw.kernel.fact import Fact
from finclaw.kernel.port import Tool, ToolOutput, ToolScope
from finclaw.tools.define import tool

MOST = 20
_PLAUSIBLE = 5  # so many times the price, or its part, may be named without a currency

Side = Literal["above", "below"]

_NOTE = "Alerts end when the gateway stops and message nobody yet: their state is told when the user asks. Say so."
_ADD = f"Sets a price alert in the instrument's own currency. {_NOTE} Repeat back exactly what was set."
_LIST = f"The person's price alerts, with the current price and whether each is reached. {_NOTE}"
_REMOVE = "Removes the person's price alerts on one instrument, at one price if given, or all of them."

Threshold = Annotated[str, Meta(description="Plain digits: 80000, 250.50", pattern=r"^\d{1,12}(\.\d{1,8})?$")]


class Alert(Struct, frozen=True):
    instrument: Instrument
    side: Side
    price: Decimal
    since: datetime

    def is_reached(self, price: Decimal) -> bool:
        if self.side == "above":
            return price >= self.price
        return price <= self.price


class WrongCurrency(ToolError):
    """The threshold was given in another currency than the instrument trades in. Suggestion: that one."""


class ImpossiblePrice(ToolError):
    """A price between two steps of its exchange, or none at all: it would never be reached."""


class ImplausiblePrice(ToolError):
    """A price far from the market's, without a currency: perhaps another is meant. Suggestion: the instrument's own."""


class TooManyAlerts(ToolError):
    pass


class AddArguments(Struct, frozen=True, forbid_unknown_fields=True):
    symbol: SymbolName
    price: Threshold
    currency: Annotated[str | None, Meta(description="As the user said it.")] = None
    side: Annotated[Side | None, Meta(description="Left out: as seen from the price now.")] = None


class ListArguments(Struct, frozen=True, forbid_unknown_fields=True):
    pass


class RemoveArguments(Struct, frozen=True, forbid_unknown_fields=True):
    symbol: SymbolName | None = None
    price: Threshold | None = None
    all: bool = False


class Alerts:
    def __init__(self, market: Market) -> None:
        self._market = market
        self._kept: dict[str, tuple[Alert, ...]] = {}

    def tools(self) -> tuple[Tool, ...]:
        add = tool("alert__add", _ADD, group="finance", changes=True, parallel_safe=False)(self._add)
        show = tool("alert__list", _LIST, group="finance")(self._list)
        remove = tool("alert__remove", _REMOVE, group="finance", changes=True, parallel_safe=False)(self._remove)
        return (add, show, remove)

    async def _add(self, args: AddArguments, scope: ToolScope) -> ToolOutput:
        instrument = resolve(self._market, args.symbol)
        quote = await self._market.quote(instrument.symbol)
        price = _threshold(instrument, args, quote.price)
        side: Side = "above" if price > quote.price else "below"
        alert = Alert(instrument, args.side or side, price, self._market.now())
        mine = self._mine(scope)
        # A call that is run again after a crash, or a wish told twice, leaves one alert.
        if not any(replace(each, since=alert.since) == alert for each in mine):
            if len(mine) >= MOST:
                raise TooManyAlerts(f"There are {MOST} alerts already. Ask the user which one to remove.")
            self._kept[_whose(scope)] = (*mine, alert)
        return _alerts_output("set", [(alert, quote)])

    async def _list(self, args: ListArguments, scope: ToolScope) -> ToolOutput:
        return await self._describe("kept", self._mine(scope))

    async def _remove(self, args: RemoveArguments, scope: ToolScope) -> ToolOutput:
        if args.symbol is None and not args.all:
            raise ToolError("Say which alert: an instrument, or all. Ask the user.")
        mine = self._mine(scope)
        gone = mine
        if args.symbol is not None:
            instrument = resolve(self._market, args.symbol)
            gone = tuple(each for each in gone if each.instrument == instrument)
        if args.price is not None:
            price = Decimal(args.price)
            gone = tuple(each for each in gone if each.price == price)
        self._kept[_whose(scope)] = tuple(each for each in mine if each not in gone)
        return await self._describe("removed", gone)

    async def _describe(self, what: str, alerts: Sequence[Alert]) -> ToolOutput:
        quotes = [await self._market.quote(each.instrument.symbol) for each in alerts]
        return _alerts_output(what, list(zip(alerts, quotes, strict=True)))

    def _mine(self, scope: ToolScope) -> tuple[Alert, ...]:
        return self._kept.get(_whose(scope), ())


def _threshold(instrument: Instrument, args: AddArguments, now: Decimal) -> Decimal:
    price = Decimal(args.price)
    currency = instrument.currency
    if args.currency not in (None, currency):
        raise WrongCurrency(
            f"{instrument.symbol} trades in {currency}. Ask for a price in {currency}.", suggestion=currency
        )
    if price > 0 and args.currency is None and not now / _PLAUSIBLE <= price <= now * _PLAUSIBLE:
        raise ImplausiblePrice(
            f"{price} is far from the price of {instrument.symbol}, {now} {currency}. Ask which currency is meant.",
            suggestion=currency,
        )
    if price <= 0 or price % tick_size(instrument.exchange, price, instrument.kind):
        raise ImpossiblePrice(f"{price} is no price that {instrument.symbol} can have. Ask the user for another.")
    return price


def _whose(scope: ToolScope) -> str:
    return scope.person or f"{scope.session} {scope.sender.id}"  # without a gateway nobody knows the person


def _alerts_output(what: str, alerts: list[tuple[Alert, Quote]]) -> ToolOutput:
    if not alerts:
        return ToolOutput(f"alerts: {what}, none")
    texts = [record({"alerts": what, "note": "kept until the gateway stops"})]
    facts: list[Fact] = []
    for place, (alert, quote) in enumerate(alerts):
        instrument = alert.instrument
        reached = alert.is_reached(quote.price)
        texts.append(
            record(
                {
                    **identity(instrument),
                    "alert": f"{alert.side} {alert.price}",
                    "side": alert.side,
                    "reached": "yes" if reached else "no",
                    "price": quote.price,
                    "as_of": minute(quote.as_of),
                    "source": quote.source,
                }
            )
        )
        of_alert = (
            price_fact(instrument, "threshold", alert.price, alert.since, USER),
            price_fact(instrument, "price", quote.price, quote.as_of, quote.source),
            plain_fact(instrument.symbol, "is_above", Decimal(alert.side == "above"), "", alert.since, USER),
            plain_fact(instrument.symbol, "is_reached", Decimal(reached), "", quote.as_of, quote.source),
        )
        # Two alerts on one instrument are two subjects, or their thresholds would be one fact with two values.
        facts += [replace(each, subject=f"{instrument.symbol}#{place}") for each in of_alert]
    return ToolOutput("\n\n".join(texts), tuple(facts))
