"""Quotes, changes, conversions, hours and headlines as text for people, in English and Korean: the one renderer of
commands, charts and the offline assistant. What a model reads is written by `output.py` and by the tools."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, tzinfo
from decimal import Decimal
from typing import Final, cast

from finclaw.finance.history import ChartPeriod, Period, session_day
from finclaw.finance.hours import VenueHours
from finclaw.finance.instrument import Instrument
from finclaw.finance.market import DEMO_SOURCE, ExtendedPrice, Quote
from finclaw.finance.market_data.errors import AllSourcesFailed, DataError, DataUnsupported, name_failures
from finclaw.finance.market_data.port import NewsItem
from finclaw.finance.output import CALENDAR_SOURCE, EXTENDED_PHASES, translate_source
from finclaw.finance.quote import QuoteBatch
from finclaw.finance.venue import KRX, VENUES, Venue
from finclaw.kernel.calendar import ClosedReason, Holiday
from finclaw.kernel.fact import Fact
from finclaw.numerals.write import CurrencyDisplay, format_financial_number
from finclaw.text import Language

Facts = Mapping[str, Fact]  # the facts about one subject by their field

_SOURCES_KO: Final = {DEMO_SOURCE: "데모 시장", CALENDAR_SOURCE: "FinClaw 시장 달력"}
_KINDS_KO: Final = {
    "failed": "실패",
    "not found": "종목 없음",
    "does not have it": "제공하지 않음",
    "has nothing for it": "자료 없음",
    "is behind": "최신 자료 아님",
    "was asked too often": "요청 한도 초과",
    "refused access": "접근 거부",
    "answered what cannot be read": "읽을 수 없는 응답",
    "gave a figure that cannot be right": "믿을 수 없는 값",
    "did not answer": "응답 없음",
}
"""What a source did instead of answering, by the kind of its failure."""
_PHASES: Final[dict[str, dict[Language, str]]] = {
    **EXTENDED_PHASES,
    "regular": {"en": "regular session", "ko": "정규장"},
    "closed": {"en": "market closed", "ko": "장 마감"},
    "continuous": {"en": "trades around the clock", "ko": "24시간 거래"},
    "unknown": {"en": "hours not published", "ko": "시간 미공개"},
}
_AROUND_THE_CLOCK: Final = ("coin", "rate")
_VENUES_KO: Final = {"NXT": "넥스트레이드"}
_TEXTS: Final[dict[str, dict[Language, str]]] = {
    "previous close": {"en": "previous close {}", "ko": "직전 종가 {}"},
    "base price": {"en": "from {} at {}", "ko": "기준가 {} ({})"},
    "volume": {"en": "volume {:,}", "ko": "거래량 {:,}"},
    "extended": {
        "en": "{phase}: {price}, {move} against the close ({traded})",
        "ko": "{phase}: {price}, 종가 대비 {move} ({traded})",
    },
    "as of": {"en": "as of {}", "ko": "{} 기준"},
    "source": {"en": "source: {}", "ko": "출처: {}"},
    "Source": {"en": "Source: {}", "ko": "출처: {}"},
    "unchanged": {"en": "unchanged", "ko": "변동 없음"},
    "points": {"en": " points", "ko": "포인트"},
    "stale": {
        "en": "No source answers now; this is the last price that was known.",
        "ko": "지금은 응답한 출처가 없어 마지막으로 확인된 가격입니다.",
    },
    "asked before": {"en": "Asked before: {}", "ko": "먼저 물은 출처: {}"},
    "no longer known": {"en": "no longer in our records", "ko": "더 이상 종목 목록에 없습니다"},
    "not available": {"en": "not available now.", "ko": "지금은 가져올 수 없습니다."},
    "try again": {"en": "Please try again later.", "ko": "잠시 뒤에 다시 시도해 주세요."},
    "no session": {"en": "no session yet. Last close", "ko": "아직 거래가 없습니다. 마지막 종가"},
    "no session yet": {"en": "no session yet, last close", "ko": "아직 거래 없음, 마지막 종가"},
    "comparison": {"en": "Changes, {}, best first:", "ko": "{} 등락, 높은 순:"},
    "currencies": {
        "en": "They are in different currencies and not adjusted for exchange rates.",
        "ko": "통화가 서로 다르며 환율 변동은 반영하지 않았습니다.",
    },
    "close of": {"en": "close of {}", "ko": "{} 종가"},
    "rates": {"en": "rate used {}", "ko": "적용 환율 {}"},
    "open": {"en": "open", "ko": "열림"},
    "closes at": {"en": "closes at {}", "ko": "{} 마감"},
    "never closes": {"en": "never closes", "ko": "24시간 거래"},
    "closed": {"en": "closed", "ko": "닫힘"},
    "opens at": {"en": "opens at {}", "ko": "{} 개장"},
    "opens some time": {"en": "opens at a time nobody knows", "ko": "개장 시각을 알 수 없음"},
    "no session on it": {"en": "closed", "ko": "휴장"},
    "until": {"en": "until {}", "ko": "({}까지)"},
    "hours": {"en": "Hours", "ko": "개장 시간"},
    "weekend": {"en": "weekend", "ko": "주말"},
    "before_open": {"en": "before the open", "ko": "개장 전"},
    "after_close": {"en": "after the close", "ko": "장 마감"},
    "up": {"en": "▲ up {}%", "ko": "▲ {}% 상승"},
    "down": {"en": "▼ down {}%", "ko": "▼ {}% 하락"},
    "change": {
        "en": "**{title}**, {period}: {end}, {move} ({change}) since {day}.",
        "ko": "**{title}**, {period}: {end}, {day} 대비 {move} ({change}).",
    },
    "extremes": {"en": "High {}, low {}.", "ko": "최고 {}, 최저 {}."},
    "extreme closes": {"en": "Highest close {}, lowest close {}.", "ko": "종가 기준 최고 {}, 최저 {}."},
    "news": {"en": "News", "ko": "뉴스"},
    "news about": {"en": "News about {}", "ko": "{} 뉴스"},
    "market news": {"en": "Market news", "ko": "시장 뉴스"},
    "press releases": {"en": "From the central banks", "ko": "중앙은행 발표"},
    "no news about": {"en": "There are no recent headlines about {}.", "ko": "{} 관련 최근 뉴스가 없습니다."},
    "no press releases": {"en": "There are no recent press releases.", "ko": "최근 발표가 없습니다."},
    "demo news": {"en": "Made up: no real news.", "ko": "데모 시장의 지어낸 제목입니다. 실제 뉴스가 아닙니다."},
    "real news": {
        "en": "Headlines and links alone; what they say is their publishers'.",
        "ko": "제목과 링크만 전해 드리며, 내용은 각 매체의 것입니다.",
    },
}


def describe_quote(quote: Quote, home: tzinfo | None, language: Language) -> str:
    """Markdown about one instrument. `home` is the reader's zone, if it is known, here and in all functions below."""
    return "\n".join(_quote_lines(quote, home, language))


