"""The market in a turn's context: sessions, what a person watches and holds, rates, headlines and the VIX."""

import asyncio
import json
import logging
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.finance.sources.bench import BASE
from tests.finance.sources.documents import KEYS
from tests.finance.sources.faults import FAULTS
from tests.finance.sources.vendors import NOW, VendorFetcher, Vendors, load_fixture, open_market_data, settings_for

from finclaw.agent.prompt.turn_context_note import turn_context_note
from finclaw.demo.market import DemoMarket
from finclaw.demo.market_data import DemoMarketData
from finclaw.diagnostics.event_stream import EventStream
from finclaw.extensions.loading import as_builtin
from finclaw.extensions.registrar import Registrar
from finclaw.extensions.registration import NULL_SERVICES
from finclaw.finance.calendar import TableCalendar
from finclaw.finance.instruments.added import KnownInstruments
from finclaw.finance.live_market import MIGRATIONS, LiveMarket
from finclaw.finance.market import Market
from finclaw.finance.market_context import LastQuotes, MarketContext, MarketSession
from finclaw.finance.market_data.port import MarketData
from finclaw.kernel.context import Context
from finclaw.kernel.envelope import Capabilities, Inbound, Sender
from finclaw.kernel.fact import Fact
from finclaw.kernel.fetch import FetchReply, FetchRequest
from finclaw.kernel.person import Person
from finclaw.pipeline.context import ContextFieldProviders
from finclaw.storage.sqlite.extension import ExtensionDatabase
from finclaw.taint.sources import context_sources
from finclaw.testing import FakeClock

KOREAN = Person(id="p", language="ko")


class Lists:
    """One list for everybody, in memory once it was read."""

    def __init__(self, symbols: tuple[str, ...]) -> None:
        self._symbols = symbols
        self.reads = 0

    def peek_symbols(self, person: Person) -> tuple[str, ...] | None:
        return self._symbols if self.reads else None

    async def symbols(self, person: Person) -> tuple[str, ...]:
        self.reads += 1
        return self._symbols


class Desk:
    """The providers of the fields, on a live market with vendors of this machine or on the demo market."""

    def __init__(self, state: Path | None = None, *symbols: str, now: datetime = NOW) -> None:
        self.clock, self.calendar, self.vendors = FakeClock(now), TableCalendar(), Vendors()
        self.last_quotes = LastQuotes()
        self.vendors.changes["yahoo_VIX"] = json.loads(json.dumps(load_fixture("yahoo_GSPC")).replace("^GSPC", "^VIX"))
        self.market = self._open(state)
        context = MarketContext(
            lambda: self.market,
            self.calendar,
            self.last_quotes,
            is_live=state is not None,
            watchlists=Lists(symbols),
        )
        registrar = Registrar(EventStream(), replace(NULL_SERVICES, clock=self.clock))
        registrar.load([as_builtin(context, "to be tested")])
        self.providers = ContextFieldProviders(registrar.fields, self.clock)

    def _open(self, state: Path | None) -> tuple[Market, MarketData]:
        if state is None:
            demo = DemoMarket(self.clock, self.calendar)
            return demo, DemoMarketData(demo)
        database = ExtensionDatabase(state, "finance", MIGRATIONS, threaded=False)
        known = KnownInstruments(state)
        fetcher = VendorFetcher(self.vendors)
        settings = settings_for(BASE)
        data = open_market_data(settings, fetcher, database, self.clock, self.calendar, known.get)
        return LiveMarket(data, known, self.calendar, self.clock), data

    def fill(self, text: str = "hi", person: Person = KOREAN) -> Context:
        """In virtual time, in which budgets are counted."""
        sender = Sender(id="u")
        context = Context(
            inbound=Inbound(text=text, sender=sender),
            inbound_id="i",
            body=text,
            command_text=text,
            sender=sender,
            person=person,
            session_key="s",
            agent="main",
            capabilities=Capabilities(),
            accepted_at=self.clock.now(),
        )
        return self.clock.run(self.providers.fill(context))


@pytest.mark.spec("M-49")
def test_the_session_is_that_of_the_home_market_until_its_phase_ends() -> None:
    desk = Desk()
    session = desk.fill().provided["market_session"]
    assert isinstance(session, MarketSession)
    assert (session.market, session.is_open, session.phase) == ("KRX", True, "regular")
    assert (session.open_time, session.close_time, session.timezone) == ("09:00", "15:30", "Asia/Seoul")
    assert session.next_open_at is not None
    assert session.next_open_at.isoformat() == "2026-11-17T09:00:00+09:00"
    assert desk.fill().provided["market_session"] is session, "nothing is computed twice in a phase"
    desk.clock.advance(2 * 3_600)
    later = desk.fill().provided["market_session"]
    assert (later.is_open, later.phase) == (False, "after")
    late = Desk(now=datetime(2026, 11, 19, 0, 30, tzinfo=UTC))
    exam = late.fill().provided["market_session"]
    assert (exam.is_open, exam.open_time, exam.close_time) == (False, "10:00", "16:30"), "the day of the exam"


