"""Market hours as a person reads them: open or closed, until when, there and where the reader is."""

from datetime import datetime
from typing import Final

from finclaw.finance.commands.quote_words import name_venue
from finclaw.finance.commands.words import write_moment, write_source
from finclaw.finance.hours import VenueHours
from finclaw.finance.output import CALENDAR_SOURCE
from finclaw.finance.venue import KRX, zone
from finclaw.kernel.calendar import ClosedReason
from finclaw.kernel.person import Person, zone_of
from finclaw.text import Language

_REASONS: Final[dict[Language, dict[ClosedReason, str]]] = {
    "en": {"weekend": "weekend", "before_open": "before the open", "after_close": "after the close"},
    "ko": {"weekend": "주말", "before_open": "개장 전", "after_close": "장 마감"},
}
_OTHERS: Final[dict[Language, dict[str, str]]] = {
    "en": {"pre": "pre-market", "after": "after-market", "unknown": "hours not published"},
    "ko": {"pre": "프리마켓", "after": "애프터마켓", "unknown": "시간 미공개"},
}


def describe_hours(hours: VenueHours, person: Person, language: Language) -> str:
    now_is, name = hours.opening, hours.venue.name_ko if language == "ko" else hours.venue.name_en
    change = _both(now_is.changes_at, hours, person, language) if now_is.changes_at else ""
    if now_is.is_open:
        words = {"en": ("open", "closes at {}", "never closes"), "ko": ("열림", "{} 마감", "24시간 거래")}[language]
    else:
        why = _reason(hours, language)
        words = {
            "en": (f"closed ({why})", "opens at {}", "opens at a time nobody knows"),
            "ko": (f"닫힘 ({why})", "{} 개장", "개장 시각을 알 수 없음"),
        }[language]
    line = f"**{name}** {words[0]} · {words[1].format(change) if change else words[2]}"
    if not hours.has_phase:
        return line
    phase = hours.phase
    until = _both(phase.ends, hours, person, language)
    told = f"{name_venue(phase.venue, language)} {_OTHERS[language][phase.name]}"
    return f"{line} · {told} ({until}까지)" if language == "ko" else f"{line} · {told} until {until}"


def name_calendar(as_of: datetime, person: Person, language: Language) -> str:
    """The last line: hours come from our own tables, whatever the prices beside them come from."""
    at, source = write_moment(as_of, zone_of(person) or KRX.tz), write_source(CALENDAR_SOURCE, language)
    if language == "ko":
        return f"개장 시간: {at} 기준, 출처: {source}"
    at = write_moment(as_of, zone_of(person) or zone("UTC"))
    return f"Hours: as of {at}, source: {source}"


def _reason(hours: VenueHours, language: Language) -> str:
    holiday = hours.opening.holiday
    if holiday is not None:
        return holiday.name_ko if language == "ko" else holiday.name
    return _REASONS[language].get(hours.opening.reason, hours.opening.reason)


def _both(moment: datetime, hours: VenueHours, person: Person, language: Language) -> str:
    """There, and where the reader is if that is another time."""
    home = zone_of(person) or (KRX.tz if language == "ko" else hours.venue.tz)
    there, here = write_moment(moment, hours.venue.tz), write_moment(moment, home)
    return there if there == here else f"{there} ({here})"