def list_quotes(quotes: Sequence[Quote], home: tzinfo | None, language: Language) -> str:
    """One line for each of several with its time; the source stands behind each, or once where it is the same."""
    sources = {quote.source_label for quote in quotes}
    lines = [f"- {_line(quote, home, language, has_source=len(sources) > 1)}" for quote in quotes]
    if len(sources) == 1:
        lines += ["", _name_source(sources.pop(), language)]
    return "\n".join(lines)


def describe_missing(batch: QuoteBatch, language: Language) -> list[str]:
    missing = [explain_missing(title_of(each, language), error, language) for each, error in batch.missing]
    return [*missing, *(f"{symbol}: {_text('no longer known', language)}." for symbol in batch.unknown)]


def _quote_lines(quote: Quote, home: tzinfo | None, language: Language) -> Iterator[str]:
    instrument = quote.instrument
    price = write_price(instrument, quote.price, language)
    yield f"**{title_of(instrument, language)}** {price}  {write_move(quote, language)}"
    before = write_price(instrument, quote.previous_close, language)
    figures = [_text("previous close", language, before)]
    if quote.day_basis:
        figures = [_text("base price", language, before, quote.day_basis)]
    if quote.volume and instrument.kind != "index":  # an index counts no pieces, and every source its own thing
        figures.append(_text("volume", language, quote.volume))
    yield " · ".join(figures)
    yield " · ".join((*_where(quote, language), *_provenance(quote, home, language)))
    if quote.extended is not None:
        yield _describe_extended(quote, quote.extended, home, language)
    if quote.stale:
        yield _text("stale", language)
    elif quote.failed:
        yield _text("asked before", language, write_failures(quote.failed, language))


