"""Answers of the commands, by the functions that the tools call: a command and a model say the same of the same."""

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Final, Literal, NamedTuple

from msgspec import Struct

from finclaw.errors import ToolError
from finclaw.finance.convert import SameCurrency, load_conversion
from finclaw.finance.documents import news_facts
from finclaw.finance.hours import find_venues, load_hours
from finclaw.finance.instrument import Instrument
from finclaw.finance.market import Market, Quote
from finclaw.finance.market_data.errors import DataError
from finclaw.finance.market_data.port import MarketData
from finclaw.finance.quote import facts_of, load_quotes
from finclaw.finance.resolve import Settle, ask_which, find_instruments
from finclaw.finance.watchlist import MOST_WATCHED, TooManyWatched, WatchDesk
from finclaw.finance.words import (
    describe_conversion,
    describe_hours,
    describe_missing,
    describe_news,
    describe_quote,
    explain_missing,
    list_quotes,
    name_calendar,
    title_of,
)
from finclaw.kernel.calendar import Calendar
from finclaw.kernel.envelope import ActionButton, Capabilities
from finclaw.kernel.fact import Fact
from finclaw.kernel.person import Person, zone_of
from finclaw.kernel.port import CommandReply, CommandScope
from finclaw.numerals.find import find_figures
from finclaw.numerals.tables import find_currency
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
            text = "\n".join(filter(None, (list_quotes(quotes, zone_of(scope.person), language), *missing)))
            return _reply(text, quotes)
        return _reply(
            describe_quote(quotes[0], zone_of(scope.person), language), quotes, self._next(quotes[0], scope, language)
        )

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
        facts = done.facts()
        return CommandReply(describe_conversion(facts, zone_of(scope.person), language), kind="reply", facts=facts)

    async def _list_rates(self, person: Person, language: Language) -> CommandReply:
        known = [each for symbol in _RATES if (each := self._desk.market.instruments.get(symbol)) is not None]
        quotes, missing = await self._quotes(known, language)
        text = "\n".join(filter(None, (list_quotes(quotes, zone_of(person), language), *missing)))
        return _reply(text, quotes) if quotes else CommandReply(text)

    # ── /market ─────────────────────────────────────────────────────────────────────────────────────────────

    async def answer_market(self, args: Sequence[str], scope: CommandScope) -> CommandReply:
        language, name, market = scope.language, " ".join(args), self._desk.market
        try:
            venues = find_venues(market, await self._desk.settle(name, scope.person) if name else None)
        except ToolError as error:
            return ask_which(error, name, language, lambda symbol: f"{self._desk.prefix}market {symbol}")
        hours = [load_hours(self._desk.calendar, each, market.now()) for each in venues]
        lines = [describe_hours(each, zone_of(scope.person), language) for each in hours]
        lines.append(name_calendar(market.now(), zone_of(scope.person), language))
        facts = [fact for each in hours for fact in each.facts()]
        if args:
            return CommandReply("\n".join(lines), kind="reply", facts=tuple(facts))
        known = [each for symbol in _OVERVIEW if (each := market.instruments.get(symbol)) is not None]
        quotes, missing = await self._quotes(known, language)
        lines += ["", list_quotes(quotes, zone_of(scope.person), language)] if quotes else []
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
        # To the letter: a headline is somebody else's words, and may not bring markup or control tokens.
        return CommandReply(
            describe_news(instrument, items, zone_of(scope.person), language), facts=news_facts(instrument, items)
        )


def _reply(text: str, quotes: Sequence[Quote], actions: tuple[ActionButton, ...] = ()) -> CommandReply:
    facts: tuple[Fact, ...] = tuple(fact for each in quotes for fact in facts_of(each))
    return CommandReply(text, kind="reply", facts=facts, actions=actions)


# ── what is typed behind /fx ────────────────────────────────────────────────────────────────────────────────

_BETWEEN: Final = re.compile(r"[\s/,=?→]+|->")
_PARTICLES: Final = re.compile(r"(?:에서|으로|로|을|를|은|는|이|가|의)$")
_SMALL_WORDS: Final = frozenset(("to", "in", "into", "from", "환율", "환전", "rate", "?"))
_PAIR: Final = re.compile(r"([A-Za-z]{3})([A-Za-z]{3})")
_SHORTENED: Final = re.compile(r"[억조]\s?\d[\d,.]*\s?[천백십]?(?=\s?(?:[^\d,.\s천백십만억조]|$))")
"""1억 2천: spoken, 120 million; as it is written, 100,002,000."""


