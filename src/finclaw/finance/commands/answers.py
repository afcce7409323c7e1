"""Answers of the commands, by the functions that the tools call: a command and a model say the same of the same."""

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Final

from msgspec import Struct

from finclaw.errors import ToolError
from finclaw.finance.commands.fx_request import default_target, read_fx
from finclaw.finance.commands.hours_words import describe_hours, name_calendar
from finclaw.finance.commands.news_words import describe_news
from finclaw.finance.commands.quote_batch import load_quotes
from finclaw.finance.commands.quote_words import describe_missing, describe_quote, list_quotes
from finclaw.finance.commands.words import (
    explain_missing,
    title_of,
    write_moment,
    write_money,
    write_source,
    zone_for,
)
from finclaw.finance.convert import Conversion, SameCurrency, load_conversion
from finclaw.finance.documents.tools import news_facts
from finclaw.finance.hours import find_venues, load_hours
from finclaw.finance.instrument import Instrument
from finclaw.finance.market import Market, Quote
from finclaw.finance.market_data.errors import DataError
from finclaw.finance.market_data.port import MarketData
from finclaw.finance.name_question import Settle, ask_which, find_instruments
from finclaw.finance.quote import facts_of
from finclaw.finance.venue import KRX
from finclaw.kernel.calendar import Calendar
from finclaw.kernel.envelope import ActionButton, Capabilities
from finclaw.kernel.fact import Fact
from finclaw.kernel.person import Person
from finclaw.kernel.port import CommandReply, CommandScope
from finclaw.text import Language

MOST_PRICES: Final = 10
_HEADLINES: Final = 5
_RATES: Final = ("USD/KRW", "USD/JPY", "EUR/USD", "GBP/USD")
_OVERVIEW: Final = ("KOSPI", "KOSDAQ", "SPX", "IXIC", "USD/KRW")
"""What `/market` quotes, as far as the market has it."""
_YEN: Final = Decimal(100)
"""In Korea the yen is quoted by the hundred."""

_NEXT: Final[dict[Language, tuple[tuple[str, str], ...]]] = {
    "en": (("Chart", "chart"), ("News", "news"), ("Watch", "watch add")),
    "ko": (("차트", "chart"), ("뉴스", "news"), ("관심 종목에 추가", "watch add")),
}
_BAD_CURRENCY: Final[dict[Language, str]] = {
    "en": "I cannot convert “{0}”. Write for example `{1}fx 100 USD KRW`. I know USD, KRW, EUR, JPY, GBP, BTC, ETH, "
    "SOL and XRP.",
    "ko": "“{0}”은(는) 환산할 수 없습니다. 예: `{1}환율 100달러`, `{1}환율 1만엔 원`. "
    "환산할 수 있는 통화: USD, KRW, EUR, JPY, GBP, BTC, ETH, SOL, XRP.",
}
_SAME_CURRENCY: Final[dict[Language, str]] = {
    "en": "Both sides are {0}. Which other currency do you mean?",
    "ko": "두 통화가 모두 {0}입니다. 어떤 통화로 바꿀까요?",
}


class CommandMarket(Struct, frozen=True, kw_only=True):
    """What the commands need of finance and of the gateway."""

    market: Market
    data: MarketData
    calendar: Calendar
    settle: Settle
    channel: Callable[[str], Capabilities]
    prefix: str


