"""The demo market. It makes prices up, the same ones for the same seed and minute, and says so."""

from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache

from finclaw.demo.listings import DEMO_LISTINGS, Listing
from finclaw.demo.price_curve import demo_price, demo_range, demo_volume
from finclaw.errors import ToolError
from finclaw.finance.calendar import TableCalendar
from finclaw.finance.instrument import Instrument, Instruments
from finclaw.finance.market import DEMO_SOURCE, Bar, Closes, Quote
from finclaw.finance.venue import VENUES, zone
from finclaw.kernel.calendar import Calendar, Session
from finclaw.kernel.port import Clock


class DemoMarket:
    """A market whose prices are made up: the same ones for the same seed and minute."""

    def __init__(
        self,
        clock: Clock,
        calendar: Calendar | None = None,
        *,
        seed: int = 0,
        listings: Iterable[Listing] = DEMO_LISTINGS,
    ) -> None:
        self._clock = clock
        self._calendar = calendar or TableCalendar()
        self._seed = seed
        self._listings = {listing.instrument.symbol: listing for listing in listings}
        self._instruments = _index_instruments(tuple(listing.instrument for listing in self._listings.values()))
        for venue in VENUES.values():  # better at start-up than in the middle of an answer
            zone(venue.zone)

    @property
    def source(self) -> str:
        return DEMO_SOURCE

    @property
    def instruments(self) -> Instruments:
        return self._instruments

    def now(self) -> datetime:
        return self._clock.now().astimezone(UTC).replace(second=0, microsecond=0)

    async def quote(self, symbol: str) -> Quote:
        listing = self._find_listing(symbol)
        now = self.now()
        past = self._sessions(listing)
        session, before = next(past), next(past)
        as_of = min(now, session.closes)
        opening = self._calendar.opening(listing.instrument.exchange, now)
        is_coin = listing.instrument.kind == "coin"
        price = self._price(listing, as_of)
        is_over = not opening.is_open and listing.instrument.kind not in ("coin", "rate")
        return Quote(
            instrument=listing.instrument,
            price=price,
            previous_close=self._price(listing, before.closes),
            volume=demo_volume(self._seed, listing, session, as_of),
            as_of=as_of,
            opening=opening,
            source=DEMO_SOURCE,
            venue=listing.instrument.exchange,
            phase="continuous" if is_coin else "regular" if opening.is_open else "closed",
            close=price if is_over else None,
        )

    async def closes(self, symbol: str, since: date) -> Closes:
        listing = self._find_listing(symbol)
        now = self.now()
        found: list[tuple[datetime, Decimal]] = []
        for session in self._sessions(listing):
            if session.day < since:
                break
            ends = min(now, session.closes)
            found.append((ends, self._price(listing, ends)))
        return Closes(tuple(reversed(found)), DEMO_SOURCE)

    async def daily(self, symbol: str, sessions: int) -> tuple[Bar, ...]:
        return self.daily_bars(symbol, sessions)

    def daily_bars(self, symbol: str, sessions: int) -> tuple[Bar, ...]:
        """For a worker thread where there are many: a year of a coin takes seconds."""
        listing = self._find_listing(symbol)
        now = self.now()
        past = self._sessions(listing)
        latest = [next(past) for _ in range(sessions)]
        return tuple(self._bar(listing, each, each.opens, min(now, each.closes)) for each in reversed(latest))

    async def intraday(self, symbol: str, minutes: int) -> tuple[Bar, ...]:
        listing = self._find_listing(symbol)
        now = self.now()
        session = next(self._sessions(listing))
        end, step = min(now, session.closes), timedelta(minutes=minutes)
        starts = [session.opens]
        while starts[-1] + step < end:
            starts.append(starts[-1] + step)
        return tuple(self._bar(listing, session, each, min(each + step, end)) for each in starts)

    def _find_listing(self, symbol: str) -> Listing:
        listing = self._listings.get(symbol)
        if listing is None:
            raise ToolError(f"The demo market has no price for {symbol!r}. Ask for another instrument.")
        return listing

    def _sessions(self, listing: Listing) -> Iterator[Session]:
        return self._calendar.sessions_before(listing.instrument.exchange, self.now())

    def _price(self, listing: Listing, minute: datetime) -> Decimal:
        return demo_price(self._seed, listing, minute)

    def _bar(self, listing: Listing, session: Session, starts: datetime, ends: datetime) -> Bar:
        low, high = demo_range(self._seed, listing, starts, ends)
        volume = demo_volume(self._seed, listing, session, ends) - demo_volume(self._seed, listing, session, starts)
        return Bar(
            day=session.day,
            starts=starts,
            ends=ends,
            open=self._price(listing, starts),
            high=high,
            low=low,
            close=self._price(listing, ends),
            volume=volume,
        )


@lru_cache(maxsize=4)
def _index_instruments(instruments: tuple[Instrument, ...]) -> Instruments:
    """One index for all demo markets of a process: nobody changes it."""
    return Instruments(instruments)