class FxRequest(NamedTuple):
    """An amount and its currency, and the one that it is wanted in; each None where it was not said."""

    amount: Decimal | None = None
    base: str | None = None
    target: str | None = None
    left: str = ""
    """A word that is neither, or a third currency."""


def read_fx(args: Sequence[str]) -> FxRequest:
    text = " ".join(args)
    if has_two_readings(text):
        return FxRequest(left=text)
    figures = [each for each in find_figures(text) if each.kind == "amount" and each.high is None]
    if len(figures) > 1 or (figures and figures[0].value <= 0):
        return FxRequest(left=text)
    currencies: list[str] = []
    amount = None
    for each in figures:
        amount = Decimal(each.value.numerator) / Decimal(each.value.denominator)
        currencies += [each.currency] if each.currency else []
        text = f"{text[: each.start]} {text[each.end :]}"
    for word in filter(None, _BETWEEN.split(text)):
        found = _currencies_of(word)
        if not found and word.casefold() not in _SMALL_WORDS and not _PARTICLES.fullmatch(word):
            return FxRequest(left=word)
        currencies += found
    if len(currencies) > 2:
        return FxRequest(left=currencies[2])
    base, target = (*currencies, None, None)[:2]
    return FxRequest(amount, base, target)


def has_two_readings(text: str) -> bool:
    """Whether an amount leaves out its last unit, as people do when they speak: 1억 2천, 3조 5."""
    return _SHORTENED.search(text) is not None


def _currencies_of(word: str) -> list[str]:
    for each in (word, _PARTICLES.sub("", word)):
        if found := find_currency(each):
            return [found]
    pair = _PAIR.fullmatch(word)
    both = [find_currency(each) for each in pair.groups()] if pair else []
    return [each for each in both if each] if all(both) else []


def default_target(base: str, home: str) -> str:
    """The person's own currency; of that itself, the one that it is mostly compared with."""
    if base != home:
        return home
    return "USD" if home == "KRW" else "KRW"


WatchVerb = Literal["list", "add", "remove"]

_VERBS: Final[dict[str, WatchVerb]] = {
    **dict.fromkeys(("list", "show", "목록", "보기"), "list"),
    **dict.fromkeys(("add", "추가", "등록"), "add"),
    **dict.fromkeys(("remove", "delete", "rm", "삭제", "제거", "해제"), "remove"),
}
_ALL: Final = frozenset(("all", "전체", "모두", "전부"))
_EMPTY: Final[dict[Language, str]] = {
    "en": "Your watchlist is empty. Add something: {0}watch add AAPL",
    "ko": "관심 종목이 없습니다. 이렇게 추가하세요: {0}관심 추가 삼성전자",
}
_WHICH: Final[dict[Language, str]] = {
    "en": "Which one? For example: {0}watch {1} AAPL",
    "ko": "어느 종목인가요? 예: {0}관심 {1} 삼성전자",
}
_FULL: Final[dict[Language, str]] = {
    "en": "A watchlist holds {0} instruments, so nothing was added. Remove one first: {1}watch remove AAPL",
    "ko": "관심 종목은 {0}개까지 담을 수 있어 추가하지 않았습니다. 먼저 하나를 빼 주세요: {1}관심 삭제 삼성전자",
}
_COUNT: Final[dict[Language, str]] = {
    "en": "You watch {0} now; {1}watch shows their prices.",
    "ko": "지금 관심 종목은 {0}개입니다. 시세 보기: {1}관심",
}
_EMPTIED: Final[dict[Language, str]] = {"en": "It is empty now.", "ko": "이제 목록이 비었습니다."}
_VERB_KO: Final[dict[WatchVerb, str]] = {"list": "목록", "add": "추가", "remove": "삭제"}


class WatchRequest(NamedTuple):
    """A line behind `/watch`, read. A bare name adds it."""

    verb: WatchVerb
    words: str = ""


def read_watch(args: Sequence[str]) -> WatchRequest:
    """The verb stands before the names, as in English, or behind them, as in Korean."""
    words = list(args)
    for place in (0, -1):
        verb = _VERBS.get(words[place].casefold()) if words else None
        if verb is not None:
            words.pop(place)
            return WatchRequest(verb, " ".join(words))
    return WatchRequest("add", " ".join(words)) if words else WatchRequest("list")


