"""Context of a turn about markets: sessions, watched and held instruments, rates, headlines, volatility.

What the calendar and the person's own words say is computed for every turn. What a source must be asked for is asked
only for somebody who watches or holds something, within a budget of its own; late or failed it is its default (M-64).
"""

import logging
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final, Protocol

from msgspec import Struct

from finclaw.finance.instrument import Instrument
from finclaw.finance.market import Market, Quote
from finclaw.finance.market_data.errors import DataError
from finclaw.finance.market_data.port import MarketData
from finclaw.finance.venue import VENUES, zone
from finclaw.kernel.calendar import Calendar
from finclaw.kernel.context import Context
from finclaw.kernel.extension import ExtensionApi
from finclaw.kernel.fact import Fact
from finclaw.kernel.person import Person
from finclaw.text import language_of

_CURRENCIES: Final = {"ko": "KRW", "ja": "JPY", "en-GB": "GBP", "de": "EUR", "fr": "EUR", "es": "EUR", "it": "EUR"}
_HOME_MARKETS: Final = {"ko": "KRX"}
_CURRENCY: Final = "USD"
_MARKET: Final = "NYSE"  # where nobody has said, and no language says it
_MOST: Final = 20
_ASKS_NEWS: Final = re.compile(r"\b(news|headlines?|why)\b|뉴스|소식|기사|왜|이유|무슨 일", re.IGNORECASE)
_MOST_IN_QUESTION: Final = 3
_HEADLINES: Final = 2  # of one instrument
_VIX: Final = "VIX"


class MarketSession(Struct, frozen=True, kw_only=True):
    market: str
    is_open: bool
    phase: str
    open_time: str
    close_time: str
    timezone: str
    next_open_at: datetime | None


class RateInUse(Struct, frozen=True, kw_only=True):
    pair: str
    rate: Decimal
    as_of: datetime
    source: str


class Headline(Struct, frozen=True, kw_only=True):
    symbol: str
    title: str
    publisher: str
    published_at: datetime


class MarketSentiment(Struct, frozen=True, kw_only=True):
    """The mood of the market as far as a source has it: the VIX. Nobody publishes the others for free use."""

    vix_level: Decimal
    updated_at: datetime
    source: str
    overall: None = None
    fear_greed_index: None = None


class WatchedSymbols(Protocol):
    def peek_symbols(self, person: Person) -> tuple[str, ...] | None: ...
    async def symbols(self, person: Person) -> tuple[str, ...]: ...