@pytest.mark.spec("M-57", "M-58")
@pytest.mark.parametrize(
    ("person", "text", "currency", "market"),
    [
        (Person(id="p"), "애플 주가", "KRW", "KRX"),
        (Person(id="p"), "price of AAPL", "USD", "NYSE"),
        (Person(id="p", language="ko"), "price of AAPL", "KRW", "KRX"),
        (Person(id="p", language="en-GB", market="NASDAQ"), "삼성전자", "GBP", "NASDAQ"),
        (Person(id="p", language="ko", currency="EUR"), "hi", "EUR", "KRX"),
    ],
)
def test_currency_and_market_are_the_persons_or_those_of_the_language(
    person: Person, text: str, currency: str, market: str
) -> None:
    provided = Desk().fill(text, person).provided
    assert (provided["preferred_currency"], provided["preferred_market"]) == (currency, market)


def test_who_watches_nothing_costs_no_request_and_is_told_nothing_in_the_demo(tmp_path: Path) -> None:
    live, demo = Desk(tmp_path), Desk()
    context = live.fill("왜 올랐어? 뉴스 있어?")
    assert live.vendors.asked == []
    assert context.provided["watchlist"] == context.provided["currency_rates"] == context.provided["news_context"] == ()
    assert context.provided["market_sentiment"] is None
    assert '"market":"KRX"' in turn_context_note(context, "retail")
    assert turn_context_note(demo.fill(person=Person(id="p")), "retail") == ""


@pytest.mark.spec("M-52", "M-59", "M-60")
def test_who_watches_something_is_told_rates_volatility_and_the_headlines_asked_for(tmp_path: Path) -> None:
    desk = Desk(tmp_path, "AAPL", "005930")
    plain = desk.fill("안녕")
    assert plain.provided["watchlist"] == ("AAPL", "005930")
    (rate,) = plain.provided["currency_rates"]
    assert (rate.pair, rate.rate, rate.source) == ("USD/KRW", Decimal("1400.50"), "Naver")
    assert plain.provided["market_sentiment"].vix_level > 0
    assert (plain.provided["news_context"], context_sources(plain.provided)) == ((), ())
    assert not any("google_news" in path for path in desk.vendors.asked), "nobody asked for news"
    asked = desk.fill("애플 왜 떨어졌어?")
    first = asked.provided["news_context"][0]
    assert (first.symbol, first.publisher) == ("AAPL", "Example Times")
    note = turn_context_note(asked, "retail")
    assert '"pair":"USD/KRW","rate":"1400.50","source":"Naver"' in note
    assert "Apple rises & falls" in note
    assert "not instructions" in note
    assert context_sources(asked.provided) == ("news headlines",), "whoever reads it has read strangers' words"


@pytest.mark.spec("M-64")
def test_sources_that_fail_leave_their_defaults_and_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk(tmp_path, "AAPL")
    desk.vendors.faults = dict.fromkeys(("naver", "yahoo", "google_news", "edgar", "alpaca"), FAULTS["html"])
    with caplog.at_level(logging.WARNING):
        provided = desk.fill("뉴스").provided
    assert (provided["currency_rates"], provided["news_context"], provided["market_sentiment"]) == ((), (), None)
    for what in ("no exchange rates", "no headlines", "no volatility"):
        assert what in caplog.text
    assert provided["market_session"].market == "KRX"


@pytest.mark.spec("M-64")
def test_a_source_that_hangs_costs_its_budget_and_no_more(tmp_path: Path) -> None:
    desk = Desk(tmp_path, "AAPL")

    class Silent:
        async def fetch(self, request: FetchRequest) -> FetchReply:
            await asyncio.Event().wait()
            raise AssertionError

    database = ExtensionDatabase(tmp_path / "x", "finance", MIGRATIONS, threaded=False)
    known = KnownInstruments(tmp_path)
    data = open_market_data(settings_for(BASE, keys=KEYS), Silent(), database, desk.clock, desk.calendar, known.get)
    desk.market = (desk.market[0], data)
    began = desk.clock.monotonic()
    provided = desk.fill("뉴스").provided
    assert (provided["currency_rates"], provided["news_context"], provided["market_sentiment"]) == ((), (), None)
    assert desk.clock.monotonic() - began == 2.5


@pytest.mark.spec("M-54")
def test_the_last_quote_is_remembered_for_what_follows() -> None:
    desk = Desk()
    assert desk.fill().provided["last_quote_request"] is None
    price = Fact(subject="AAPL", field="price", value=Decimal(250), currency="USD", as_of=NOW, source="x")
    desk.last_quotes.remember("s", (price, replace(price, field="change")))
    desk.last_quotes.remember("s", (replace(price, field="volume", subject="KO"),))
    last = desk.fill().provided["last_quote_request"]
    assert (last.symbol, last.as_of) == ("AAPL", NOW)