class MarketAnswers:
    """Answers to `/price`, `/fx`, `/market` and `/news`, in the language of what was typed."""

    def __init__(self, desk: CommandMarket) -> None:
        self._desk = desk

    # ── /price ──────────────────────────────────────────────────────────────────────────────────────────────

    async def answer_price(self, args: Sequence[str], scope: CommandScope) -> CommandReply:
        language, name = scope.language, " ".join(args)
        try:
            instruments = await self._find(name, scope.person, language)
        except ToolError as error:
            return ask_which(error, name, language, lambda symbol: f"{self._desk.prefix}price {symbol}")
        quotes, missing = await self._quotes(instruments[:MOST_PRICES], language)
        if not quotes:
            return CommandReply("\n".join(missing))
        if len(instruments) > 1:
            text = "\n".join(filter(None, (list_quotes(quotes, scope.person, language), *missing)))
            return _reply(text, quotes)
        return _reply(describe_quote(quotes[0], scope.person, language), quotes, self._next(quotes[0], scope, language))

    async def _find(self, words: str, person: Person, language: Language) -> list[Instrument]:
        return await find_instruments(self._desk.market, self._desk.settle, words, person, language)

    async def _quotes(self, instruments: Sequence[Instrument], language: Language) -> tuple[list[Quote], list[str]]:
        """Asked for together; a line for each that could not be had."""
        found = await load_quotes(self._desk.market, self._desk.data, [each.symbol for each in instruments])
        return list(found.quotes), describe_missing(found, language)

    def _next(self, quote: Quote, scope: CommandScope, language: Language) -> tuple[ActionButton, ...]:
        """What people ask next, as buttons; in a chat without them it would be noise."""
        if self._desk.channel(scope.inbound.channel).buttons is None:
            return ()
        symbol, prefix = quote.instrument.symbol, self._desk.prefix
        return tuple(ActionButton(label=label, command=f"{prefix}{line} {symbol}") for label, line in _NEXT[language])

    # ── /fx ─────────────────────────────────────────────────────────────────────────────────────────────────

    async def answer_fx(self, args: Sequence[str], scope: CommandScope) -> CommandReply:
        language, wanted = scope.language, read_fx(args)
        if not args:
            return await self._list_rates(scope.person, language)
        if wanted.left or wanted.base is None:
            shown = (wanted.left or " ".join(args))[:40]
            return CommandReply(_BAD_CURRENCY[language].format(shown, self._desk.prefix), kind="reply")
        home = scope.person.currency or ("KRW" if language == "ko" else "USD")
        target = wanted.target or default_target(wanted.base, home)
        amount = wanted.amount or (_YEN if (wanted.base, target) == ("JPY", "KRW") else Decimal(1))
        try:
            done = await load_conversion(self._desk.market, amount, wanted.base, target)
        except SameCurrency:
            return CommandReply(_SAME_CURRENCY[language].format(target))
        except DataError as error:
            return CommandReply(explain_missing(f"{wanted.base}/{target}", error, language))
        except ToolError as error:
            return CommandReply(str(error))
        return CommandReply(_describe_conversion(done, scope.person, language), kind="reply", facts=done.facts())

    async def _list_rates(self, person: Person, language: Language) -> CommandReply:
        known = [each for symbol in _RATES if (each := self._desk.market.instruments.get(symbol)) is not None]
        quotes, missing = await self._quotes(known, language)
        text = "\n".join(filter(None, (list_quotes(quotes, person, language), *missing)))
        return _reply(text, quotes) if quotes else CommandReply(text)

    # ── /market ─────────────────────────────────────────────────────────────────────────────────────────────

    async def answer_market(self, args: Sequence[str], scope: CommandScope) -> CommandReply:
        language, name, market = scope.language, " ".join(args), self._desk.market
        try:
            venues = find_venues(market, await self._desk.settle(name, scope.person) if name else None)
        except ToolError as error:
            return ask_which(error, name, language, lambda symbol: f"{self._desk.prefix}market {symbol}")
        hours = [load_hours(self._desk.calendar, each, market.now()) for each in venues]
        lines = [describe_hours(each, scope.person, language) for each in hours]
        lines.append(name_calendar(market.now(), scope.person, language))
        facts = [fact for each in hours for fact in each.facts()]
        if args:
            return CommandReply("\n".join(lines), kind="reply", facts=tuple(facts))
        known = [each for symbol in _OVERVIEW if (each := market.instruments.get(symbol)) is not None]
        quotes, missing = await self._quotes(known, language)
        lines += ["", list_quotes(quotes, scope.person, language)] if quotes else []
        facts += [fact for each in quotes for fact in facts_of(each)]
        return CommandReply("\n".join((*lines, *missing)), kind="reply", facts=tuple(facts))

    # ── /news ───────────────────────────────────────────────────────────────────────────────────────────────

    async def answer_news(self, args: Sequence[str], scope: CommandScope) -> CommandReply:
        language, name = scope.language, " ".join(args)
        try:
            found = await self._find(name, scope.person, language) if name else []
        except ToolError as error:
            return ask_which(error, name, language, lambda symbol: f"{self._desk.prefix}news {symbol}")
        instrument = found[0] if found else None
        try:
            items = await self._desk.data.news(instrument.symbol if instrument else None, _HEADLINES)
        except DataError as error:
            about = title_of(instrument, language) if instrument else ""
            what = f"{about} 뉴스".strip() if language == "ko" else f"News about {about}" if about else "News"
            return CommandReply(explain_missing(what, error, language))
        where = zone_for(instrument, scope.person, language) if instrument else KRX.tz if language == "ko" else None
        # To the letter: a headline is somebody else's words, and may not bring markup or control tokens.
        return CommandReply(describe_news(instrument, items, where, language), facts=news_facts(instrument, items))


def _reply(text: str, quotes: Sequence[Quote], actions: tuple[ActionButton, ...] = ()) -> CommandReply:
    facts: tuple[Fact, ...] = tuple(fact for each in quotes for fact in facts_of(each))
    return CommandReply(text, kind="reply", facts=facts, actions=actions)


def _describe_conversion(done: Conversion, person: Person, language: Language) -> str:
    given = write_money(done.amount.normalize() + 0, done.base, language)
    told = write_money(done.result, done.target, language)
    rates = ", ".join(f"{leg.quote.instrument.symbol} {leg.quote.price:,f}" for leg in done.legs)
    at = write_moment(done.as_of, zone_for(done.legs[0].quote.instrument, person, language))
    source = write_source(done.source, language)
    if language == "ko":
        return f"**{given} = {told}**\n적용 환율 {rates} · {at} 기준 · 출처: {source}"
    return f"**{given} = {told}**\nrate used {rates} · as of {at} · source: {source}"