class WatchAnswers:
    """Answers to `/watch`. In a group only the caller sees them, where the platform can do that."""

    def __init__(self, desk: WatchDesk, settle: Settle, prefix: str) -> None:
        self._desk = desk
        self._settle = settle
        self._prefix = prefix

    async def answer(self, args: Sequence[str], scope: CommandScope) -> CommandReply:
        language, wanted = scope.language, read_watch(args)
        if wanted.verb == "list":
            return await self._list(scope, language)
        if not wanted.words:
            verb = _VERB_KO[wanted.verb] if language == "ko" else wanted.verb
            return CommandReply(_WHICH[language].format(self._prefix, verb), ephemeral=_is_shared(scope))
        if wanted.verb == "remove" and wanted.words.casefold() in _ALL:
            return await self._remove(None, scope, language)
        try:
            instruments = await find_instruments(self._desk.market, self._settle, wanted.words, scope.person, language)
        except ToolError as error:
            line = f"{self._prefix}watch {wanted.verb}"
            return ask_which(error, wanted.words, language, lambda symbol: f"{line} {symbol}")
        change = self._add if wanted.verb == "add" else self._remove
        return await change(instruments, scope, language)

    async def _list(self, scope: CommandScope, language: Language) -> CommandReply:
        symbols = await self._desk.lists.symbols(scope.person)
        if not symbols:
            return CommandReply(_EMPTY[language].format(self._prefix), ephemeral=_is_shared(scope))
        watched = await load_quotes(self._desk.market, self._desk.data(), symbols)
        heading = f"**관심 종목 {watched.count}개**" if language == "ko" else f"**Your watchlist: {watched.count}**"
        quotes = list_quotes(watched.quotes, zone_of(scope.person), language)
        missing = "\n".join(describe_missing(watched, language))
        text = "\n\n".join(filter(None, (heading, quotes, missing)))
        return CommandReply(text, kind="reply", facts=watched.facts(), ephemeral=_is_shared(scope))

    async def _add(
        self, instruments: Sequence[Instrument] | None, scope: CommandScope, language: Language
    ) -> CommandReply:
        instruments = instruments or ()
        try:
            new = await self._desk.lists.add(scope.person, [each.symbol for each in instruments])
        except TooManyWatched:
            full = _FULL[language].format(MOST_WATCHED, self._prefix)
            return CommandReply(full, ephemeral=_is_shared(scope))
        added = [title_of(each, language) for each in instruments if each.symbol in new]
        known = [title_of(each, language) for each in instruments if each.symbol not in new]
        if language == "ko":
            lines = [f"관심 종목에 추가: {', '.join(added)}" if added else "", _name_titles("이미 있음", known)]
        else:
            lines = [
                f"Added to your watchlist: {', '.join(added)}" if added else "",
                _name_titles("Already there", known),
            ]
        return await self._confirm(lines, scope, language)

    async def _remove(
        self, instruments: Sequence[Instrument] | None, scope: CommandScope, language: Language
    ) -> CommandReply:
        wanted = None if instruments is None else [each.symbol for each in instruments]
        gone = await self._desk.lists.remove(scope.person, wanted)
        removed = [self._title(symbol, language) for symbol in gone]
        absent = [title_of(each, language) for each in instruments or () if each.symbol not in gone]
        if language == "ko":
            lines = [_name_titles("관심 종목에서 삭제", removed), _name_titles("목록에 없음", absent)]
        else:
            lines = [_name_titles("Removed from your watchlist", removed), _name_titles("Was not there", absent)]
        return await self._confirm(lines, scope, language)

    async def _confirm(self, lines: Sequence[str], scope: CommandScope, language: Language) -> CommandReply:
        count = len(await self._desk.lists.symbols(scope.person))
        last = _COUNT[language].format(count, self._prefix) if count else _EMPTIED[language]
        return CommandReply("\n".join([*filter(None, lines), last]), ephemeral=_is_shared(scope))

    def _title(self, symbol: str, language: Language) -> str:
        found = self._desk.market.instruments.get(symbol)
        return symbol if found is None else title_of(found, language)


def _name_titles(what: str, titles: Sequence[str]) -> str:
    return f"{what}: {', '.join(titles)}" if titles else ""


def _is_shared(scope: CommandScope) -> bool:
    return scope.inbound.chat_type != "direct"
