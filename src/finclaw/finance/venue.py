"""Trading venues and their hours: sessions, day by day, in the venue's own time."""

from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import cache
from typing import Literal

from msgspec import Struct

from finclaw.errors import ConfigError
from finclaw.finance.holidays import HOLIDAYS, OTHER_HOURS

Reason = Literal["open", "weekend", "holiday", "before_open", "after_close"]

_DAY = timedelta(days=1)
_LONGEST_BREAK = 15
"""Days without a session that are believed; Chuseok and a weekend make nine."""


class Session(Struct, frozen=True):
    """One trading day. A venue that never rests opens the next session the moment it closes one."""

    day: date
    opens: datetime
    closes: datetime


class Venue(Struct, frozen=True, kw_only=True):
    """A venue and its hours.

    `opens` may be on the eve (`eve`), as currencies do: their Monday begins on Sunday afternoon in New York.
    """

    code: str
    name_en: str
    name_ko: str
    zone: str
    opens: time
    closes: time
    weekends: bool = False
    eve: bool = False
    holidays: str = ""
    """Which table of holidays it keeps."""
    aliases: tuple[str, ...] = ()

    @property
    def tz(self) -> tzinfo:
        return zone(self.zone)

    def session(self, day: date) -> Session | None:
        """The session of that day of the venue's calendar, or None when it rests."""
        if self.rests(day) is not None:
            return None
        opens, closes = OTHER_HOURS.get((self.holidays, day), (self.opens, self.closes))
        begin, end = day - _DAY if self.eve else day, day
        if closes == time(0):  # midnight: the day's end and not its beginning
            end += _DAY
        return Session(
            day,
            datetime.combine(begin, opens, self.tz).astimezone(UTC),
            datetime.combine(end, closes, self.tz).astimezone(UTC),
        )

    def rests(self, day: date) -> str | None:
        """Why there is no session on that day: "weekend" or the holiday's name."""
        if not self.weekends and day.weekday() >= 5:
            return "weekend"
        return HOLIDAYS.get(self.holidays, {}).get(day)

    def sessions(self, after: datetime) -> Iterator[Session]:
        """From the session that is running or comes next at that moment, onward."""
        day = after.astimezone(self.tz).date() - _DAY
        while True:
            session = self.session(day)
            if session is not None and session.closes > after:
                yield session
            day += _DAY

    def past(self, moment: datetime) -> Iterator[Session]:
        """Sessions that have opened by then, the latest first."""
        day = moment.astimezone(self.tz).date() + _DAY
        while True:
            session = self.session(day)
            if session is not None and session.opens <= moment:
                yield session
            day -= _DAY


class Opening(Struct, frozen=True, kw_only=True):
    """Whether a venue is open, why not, and when that changes. `changes_at` is None where it never does."""

    venue: Venue
    reason: Reason
    holiday: str = ""
    session: Session
    """The running session or the next one."""
    changes_at: datetime | None

    @property
    def is_open(self) -> bool:
        return self.reason == "open"


def opening(venue: Venue, moment: datetime) -> Opening:
    session = next(venue.sessions(moment))
    if session.opens <= moment:
        return Opening(venue=venue, reason="open", session=session, changes_at=_end_of_run(venue, session))
    today = moment.astimezone(venue.tz).date()
    why = venue.rests(today)
    if why == "weekend" or venue.eve:
        reason: Reason = "weekend"
    elif why is not None:
        return Opening(venue=venue, reason="holiday", holiday=why, session=session, changes_at=session.opens)
    else:
        reason = "before_open" if session.day == today else "after_close"
    return Opening(venue=venue, reason=reason, session=session, changes_at=session.opens)


def _end_of_run(venue: Venue, session: Session) -> datetime | None:
    """When trading really stops: sessions that touch are one run, and a run beyond any week never ends."""
    for _ in range(_LONGEST_BREAK):
        following = next(venue.sessions(session.closes))
        if following.opens > session.closes:
            return session.closes
        session = following
    return None


@cache
def zone(name: str) -> tzinfo:
    """Raises ConfigError on a machine without a time zone database: a guessed hour is worse than no market."""
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError  # noqa: PLC0415  `cold_cpu`: 2 ms, few need it

    try:
        return ZoneInfo(name)
    except ZoneInfoNotFoundError as error:
        raise ConfigError(
            f"this machine has no time zone database ({name} is unknown), and market hours need one: install the "
            "system package tzdata, or the Python package of the same name"
        ) from error


_NEW_YORK = "America/New_York"
_US_WORDS = ("US", "USA", "US market", "US stock market", "American", "American market", "Wall Street", "New York")
_US_WORDS_KO = ("미국", "미국장", "미국 시장", "미국 증시", "미장", "뉴욕", "뉴욕 증시", "뉴욕장")

KRX = Venue(
    code="KRX",
    name_en="Korea Exchange",
    name_ko="한국거래소",
    zone="Asia/Seoul",
    opens=time(9),
    closes=time(15, 30),
    holidays="KRX",
    aliases=(
        *("Korea", "Korean", "Korean market", "Korean stock market", "Seoul", "South Korea", "KOSPI market"),
        *(
            "한국",
            "한국장",
            "한국 시장",
            "한국 증시",
            "국장",
            "국내",
            "국내장",
            "국내 증시",
            "서울",
            "코스피",
            "코스닥",
        ),
    ),
)
NYSE = Venue(
    code="NYSE",
    name_en="New York Stock Exchange",
    name_ko="뉴욕증권거래소",
    zone=_NEW_YORK,
    opens=time(9, 30),
    closes=time(16),
    holidays="NYSE",
    aliases=(*_US_WORDS, *_US_WORDS_KO, "뉴욕거래소"),
)
NASDAQ = Venue(
    code="NASDAQ",
    name_en="Nasdaq",
    name_ko="나스닥",
    zone=_NEW_YORK,
    opens=time(9, 30),
    closes=time(16),
    holidays="NYSE",
)
FX = Venue(
    code="FX",
    name_en="currency market",
    name_ko="외환시장",
    zone=_NEW_YORK,
    opens=time(17),
    closes=time(17),
    eve=True,
    aliases=("forex", "currency", "currencies", "foreign exchange", "외환", "환율 시장", "외환 시장"),
)
CRYPTO = Venue(
    code="CRYPTO",
    name_en="crypto market",
    name_ko="암호화폐 시장",
    zone="UTC",
    opens=time(0),
    closes=time(0),
    weekends=True,
    aliases=(
        "crypto currency",
        "cryptocurrency",
        "coin",
        "coins",
        "코인",
        "코인 시장",
        "암호화폐",
        "가상자산",
        "가상화폐",
    ),
)

VENUES: Mapping[str, Venue] = {venue.code: venue for venue in (KRX, NYSE, NASDAQ, FX, CRYPTO)}
