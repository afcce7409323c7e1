"""Answers of the commands, by the functions that the tools call: a command and a model say the same of the same."""

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Final, Literal, NamedTuple

from msgspec import Struct

from finclaw.errors import ToolError
from finclaw.finance import words
from finclaw.finance.convert import SameCurrency, load_conversion
from finclaw.finance.documents import news_facts
from finclaw.finance.hours import find_venues, load_hours
from finclaw.finance.instrument import Instrument
from finclaw.finance.market import Market, Quote
from finclaw.finance.market_data.errors import DataError
from finclaw.finance.market_data.port import MarketData
from finclaw.finance.quote import QuoteBatch, load_quotes
from finclaw.finance.resolve import Settle, ask_which, find_instruments
from finclaw.finance.watchlist import MOST_WATCHED, TooManyWatched, WatchDesk
from finclaw.kernel.calendar import Calendar
from finclaw.kernel.envelope import ActionButton, Capabilities
from finclaw.kernel.person import zone_of
from finclaw.kernel.port import CommandReply, CommandScope
from finclaw.numerals.find import find_figures
from finclaw.numerals.tables import find_currency
from finclaw.text import Language

MOST_PRICES: Final = 10
_HEADLINES: Final = 5
_RATES: Final = ("USD/KRW", "USD/JPY", "EUR/USD", "GBP/USD")
_OVERVIEW: Final = ("KOSPI", "KOSDAQ", "SPX", "IXIC", "USD/KRW")
_USUAL_AMOUNTS: Final = {("JPY", "KRW"): Decimal(100)}
"""In Korea the yen is quoted by the hundred."""
_HOME: Final[dict[Language, str]] = {"en": "USD", "ko": "KRW"}

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
    market: Market
    data: MarketData
    calendar: Calendar
    settle: Settle
    channel: Callable[[str], Capabilities]
    prefix: str


class MarketAnswers:
    def __init__(self, desk: CommandMarket) -> None:
        self._desk = desk

    async def answer_price(self, args: Sequence[str], scope: CommandScope) -> CommandReply:
        name = " ".join(args)
        try:
            instruments = await self._find(name, scope)
        except ToolError as error:
            return self._ask_which(error, name, scope, "price")
        symbols = [each.symbol for each in instruments[:MOST_PRICES]]
        found = await load_quotes(self._desk.market, self._desk.data, symbols)
        if len(instruments) > 1 or not found.quotes:
            return _list_reply(found, scope)
        (quote,) = found.quotes
        text = words.describe_quote(quote, zone_of(scope.person), scope.language)
        return CommandReply(text, kind="reply", facts=found.facts(), actions=self._next(quote, scope))

    async def answer_fx(self, args: Sequence[str], scope: CommandScope) -> CommandReply:
        language = scope.language
        if not args:
            return _list_reply(await self._load(_RATES), scope)
        wanted = read_fx(args)
        if wanted.left or wanted.base is None:
            shown = (wanted.left or " ".join(args))[:40]
            return CommandReply(_BAD_CURRENCY[language].format(shown, self._desk.prefix), kind="reply")
        home = scope.person.currency or _HOME[language]
        target = wanted.target or default_target(wanted.base, home)
        amount = wanted.amount or _USUAL_AMOUNTS.get((wanted.base, target), Decimal(1))
        try:
            done = await load_conversion(self._desk.market, amount, wanted.base, target)
        except SameCurrency:
            return CommandReply(_SAME_CURRENCY[language].format(target))
        except DataError as error:
            return CommandReply(words.explain_missing(f"{wanted.base}/{target}", error, language))
        except ToolError as error:
            return CommandReply(str(error))
        facts = done.facts()
        return CommandReply(
            words.describe_conversion(facts, zone_of(scope.person), language), kind="reply", facts=facts
        )

    async def answer_market(self, args: Sequence[str], scope: CommandScope) -> CommandReply:
        name = " ".join(args)
        market = self._desk.market
        try:
            venues = find_venues(market, name and await self._desk.settle(name, scope.person))
        except ToolError as error:
            return self._ask_which(error, name, scope, "market")
        home = zone_of(scope.person)
        now = market.now()
        hours = [load_hours(self._desk.calendar, each, now) for each in venues]
        lines = [words.describe_hours(each, home, scope.language) for each in hours]
        lines.append(words.name_calendar(now, home, scope.language))
        facts = [fact for each in hours for fact in each.facts()]
        if not args:
            found = await self._load(_OVERVIEW)
            if found.quotes:
                lines += ["", words.list_quotes(found.quotes, home, scope.language)]
            lines += words.describe_missing(found, scope.language)
            facts += found.facts()
        return CommandReply("\n".join(lines), kind="reply", facts=tuple(facts))

    async def answer_news(self, args: Sequence[str], scope: CommandScope) -> CommandReply:
        name = " ".join(args)
        instrument: Instrument | None = None
        if name:
            try:
                instrument = (await self._find(name, scope))[0]
            except ToolError as error:
                return self._ask_which(error, name, scope, "news")
        try:
            items = await self._desk.data.news(instrument and instrument.symbol, _HEADLINES)
        except DataError as error:
            about = words.name_news(instrument, scope.language)
            return CommandReply(words.explain_missing(about, error, scope.language))
        # To the letter: a headline is somebody else's words, and may not bring markup or control tokens.
        text = words.describe_news(instrument, items, zone_of(scope.person), scope.language)
        return CommandReply(text, facts=news_facts(instrument, items))

    async def _find(self, name: str, scope: CommandScope) -> list[Instrument]:
        return await find_instruments(self._desk.market, self._desk.settle, name, scope.person, scope.language)

    async def _load(self, symbols: Sequence[str]) -> QuoteBatch:
        known = [each for each in symbols if self._desk.market.instruments.get(each) is not None]
        return await load_quotes(self._desk.market, self._desk.data, known)

    def _ask_which(self, error: ToolError, name: str, scope: CommandScope, command: str) -> CommandReply:
        return ask_which(error, name, scope.language, lambda symbol: f"{self._desk.prefix}{command} {symbol}")

    def _next(self, quote: Quote, scope: CommandScope) -> tuple[ActionButton, ...]:
        """What people ask next, as buttons; in a chat without them it would be noise."""
        if self._desk.channel(scope.inbound.channel).buttons is None:
            return ()
        symbol = quote.instrument.symbol
        return tuple(
            ActionButton(label=label, command=f"{self._desk.prefix}{line} {symbol}")
            for label, line in _NEXT[scope.language]
        )