def _line(quote: Quote, home: tzinfo | None, language: Language, *, has_source: bool) -> str:
    instrument = quote.instrument
    price = write_price(instrument, quote.price, language)
    at, source = _provenance(quote, home, language)
    notes = [at]
    if instrument.kind not in _AROUND_THE_CLOCK:
        notes.insert(0, _PHASES[quote.phase][language])
    if has_source:
        notes.append(source)
    return f"**{title_of(instrument, language)}** {price} {write_move(quote, language)} · {' · '.join(notes)}"


def _where(quote: Quote, language: Language) -> Iterator[str]:
    if quote.instrument.kind not in _AROUND_THE_CLOCK:
        yield name_venue(quote.venue or quote.instrument.exchange, language)
    if quote.instrument.kind != "rate":
        yield _PHASES[quote.phase][language]


def _provenance(quote: Quote, home: tzinfo | None, language: Language) -> tuple[str, str]:
    at = write_moment(quote.as_of, zone_for(quote.instrument, home, language))
    return _text("as of", language, at), _text("source", language, write_source(quote.source_label, language))


def _describe_extended(quote: Quote, extended: ExtendedPrice, home: tzinfo | None, language: Language) -> str:
    change = quote.extended_change_percent
    move = _text("unchanged", language)
    if change:
        move = f"{_arrow(change)} {change:+,f}%"
    at = write_moment(extended.as_of, zone_for(quote.instrument, home, language))
    return _text(
        "extended",
        language,
        phase=_PHASES[extended.phase][language].capitalize(),
        price=write_price(quote.instrument, extended.price, language),
        move=move,
        traded=", ".join(filter(None, (name_venue(extended.venue, language), at))),
    )


def _text(key: str, language: Language, *values: object, **named: object) -> str:
    return _TEXTS[key][language].format(*values, **named)


def name_of(instrument: Instrument, language: Language) -> str:
    return {"en": instrument.name_en, "ko": instrument.name_ko}[language]


def title_of(instrument: Instrument, language: Language) -> str:
    """The name with its symbol: a price of the wrong company is seen at once."""
    name = name_of(instrument, language)
    if name == instrument.symbol:
        return name
    return f"{name} ({instrument.symbol})"


def name_venue(code: str, language: Language) -> str:
    venue = VENUES.get(code)
    if venue is not None:
        return {"en": venue.name_en, "ko": venue.name_ko}[language]
    if language == "ko":
        return _VENUES_KO.get(code, code)
    return code


def write_money(value: Decimal, currency: str, language: Language) -> str:
    """With the digits that the value has: those of a price are its market's, and none is added or taken away."""
    digits = max(0, -cast("int", value.as_tuple().exponent))
    display: CurrencyDisplay = "name" if language == "ko" else "symbol"
    return format_financial_number(
        value, language, currency, min_digits=digits, max_digits=digits, currency_display=display
    )


def write_price(instrument: Instrument, value: Decimal, language: Language) -> str:
    """An index is counted in points: nobody can pay it."""
    if instrument.kind == "index":
        return f"{value:,f}{_text('points', language)}"
    return write_money(value, instrument.currency, language)


