"""Figures, times and names spelled for the reader, in their language. Nothing is computed here, only rounded.

Names, kinds and zones come from our own records, by the subject of a fact: a tool's text is for models.
"""

import re
from datetime import UTC, datetime, tzinfo
from decimal import ROUND_HALF_EVEN, Decimal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from finclaw.demo.listings import DEMO_LISTINGS
from finclaw.finance.instrument import Instrument
from finclaw.finance.market import DEMO_SOURCE
from finclaw.finance.output import CALENDAR_SOURCE, translate_source
from finclaw.finance.venue import VENUES, Venue
from finclaw.kernel.fact import Fact
from finclaw.kernel.person import reader_zone
from finclaw.text import Language

_SIGNS = {"KRW": "₩", "USD": "$", "EUR": "€", "JPY": "¥", "GBP": "£"}
_UNITS_KO = {"KRW": "원", "USD": "달러", "EUR": "유로", "JPY": "엔", "GBP": "파운드"}
_SOURCES_KO = {DEMO_SOURCE: "데모 시장", CALENDAR_SOURCE: "FinClaw 시장 달력", "user": "사용자"}
_LARGE_WON = 10_000_000
"""From here on Koreans count in 만 and 억 and not in digits."""
_HOME = {"ko": "Asia/Seoul", "en": "UTC"}

_DEMO_INSTRUMENTS = {listing.instrument.symbol: listing.instrument for listing in DEMO_LISTINGS}


# ── names ───────────────────────────────────────────────────────────────────────────────────────────────────


def instrument_of(fact: Fact) -> Instrument | None:
    """What a fact is about; None for what somebody has added to the records, which is told by its symbol alone."""
    symbol = fact.subject.partition("#")[0]
    if fact.source == DEMO_SOURCE:
        return _DEMO_INSTRUMENTS.get(symbol)
    from finclaw.finance.instruments.catalogue import shipped_catalogue  # noqa: PLC0415  `cold_cpu`: not for the demo

    return shipped_catalogue().get(symbol)


def subjects_of(facts: tuple[Fact, ...], field: str) -> dict[str, dict[str, Fact]]:
    """The facts by subject and field, for every subject that has this field, in their order."""
    found: dict[str, dict[str, Fact]] = {fact.subject: {} for fact in facts if fact.field == field}
    for fact in facts:
        if fact.subject in found:
            found[fact.subject][fact.field] = fact
    return found


def title(language: Language, fact: Fact) -> str:
    """The name of what a fact is about, with its symbol."""
    symbol = fact.subject.partition("#")[0]
    return _title(language, instrument_of(fact), symbol)


def venue_title(language: Language, code: str) -> str:
    return _title(language, VENUES.get(code), code)


def _title(language: Language, known: Instrument | Venue | None, symbol: str) -> str:
    name = "" if known is None else known.name_ko if language == "ko" else known.name_en
    if not name or name == symbol:
        return symbol
    return f"{name}({symbol})" if language == "ko" else f"{name} ({symbol})"


# ── figures ─────────────────────────────────────────────────────────────────────────────────────────────────


def amount(language: Language, fact: Fact) -> str:
    """Without its sign, which the words or arrows beside it tell."""
    digits, currency = f"{abs(fact.value):,f}", fact.currency
    if currency is None:
        points = {"ko": "포인트", "en": " points"}[language] if fact.unit == "points" else ""
        return f"{digits}{points}"
    if language == "ko":
        return f"{digits}{_UNITS_KO.get(currency, ' ' + currency)}"
    sign = _SIGNS.get(currency)
    return f"{sign}{digits}" if sign else f"{digits} {currency}"


def large_amount(language: Language, fact: Fact) -> str:
    """The same, and for a Korean reader of many won the round figure they think in: 약 1,936만 원."""
    exact = amount(language, fact)
    if language != "ko" or fact.currency != "KRW" or abs(fact.value) < _LARGE_WON:
        return exact
    return f"{exact}(약 {won_in_words(abs(fact.value))})"


def won_in_words(value: Decimal) -> str:
    """Rounded to ten thousand: 1조 2,345억 6,789만 원."""
    left = int((value / 10_000).to_integral_value(ROUND_HALF_EVEN))
    parts: list[str] = []
    for size, unit in ((10**8, "조"), (10**4, "억"), (1, "만")):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count:,}{unit}")
    return " ".join(parts or ["0만"]) + " 원"


def percent(fact: Fact) -> str:
    return f"{fact.value:+,f}%"


def arrow(value: Decimal) -> str:
    return "▲" if value > 0 else "▼" if value < 0 else "보합"


def format_quantity(value: Decimal) -> str:
    """Digits without needless zeros, for the number of shares: 50, 0.05."""
    return f"{value.normalize():,f}"


# ── times ───────────────────────────────────────────────────────────────────────────────────────────────────


def home(language: Language) -> tzinfo:
    """Where the reader is, by their own zone or as far as the language tells."""
    return reader_zone() or zone(_HOME[language])


def zone(name: str) -> tzinfo:
    try:
        return UTC if name == "UTC" else ZoneInfo(name)
    except ZoneInfoNotFoundError:
        return UTC  # a machine without the database still tells a true time


def zone_of(fact: Fact) -> tzinfo:
    """Of the place where it trades."""
    known = instrument_of(fact)
    return UTC if known is None else zone(VENUES[known.exchange].zone)


def seen_at(language: Language, fact: Fact) -> str:
    """For a Korean in Seoul's time; otherwise in the time of the place where it trades."""
    if language == "ko" or reader_zone():
        return clock(fact.as_of, home(language))
    known = instrument_of(fact)
    around_the_clock = known is not None and known.kind in ("rate", "coin")
    return clock(fact.as_of, UTC if around_the_clock else zone_of(fact))


def clock(moment: datetime, where: tzinfo) -> str:
    return moment.astimezone(where).strftime("%Y-%m-%d %H:%M %Z")


def day(moment: datetime, where: tzinfo) -> str:
    return moment.astimezone(where).strftime("%Y-%m-%d")


def moment_of(fact: Fact) -> datetime:
    return datetime.fromtimestamp(int(fact.value), UTC)


def source(language: Language, name: str) -> str:
    return _SOURCES_KO.get(name) or translate_source(name, language) if language == "ko" else name


# ── Korean particles ────────────────────────────────────────────────────────────────────────────────────────

_SPOKEN_WITH_END = frozenset("013678LMNRlmnr")
"""Digits and letters whose Korean reading ends in a consonant: 영, 일, 삼, 육, 칠, 팔, 엘, 엠, 엔, 알."""


def particle(word: str, pair: str) -> str:
    """The word with the particle that fits: particle("애플", "은/는") is 애플은."""
    with_end, without = pair.split("/")
    letters = re.sub(r"\([^)]*\)$|[^\w]+$", "", word)
    last = letters[-1:] or word[-1:]
    ends = (ord(last) - 0xAC00) % 28 > 0 if "가" <= last <= "힣" else last in _SPOKEN_WITH_END
    return word + (with_end if ends else without)
