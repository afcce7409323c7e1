"""Output of the finance tools: records of plain lines for the model, facts for the figures.

A record is a run of `key: value` lines; a blank line ends it. A moment is a fact too: seconds since 1970 with the
unit "unix", for opening hours and holidays are figures that must not be invented either.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Final

from finclaw.finance.instrument import Instrument
from finclaw.finance.market import DEMO_SOURCE
from finclaw.finance.venue import KRX, VENUES, Venue
from finclaw.kernel.calendar import Opening
from finclaw.kernel.fact import Fact
from finclaw.kernel.person import reader_zone
from finclaw.text import Language, language_of
from finclaw.tools.control_tokens import with_last_line

UNIX = "unix"
USER = "user"  # the source of a figure that the person gave: repeated, never vouched for
CALENDAR_SOURCE = "FinClaw market calendar"
"""The source of opening hours and holidays, for the demo market too: they come from our tables and not from a feed."""


def record(lines: Mapping[str, object]) -> str:
    return "\n".join(f"{key}: {value}" for key, value in lines.items() if value is not None)


def identity(instrument: Instrument) -> dict[str, object]:
    return {
        "symbol": instrument.symbol,
        "name": instrument.name_en,
        "name_ko": instrument.name_ko,
        "exchange": instrument.exchange,
        "zone": VENUES[instrument.exchange].zone,
        "currency": instrument.currency,
        "kind": instrument.kind,
    }


def price_fact(instrument: Instrument, field: str, value: Decimal, as_of: datetime, source: str) -> Fact:
    """A price of it, or a difference of two. An index is counted in points: nobody can pay it."""
    if instrument.kind == "index":
        return plain_fact(instrument.symbol, field, value, "points", as_of, source)
    return Fact(
        subject=instrument.symbol, field=field, value=value, currency=instrument.currency, as_of=as_of, source=source
    )


def plain_fact(subject: str, field: str, value: Decimal, unit: str, as_of: datetime, source: str) -> Fact:
    """A figure that is no money: a percentage, a number of pieces."""
    return Fact(subject=subject, field=field, value=value, unit=unit, as_of=as_of, source=source)


def state(opening: Opening) -> str:
    if opening.is_open:
        return "open"
    if opening.holiday is not None:
        return f"closed ({opening.holiday.name})"
    return f"closed ({opening.reason.replace('_', ' ')})"


def minute(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="minutes")


def money(value: Decimal, currency: str) -> Decimal:
    """To the smallest coin people write: none for won and yen, cents for the rest."""
    if currency in ("KRW", "JPY"):
        return value.quantize(Decimal(1))
    return value.quantize(Decimal("0.01"))


def noon(venue: Venue, day: date) -> datetime:
    """A day as a moment: its noon there, which is the same day in every zone that trades with it but the outermost."""
    return datetime.combine(day, time(12), venue.tz)


def moment_fact(subject: str, field: str, moment: datetime, as_of: datetime, source: str) -> Fact:
    seconds = Decimal(int(moment.timestamp()))
    return Fact(subject=subject, field=field, value=seconds, unit=UNIX, as_of=as_of, source=source)


# fmt: off
PRICE_FIELDS: Final = frozenset({
    "price", "close", "rate", "result", "end", "price_in", "after_market_price", "pre_market_price",
})
# fmt: on
"""Fields of facts that somebody outside has said, and that age."""
_MOST: Final = 4
_KOREAN: Final = (
    ("unconfirmed", "미확인"),
    ("stale", "이전 시세"),
    ("change since", "등락 기준 시각"),
    ("fixing of", "고시일"),
)
EXTENDED_PHASES: Final[dict[str, dict[Language, str]]] = {
    "pre": {"en": "pre-market", "ko": "프리마켓"},
    "after": {"en": "after-market", "ko": "애프터마켓"},
}
"""Prices before and after the session have a time of their own: that of the close must not seem as late as theirs."""
_DELAYED: Final = re.compile(r"delayed (\d+) min")
_TIME: Final = re.compile(r"\d{1,2}:\d{2}")


def name_sources(reply: str, facts: Iterable[Fact], question: str, *, begun: bool = False) -> str:
    """The reply with its source line, in the reply's language; unchanged where it names its sources and a time."""
    language = language_of_reply(reply, question)
    latest: dict[tuple[str, str], datetime] = {}
    for fact in facts:
        if fact.field in PRICE_FIELDS and fact.source not in (USER, DEMO_SOURCE):
            key = (fact.source, EXTENDED_PHASES.get(fact.phase, {}).get(language, ""))
            latest[key] = max(fact.as_of, latest.get(key, fact.as_of))
    if not latest:
        return reply
    if _TIME.search(reply) and all(translate_source(source, language) in reply for source, _ in latest):
        return reply
    named = [
        ", ".join(filter(None, (translate_source(source, language), phase, _write_moment(as_of, language))))
        for (source, phase), as_of in list(latest.items())[:_MOST]
    ]
    heading = {"en": "Source", "ko": "출처"}[language]
    return with_last_line(reply, f"({heading}: {'; '.join(named)})", begun=begun)


def language_of_reply(reply: str, question: str) -> Language:
    """The question's language where the reply is figures only."""
    if any(map(str.isalpha, reply)):
        return language_of(reply)
    return language_of(question)


def translate_source(source: str, language: Language) -> str:
    """A source's label in the language of the reply; its name stays."""
    if language == "en":
        return source
    source = _DELAYED.sub(r"\1분 지연", source)
    for english, korean in _KOREAN:
        source = source.replace(english, korean)
    return source


def _write_moment(as_of: datetime, language: Language) -> str:
    if language == "en":
        return f"{as_of.astimezone(reader_zone() or UTC):%Y-%m-%d %H:%M %Z}"
    at = as_of.astimezone(reader_zone() or KRX.tz)
    zone = at.tzname()
    if zone == "KST":
        zone = "한국 시각"
    return f"{at.month}월 {at.day}일 {at:%H:%M} {zone} 기준"