def write_move(quote: Quote, language: Language) -> str:
    """A sign and a percentage with its own sign, so that nobody has to know colours."""
    if not quote.change:
        return _text("unchanged", language)
    change = write_price(quote.instrument, abs(quote.change), language)
    return f"{_arrow(quote.change)} {change} ({quote.change_percent:+,f}%)"


def _arrow(change: Decimal) -> str:
    return "▲" if change > 0 else "▼"


def zone_for(instrument: Instrument, home: tzinfo | None, language: Language) -> tzinfo:
    """The reader's own zone; where nobody has said it, Seoul for Korean, else the market's."""
    if instrument.kind in _AROUND_THE_CLOCK:
        return _reader_zone(home, language)
    return _reader_zone(home, language, VENUES[instrument.exchange].tz)


def _reader_zone(home: tzinfo | None, language: Language, elsewhere: tzinfo = UTC) -> tzinfo:
    if home is not None:
        return home
    if language == "ko":
        return KRX.tz
    return elsewhere


def write_moment(moment: datetime, where: tzinfo) -> str:
    return f"{moment.astimezone(where):%Y-%m-%d %H:%M %Z}"


def write_source(source: str, language: Language) -> str:
    if language == "en":
        return source
    return _SOURCES_KO.get(source) or translate_source(source, language)


def _name_source(source: str, language: Language) -> str:
    return _text("Source", language, write_source(source, language))


def write_failures(failed: Iterable[str], language: Language) -> str:
    """Sources that were passed over, each with what it did: `Naver did not answer`."""
    if language == "en":
        return "; ".join(failed)
    return ", ".join(map(_translate_failure, failed))


def _translate_failure(failed: str) -> str:
    for english, korean in _KINDS_KO.items():
        if failed.endswith(f" {english}"):
            return f"{failed.removesuffix(f' {english}')}({korean})"
    return failed


def explain_missing(what: str, error: DataError, language: Language) -> str:
    causes: tuple[DataError, ...] = ()
    if isinstance(error, AllSourcesFailed):
        causes = error.causes
    elif error.source:
        causes = (error,)
    parts = [f"{what}: {_text('not available', language)}"]
    if why := write_failures(name_failures(each for each in causes if each.source), language):
        parts.append(f"{why}.")
    if not causes or not all(isinstance(each, DataUnsupported) for each in causes):
        parts.append(_text("try again", language))
    return " ".join(parts)


PERIOD_NAMES: Final[Mapping[Period | ChartPeriod, Mapping[Language, str]]] = {
    "day": {"en": "latest session", "ko": "최근 거래일"},
    "yesterday": {"en": "the session before today", "ko": "전 거래일"},
    "week": {"en": "past week", "ko": "최근 일주일"},
    "month": {"en": "past month", "ko": "최근 한 달"},
    "quarter": {"en": "past quarter", "ko": "최근 한 분기"},
    "year": {"en": "past year", "ko": "최근 1년"},
    "this_week": {"en": "this week", "ko": "이번 주"},
    "last_week": {"en": "last week", "ko": "지난주"},
    "this_month": {"en": "this month", "ko": "이번 달"},
    "last_month": {"en": "last month", "ko": "지난달"},
    "this_quarter": {"en": "this quarter", "ko": "이번 분기"},
    "last_quarter": {"en": "last quarter", "ko": "지난 분기"},
    "year_to_date": {"en": "this year", "ko": "올해"},
    "last_year": {"en": "last year", "ko": "작년"},
    "1D": {"en": "1 day", "ko": "1일"},
    "5D": {"en": "5 days", "ko": "5일"},
    "1M": {"en": "1 month", "ko": "1개월"},
    "3M": {"en": "3 months", "ko": "3개월"},
    "6M": {"en": "6 months", "ko": "6개월"},
    "1Y": {"en": "1 year", "ko": "1년"},
    "5Y": {"en": "5 years", "ko": "5년"},
    "YTD": {"en": "this year", "ko": "올해"},
}