def _list_reply(found: QuoteBatch, scope: CommandScope) -> CommandReply:
    listed = words.list_quotes(found.quotes, zone_of(scope.person), scope.language)
    text = "\n".join(filter(None, (listed, *words.describe_missing(found, scope.language))))
    if not found.quotes:
        return CommandReply(text)
    return CommandReply(text, kind="reply", facts=found.facts())


_BETWEEN: Final = re.compile(r"[\s/,=?→]+|->")
_PARTICLES: Final = re.compile(r"(?:에서|으로|로|을|를|은|는|이|가|의)$")
_SMALL_WORDS: Final = frozenset(("to", "in", "into", "from", "환율", "환전", "rate", "?"))
_PAIR: Final = re.compile(r"([A-Za-z]{3})([A-Za-z]{3})")
_SHORTENED: Final = re.compile(r"[억조]\s?\d[\d,.]*\s?[천백십]?(?=\s?(?:[^\d,.\s천백십만억조]|$))")
"""1억 2천: spoken, 120 million; as it is written, 100,002,000."""


class FxRequest(NamedTuple):
    amount: Decimal | None = None
    base: str | None = None
    target: str | None = None
    left: str = ""  # a word that is neither, or a third currency


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
        text = f"{text[: each.start]} {text[each.end :]}"
        if each.currency:
            currencies.append(each.currency)
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
    return _SHORTENED.search(text) is not None


def _currencies_of(word: str) -> list[str]:
    for each in (word, _PARTICLES.sub("", word)):
        if found := find_currency(each):
            return [found]
    if pair := _PAIR.fullmatch(word):
        base = find_currency(pair[1])
        target = find_currency(pair[2])
        if base and target:
            return [base, target]
    return []