class MarketContext:
    """The fields. `market` is called for persons who watch or hold something; `held` gives symbols without waiting."""

    name = "market-context"

    def __init__(
        self,
        market: Callable[[], tuple[Market, MarketData]],
        calendar: Calendar,
        last_quotes: "LastQuotes",
        *,
        is_live: bool,
        watchlists: WatchedSymbols | None = None,
        held: Callable[[Person], Sequence[str]] = lambda _: (),
    ) -> None:
        self._open_market = market
        self._calendar = calendar
        self._last_quotes = last_quotes
        self._is_live = is_live
        self._watchlists = watchlists
        self._held = held
        self._sessions: dict[str, tuple[datetime, datetime, MarketSession]] = {}
        self._now: Callable[[], datetime] = lambda: datetime.now(UTC)
        self._logger = logging.getLogger(__name__)

    def register(self, api: ExtensionApi) -> None:
        self._now = api.clock.now
        self._logger = api.logger
        context = api.context
        context.compute("preferred_currency", lambda turn: find_currency(turn.person, turn.body), default=_CURRENCY)
        context.compute("preferred_market", lambda turn: find_home_market(turn.person, turn.body), default=_MARKET)
        context.compute("market_session", self._find_session, default=None)
        context.compute("prices_are_live", lambda _: self._is_live)
        context.compute("held_instruments", lambda turn: tuple(self._held(turn.person))[:_MOST], default=())
        context.compute("last_quote_request", self._last_quotes.find, default=None)
        own = self._may_have_own
        context.provide("watchlist", self._read_watchlist, budget=1.0, default=(), when=self._may_watch)
        context.provide("currency_rates", self._read_rates, budget=1.5, default=(), when=own)
        context.provide("news_context", self._read_news, budget=2.5, default=(), when=self._asks_for_news)
        context.provide("market_sentiment", self._read_sentiment, budget=1.0, default=None, when=own)

    def _find_session(self, context: Context) -> MarketSession | None:
        """Computed anew when a phase ends; in between it is the same for everybody."""
        code = find_home_market(context.person, context.body)
        now = self._now()
        if code not in VENUES:
            return None
        begins, ends, session = self._sessions.get(code, (now, now, None))
        if session is None or not begins <= now < ends:
            phase = self._calendar.phase_at(code, now)
            ends = min(filter(None, (phase.ends, self._calendar.opening(code, now).changes_at)))
            session = self._make_session(code, now, phase.name)
            self._sessions[code] = (now, ends, session)
        return session

    def _make_session(self, code: str, now: datetime, phase: str) -> MarketSession:
        opening = self._calendar.opening(code, now)
        local = zone(self._calendar.zone(code))
        hours = opening.session
        return MarketSession(
            market=code,
            is_open=opening.is_open,
            phase=phase,
            open_time=f"{hours.opens.astimezone(local):%H:%M}",
            close_time=f"{hours.closes.astimezone(local):%H:%M}",
            timezone=self._calendar.zone(code),
            next_open_at=self._calendar.next_open(code, now).astimezone(local),
        )

    def _may_watch(self, context: Context) -> bool:
        """False for a list that is known to be empty, as most are: their turns wait for nothing."""
        return self._watchlists is not None and self._watchlists.peek_symbols(context.person) != ()

    def _may_have_own(self, context: Context) -> bool:
        return bool(context.provided.get("held_instruments")) or self._may_watch(context)

    def _asks_for_news(self, context: Context) -> bool:
        if _ASKS_NEWS.search(context.body) is None:
            return False
        return context.provided.get("last_quote_request") is not None or self._may_have_own(context)

    async def _read_watchlist(self, context: Context) -> tuple[str, ...]:
        if self._watchlists is None:
            return ()
        return (await self._watchlists.symbols(context.person))[:_MOST]

    async def _own_symbols(self, context: Context) -> list[str]:
        """Held ones first: money is in them."""
        held = context.provided.get("held_instruments", ())
        return list(dict.fromkeys((*held, *(await self._read_watchlist(context)))))

    async def _read_rates(self, context: Context) -> tuple[RateInUse, ...]:
        market, data = self._open_market()
        home: str = context.provided["preferred_currency"]
        instruments = filter(None, map(market.instruments.get, await self._own_symbols(context)))
        pairs = list(dict.fromkeys(_rate_symbols(market, instruments, home)))
        if not pairs:
            return ()
        found = await data.quotes(pairs)
        return tuple(
            RateInUse(pair=symbol, rate=quote.price, as_of=quote.as_of, source=quote.source_label)
            for symbol, quote in self._without_failures(found, "exchange rates").items()
        )

    async def _read_news(self, context: Context) -> tuple[Headline, ...]:
        _, data = self._open_market()
        symbols = await self._own_symbols(context)
        if last := context.provided.get("last_quote_request"):
            symbols.insert(0, last.symbol)  # `why?` is about what was asked last
        headlines: list[Headline] = []
        for symbol in list(dict.fromkeys(symbols))[:_MOST_IN_QUESTION]:
            try:
                items = await data.news(symbol, _HEADLINES)
            except DataError as error:
                self._logger.warning("no headlines for the turn: %s", error)
                continue
            headlines += [
                Headline(symbol=symbol, title=each.title, publisher=each.publisher, published_at=each.published_at)
                for each in items[:_HEADLINES]
            ]
        return tuple(headlines)

    async def _read_sentiment(self, context: Context) -> MarketSentiment | None:
        market, data = self._open_market()
        if market.instruments.get(_VIX) is None or not await self._own_symbols(context):
            return None
        quotes = self._without_failures(await data.quotes([_VIX]), "volatility")
        latest = quotes.get(_VIX)
        if latest is None:
            return None
        return MarketSentiment(vix_level=latest.price, updated_at=latest.as_of, source=latest.source_label)

    def _without_failures(self, found: Mapping[str, Quote | DataError], what: str) -> dict[str, Quote]:
        failed = [str(each) for each in found.values() if isinstance(each, DataError)]
        if failed:
            self._logger.warning("no %s for the turn: %s", what, failed[0])
        return {symbol: each for symbol, each in found.items() if isinstance(each, Quote)}


def find_currency(person: Person, text: str) -> str:
    """The person's own currency, else that of their language, else that of the message's."""
    return person.currency or _by_language(_CURRENCIES, person, text, _CURRENCY)


def find_home_market(person: Person, text: str) -> str:
    return person.market or _by_language(_HOME_MARKETS, person, text, _MARKET)


def _by_language(known: Mapping[str, str], person: Person, text: str, otherwise: str) -> str:
    tag = person.language or language_of(text)
    return known.get(tag) or known.get(tag.partition("-")[0], otherwise)


def _rate_symbols(market: Market, instruments: Iterator[Instrument], home: str) -> Iterator[str]:
    for each in instruments:
        pairs = (f"{each.currency}/{home}", f"{home}/{each.currency}")
        known = next((pair for pair in pairs if market.instruments.get(pair) is not None), None)
        if each.currency != home and known is not None:
            yield known


_SESSIONS: Final = 10_000
_LOOK_BACK: Final = 20
"""Messages of a conversation in which the last quote is looked for after a restart."""


class LastQuoteRequest(Struct, frozen=True, kw_only=True):
    """The instrument whose price was told last, for `and in won?`. The price itself is for a tool to give again."""

    symbol: str
    as_of: datetime


class LastQuotes:
    def __init__(self) -> None:
        self._found: OrderedDict[str, LastQuoteRequest | None] = OrderedDict()

    def remember(self, session: str, facts: Sequence[Fact]) -> None:
        told = next((fact for fact in reversed(facts) if fact.field == "price"), None)
        if told is not None:
            self._keep(session, LastQuoteRequest(symbol=told.subject, as_of=told.as_of))

    def find(self, context: Context) -> LastQuoteRequest | None:
        """After a restart the end of the conversation is looked through, once."""
        session = context.session_key
        if session not in self._found:
            recent = reversed(context.transcript[-_LOOK_BACK:])
            facts = (fact for message in recent for result in message.tool_results for fact in reversed(result.facts))
            prices = (fact for fact in facts if fact.field == "price")
            requests = (LastQuoteRequest(symbol=fact.subject, as_of=fact.as_of) for fact in prices)
            self._keep(session, next(requests, None))
        return self._found[session]

    def _keep(self, session: str, request: LastQuoteRequest | None) -> None:
        self._found[session] = request
        self._found.move_to_end(session)
        while len(self._found) > _SESSIONS:
            self._found.popitem(last=False)