def describe_change(
    instrument: Instrument,
    facts: Facts,
    period: str,
    home: tzinfo | None,
    language: Language,
    notes: Sequence[str] = (),
) -> str:
    """What a price did over a period that is named; by the facts of the history tool or of a chart."""
    end = facts["end"]
    provenance = " · ".join((write_provenance(instrument, end, home, language), *notes))
    if facts["start"].as_of == end.as_of:
        price = write_price(instrument, end.value, language)
        none = _text("no session", language)
        return f"**{title_of(instrument, language)}**, {period}: {none} {price}.\n{provenance}."
    change = _text(
        "change",
        language,
        title=title_of(instrument, language),
        period=period,
        end=write_price(instrument, end.value, language),
        move=write_percent_move(facts["period_change_percent"].value, language),
        change=f"{facts['period_change'].value:+,}",
        day=session_day(instrument, facts["start"].as_of),
    )
    return "\n".join((change, " ".join(filter(None, (_write_extremes(facts, language), f"{provenance}.")))))


def _write_extremes(facts: Facts, language: Language) -> str:
    """The prices really reached, where that is known; else the highest and lowest close, unless they are one."""
    key = "extremes"
    high = facts.get("high")
    low = facts.get("low")
    if high is None or low is None:
        key = "extreme closes"
        high = facts["highest_close"]
        low = facts["lowest_close"]
    if high.value == low.value:
        return ""
    return _text(key, language, f"{high.value:,}", f"{low.value:,}")


def write_percent_move(change: Decimal, language: Language) -> str:
    """A sign and a word, so that nobody has to know the colours."""
    if not change:
        return _text("unchanged", language)
    if change > 0:
        return _text("up", language, change)
    return _text("down", language, -change)


def write_provenance(instrument: Instrument, fact: Fact, home: tzinfo | None, language: Language) -> str:
    at = write_moment(fact.as_of, zone_for(instrument, home, language))
    return f"{_name_source(fact.source, language)} · {_text('as of', language, at)}"


def describe_comparison(
    moves: Sequence[tuple[Instrument, Facts]], period: str, home: tzinfo | None, language: Language
) -> str:
    lines = [_text("comparison", language, period), *(f"- {_compare_line(*move, language)}" for move in moves), ""]
    if len({instrument.currency for instrument, _ in moves}) > 1:
        lines.append(_text("currencies", language))
    instrument, facts = max(moves, key=lambda move: move[1]["end"].as_of)
    return "\n".join((*lines, write_provenance(instrument, facts["end"], home, language)))


def _compare_line(instrument: Instrument, facts: Facts, language: Language) -> str:
    start = facts["start"]
    end = facts["end"]
    first, last = (
        f"{write_price(instrument, each.value, language)} ({session_day(instrument, each.as_of)})"
        for each in (start, end)
    )
    if start.as_of == end.as_of:
        return f"**{title_of(instrument, language)}** {_text('no session yet', language)} {last}"
    move = write_percent_move(facts["period_change_percent"].value, language)
    return f"**{title_of(instrument, language)}** {move}: {first} → {last}"


def describe_close(instrument: Instrument, close: Fact, home: tzinfo | None, language: Language) -> str:
    on = _text("close of", language, session_day(instrument, close.as_of))
    price = write_price(instrument, close.value, language)
    provenance = write_provenance(instrument, close, home, language)
    return f"**{title_of(instrument, language)}**, {on}: {price}\n{provenance}"


def describe_conversion(facts: Sequence[Fact], home: tzinfo | None, language: Language) -> str:
    by_field = {fact.field: fact for fact in facts}
    amount = by_field["amount"]
    result = by_field["result"]
    given = write_money(amount.value.normalize() + 0, amount.currency or "", language)
    value = write_money(result.value, result.currency or "", language)
    at = write_moment(result.as_of, _reader_zone(home, language))
    source = _text("source", language, write_source(result.source, language))
    rates = write_rates(facts, language)
    return f"**{given} = {value}**\n{rates} · {_text('as of', language, at)} · {source}"