def default_target(base: str, home: str) -> str:
    """The person's own currency; of that itself, the one that it is mostly compared with."""
    if base != home:
        return home
    return {"KRW": "USD"}.get(home, "KRW")


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
    "ko": "어느 종목인가요? 예: {0}관심 {2} 삼성전자",
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
_HEADING: Final[dict[Language, str]] = {"en": "**Your watchlist: {0}**", "ko": "**관심 종목 {0}개**"}
_CHANGES: Final[dict[tuple[WatchVerb, bool], dict[Language, str]]] = {
    ("add", True): {"en": "Added to your watchlist", "ko": "관심 종목에 추가"},
    ("add", False): {"en": "Already there", "ko": "이미 있음"},
    ("remove", True): {"en": "Removed from your watchlist", "ko": "관심 종목에서 삭제"},
    ("remove", False): {"en": "Was not there", "ko": "목록에 없음"},
}


class WatchRequest(NamedTuple):
    verb: WatchVerb
    names: str = ""


def read_watch(args: Sequence[str]) -> WatchRequest:
    """The verb stands before the names, as in English, or behind them, as in Korean."""
    if not args:
        return WatchRequest("list")
    first, *rest = args
    if verb := _VERBS.get(first.casefold()):
        return WatchRequest(verb, " ".join(rest))
    *rest, last = args
    if verb := _VERBS.get(last.casefold()):
        return WatchRequest(verb, " ".join(rest))
    return WatchRequest("add", " ".join(args))


class WatchAnswers:
    """Answers to `/watch`. In a group only the caller sees them, where the platform can do that."""

    def __init__(self, desk: WatchDesk, settle: Settle, prefix: str) -> None:
        self._desk = desk
        self._settle = settle
        self._prefix = prefix

    async def answer(self, args: Sequence[str], scope: CommandScope) -> CommandReply:
        language = scope.language
        wanted = read_watch(args)
        if wanted.verb == "list":
            return await self._list(scope)
        if not wanted.names:
            korean = {"add": "추가", "remove": "삭제"}[wanted.verb]
            return _private(_WHICH[language].format(self._prefix, wanted.verb, korean), scope)
        if wanted.verb == "remove" and wanted.names.casefold() in _ALL:
            return await self._change("remove", None, scope)
        try:
            instruments = await find_instruments(self._desk.market, self._settle, wanted.names, scope.person, language)
        except ToolError as error:
            line = f"{self._prefix}watch {wanted.verb}"
            return ask_which(error, wanted.names, language, lambda symbol: f"{line} {symbol}")
        return await self._change(wanted.verb, [each.symbol for each in instruments], scope)

    async def _list(self, scope: CommandScope) -> CommandReply:
        language = scope.language
        symbols = await self._desk.lists.symbols(scope.person)
        if not symbols:
            return _private(_EMPTY[language].format(self._prefix), scope)
        watched = await load_quotes(self._desk.market, self._desk.data(), symbols)
        heading = _HEADING[language].format(watched.count)
        quotes = words.list_quotes(watched.quotes, zone_of(scope.person), language)
        missing = "\n".join(words.describe_missing(watched, language))
        text = "\n\n".join(filter(None, (heading, quotes, missing)))
        return CommandReply(text, kind="reply", facts=watched.facts(), ephemeral=_is_shared(scope))

    async def _change(self, verb: WatchVerb, symbols: Sequence[str] | None, scope: CommandScope) -> CommandReply:
        language = scope.language
        try:
            if verb == "remove":
                changed = await self._desk.lists.remove(scope.person, symbols)
            else:
                changed = await self._desk.lists.add(scope.person, symbols or ())
        except TooManyWatched:
            return _private(_FULL[language].format(MOST_WATCHED, self._prefix), scope)
        others = [each for each in symbols or () if each not in changed]
        lines = [
            f"{_CHANGES[verb, done][language]}: {', '.join(self._title(each, language) for each in named)}"
            for done, named in ((True, changed), (False, others))
            if named
        ]
        last = _EMPTIED[language]
        if count := len(await self._desk.lists.symbols(scope.person)):
            last = _COUNT[language].format(count, self._prefix)
        return _private("\n".join([*lines, last]), scope)

    def _title(self, symbol: str, language: Language) -> str:
        found = self._desk.market.instruments.get(symbol)
        return words.title_of(found, language) if found is not None else symbol


def _private(text: str, scope: CommandScope) -> CommandReply:
    return CommandReply(text, ephemeral=_is_shared(scope))


def _is_shared(scope: CommandScope) -> bool:
    return scope.inbound.chat_type != "direct"