def write_rates(facts: Iterable[Fact], language: Language) -> str:
    rates = ", ".join(f"{fact.subject} {fact.value:,f}" for fact in facts if fact.field == "rate")
    return _text("rates", language, rates)


def describe_hours(hours: VenueHours, home: tzinfo | None, language: Language) -> str:
    opening = hours.opening
    if opening.is_open:
        parts = [_text("open", language)]
        change = "closes at"
        never = "never closes"
    else:
        parts = [f"{_text('closed', language)} ({name_rest(opening.holiday or opening.reason, language)})"]
        change = "opens at"
        never = "opens some time"
    if opening.changes_at is None:
        parts.append(_text(never, language))
    else:
        parts.append(_text(change, language, _both(opening.changes_at, hours.venue, home, language)))
    if hours.has_phase:
        phase = hours.phase
        until = _text("until", language, _both(phase.ends, hours.venue, home, language))
        parts.append(f"{name_venue(phase.venue, language)} {_PHASES[phase.name][language]} {until}")
    return f"**{name_venue(hours.venue.code, language)}** {' · '.join(parts)}"


def describe_session(
    venue: Venue,
    on: date,
    session: tuple[datetime, datetime] | None,
    note: str,
    home: tzinfo | None,
    language: Language,
) -> str:
    """Whether a venue trades on a day, and when; `note` names the holiday, or the reason for other hours."""
    line = f"**{name_venue(venue.code, language)}** {on}"
    why = f" ({note})" if note else ""
    if session is None:
        return f"{line} {_text('no session on it', language)}{why}"
    opens, closes = (_both(each, venue, home, language) for each in session)
    return f"{line}{why} · {_text('opens at', language, opens)} · {_text('closes at', language, closes)}"


def name_rest(rest: Holiday | ClosedReason, language: Language) -> str:
    if isinstance(rest, Holiday):
        return {"en": rest.name, "ko": rest.name_ko}[language]
    return _text(rest, language)


def name_calendar(as_of: datetime, home: tzinfo | None, language: Language) -> str:
    """The last line: hours come from our own tables, whatever the prices beside them come from."""
    at = _text("as of", language, write_moment(as_of, _reader_zone(home, language)))
    return f"{_text('hours', language)}: {at}, {_text('source', language, write_source(CALENDAR_SOURCE, language))}"


def _both(moment: datetime, venue: Venue, home: tzinfo | None, language: Language) -> str:
    """There, and where the reader is if that is another time."""
    there = write_moment(moment, venue.tz)
    here = write_moment(moment, _reader_zone(home, language, venue.tz))
    if there == here:
        return there
    return f"{there} ({here})"


def name_news(instrument: Instrument | None, language: Language) -> str:
    if instrument is None:
        return _text("news", language)
    return _text("news about", language, title_of(instrument, language))


def describe_news(
    instrument: Instrument | None, items: Sequence[NewsItem], home: tzinfo | None, language: Language
) -> str:
    """Title, publisher, time and link of each, to the letter and without markup. Of the whole market only central
    banks publish for everybody."""
    where = _reader_zone(home, language)
    heading = _text("press releases", language)
    origin = _text("real news", language)
    if any(each.source == DEMO_SOURCE for each in items):
        heading = _text("market news", language)
        origin = _text("demo news", language)
    if instrument is not None:
        where = zone_for(instrument, home, language)
        heading = name_news(instrument, language)
    if not items and instrument is not None:
        return _text("no news about", language, title_of(instrument, language))
    if not items:
        return _text("no press releases", language)
    blocks = [heading]
    for each in items:
        published = (write_source(each.publisher, language), write_moment(each.published_at, where))
        blocks.append(f"{each.title}\n{' · '.join(filter(None, published))}\n{each.url}")
    source = _name_source(", ".join(dict.fromkeys(each.source for each in items)), language)
    return "\n\n".join([*blocks, f"{source}. {origin}"])
