"""Words of finance for people, in English and Korean: quotes, changes, conversions, market hours and headlines.

Commands, charts and the offline assistant answer with these. Nothing is computed here but the spelling of a figure.
What a model reads is written by `output.py` and by the tools.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, tzinfo
from decimal import Decimal
from typing import Final

from finclaw.finance.history import ChartPeriod, Period, session_day
from finclaw.finance.hours import VenueHours
from finclaw.finance.instrument import Instrument
from finclaw.finance.market import DEMO_SOURCE, ExtendedPrice, Phase, Quote, percent
from finclaw.finance.market_data.errors import AllSourcesFailed, DataError, DataUnsupported
from finclaw.finance.market_data.port import NewsItem
from finclaw.finance.output import CALENDAR_SOURCE, translate_source
from finclaw.finance.quote import QuoteBatch
from finclaw.finance.venue import KRX, VENUES, Venue
from finclaw.kernel.calendar import ClosedReason, Holiday
from finclaw.kernel.fact import Fact
from finclaw.numerals.write import format_financial_number
from finclaw.text import Language

Facts = Mapping[str, Fact]
"""The facts about one subject by their field."""

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
_PHASES: Final[dict[Language, dict[Phase, str]]] = {
    "en": {
        "regular": "regular session",
        "closed": "market closed",
        "pre": "pre-market",
        "after": "after-market",
        "continuous": "trades around the clock",
    },
    "ko": {
        "regular": "정규장",
        "closed": "장 마감",
        "pre": "프리마켓",
        "after": "애프터마켓",
        "continuous": "24시간 거래",
    },
}
_AROUND_THE_CLOCK: Final = ("coin", "rate")
_VENUES_KO: Final = {"NXT": "넥스트레이드", "KRX": "한국거래소"}
_EXTENDED: Final[dict[Language, str]] = {
    "en": "{phase}: {price}, {move} against the close ({traded})",
    "ko": "{phase}: {price}, 종가 대비 {move} ({traded})",
}


def describe_quote(quote: Quote, home: tzinfo | None, language: Language) -> str:
    """The answer about one instrument, in Markdown. After-market is a separate line, against the close.

    `home` is the zone of the reader, where they have said it, as in all functions below.
    """
    return "\n".join(_quote_lines(quote, home, language))


def list_quotes(quotes: Sequence[Quote], home: tzinfo | None, language: Language) -> str:
    """One line for each of several with its time; the source stands behind each, or once where it is the same."""
    sources = {quote.source_label for quote in quotes}
    lines = [f"- {_line(quote, home, language, has_source=len(sources) > 1)}" for quote in quotes]
    if len(sources) == 1:
        lines += ["", _name_source(sources.pop(), language)]
    return "\n".join(lines)


def describe_missing(batch: QuoteBatch, language: Language) -> list[str]:
    """A line for each that could not be had, with the reason."""
    gone = "더 이상 종목 목록에 없습니다" if language == "ko" else "no longer in our records"
    missing = [explain_missing(title_of(each, language), error, language) for each, error in batch.missing]
    return [*missing, *(f"{symbol}: {gone}." for symbol in batch.unknown)]


def _quote_lines(quote: Quote, home: tzinfo | None, language: Language) -> Iterator[str]:
    instrument = quote.instrument
    price, move = write_price(instrument, quote.price, language), write_move(quote, language)
    yield f"**{title_of(instrument, language)}** {price}  {move}"
    yield " · ".join(_figures(quote, language))
    yield " · ".join((*_where(quote, language), *_provenance(quote, home, language)))
    if quote.extended is not None:
        yield _describe_extended(quote, quote.extended, home, language)
    if quote.stale:
        yield (
            "지금은 응답한 출처가 없어 마지막으로 확인된 가격입니다."
            if language == "ko"
            else "No source answers now; this is the last price that was known."
        )
    if quote.failed and not quote.stale:
        failed = write_failures(quote.failed, language)
        yield f"먼저 물은 출처: {failed}" if language == "ko" else f"Asked before: {failed}"


def _figures(quote: Quote, language: Language) -> Iterator[str]:
    before = write_price(quote.instrument, quote.previous_close, language)
    if quote.day_basis:
        yield f"기준가 {before} ({quote.day_basis})" if language == "ko" else f"from {before} at {quote.day_basis}"
    else:
        yield f"직전 종가 {before}" if language == "ko" else f"previous close {before}"
    if quote.volume and quote.instrument.kind != "index":  # an index counts no pieces, and every source its own thing
        yield f"거래량 {quote.volume:,}" if language == "ko" else f"volume {quote.volume:,}"


def _line(quote: Quote, home: tzinfo | None, language: Language, *, has_source: bool) -> str:
    instrument = quote.instrument
    price, move = write_price(instrument, quote.price, language), write_move(quote, language)
    at, source = _provenance(quote, home, language)
    state = "" if instrument.kind in _AROUND_THE_CLOCK else _PHASES[language][quote.phase]
    notes = " · ".join(filter(None, (state, at, source if has_source else "")))
    return f"**{title_of(instrument, language)}** {price} {move} · {notes}"


def _where(quote: Quote, language: Language) -> Iterator[str]:
    if quote.instrument.kind not in _AROUND_THE_CLOCK:
        yield name_venue(quote.venue or quote.instrument.exchange, language)
    if quote.instrument.kind != "rate":
        yield _PHASES[language][quote.phase]


def _provenance(quote: Quote, home: tzinfo | None, language: Language) -> tuple[str, str]:
    at = write_moment(quote.as_of, zone_for(quote.instrument, home, language))
    source = write_source(quote.source_label, language)
    return (f"{at} 기준", f"출처: {source}") if language == "ko" else (f"as of {at}", f"source: {source}")


def _describe_extended(quote: Quote, extended: ExtendedPrice, home: tzinfo | None, language: Language) -> str:
    change = percent(extended.price - quote.price, quote.price)
    at = write_moment(extended.as_of, zone_for(quote.instrument, home, language))
    same = "변동 없음" if language == "ko" else "unchanged"
    return _EXTENDED[language].format(
        phase=_PHASES[language][extended.phase].capitalize(),
        price=write_price(quote.instrument, extended.price, language),
        move=f"{'▲' if change > 0 else '▼'} {change:+,f}%" if change else same,
        traded=", ".join(filter(None, (name_venue(extended.venue, language), at))),
    )


# ── names, figures, times and sources ───────────────────────────────────────────────────────────────────────


def name_of(instrument: Instrument, language: Language) -> str:
    return instrument.name_ko if language == "ko" else instrument.name_en


def title_of(instrument: Instrument, language: Language) -> str:
    """The name with its symbol: a price of the wrong company is seen at once."""
    name = name_of(instrument, language)
    return name if name == instrument.symbol else f"{name} ({instrument.symbol})"


def name_venue(code: str, language: Language) -> str:
    venue = VENUES.get(code)
    if language == "ko":
        return _VENUES_KO.get(code) or (venue.name_ko if venue else code)
    return venue.name_en if venue else code


def write_money(value: Decimal, currency: str, language: Language) -> str:
    """With the digits that the value has: those of a price are its market's, and none is added or taken away."""
    exponent = value.as_tuple().exponent
    digits = max(0, -exponent) if isinstance(exponent, int) else 0
    display = "name" if language == "ko" else "symbol"
    return format_financial_number(
        value, language, currency, min_digits=digits, max_digits=digits, currency_display=display
    )


def write_price(instrument: Instrument, value: Decimal, language: Language) -> str:
    """An index is counted in points: nobody can pay it."""
    if instrument.kind == "index":
        return f"{value:,f}{'포인트' if language == 'ko' else ' points'}"
    return write_money(value, instrument.currency, language)


def write_move(quote: Quote, language: Language) -> str:
    """A sign and a percentage with its own sign, so that nobody has to know colours."""
    if not quote.change:
        return "변동 없음" if language == "ko" else "unchanged"
    arrow = "▲" if quote.change > 0 else "▼"
    return f"{arrow} {write_price(quote.instrument, abs(quote.change), language)} ({quote.change_percent:+,f}%)"


def zone_for(instrument: Instrument, home: tzinfo | None, language: Language) -> tzinfo:
    """The reader's own zone; where nobody has said it, Seoul for Korean, else the market's."""
    if home is not None:
        return home
    if language == "ko":
        return KRX.tz
    return UTC if instrument.kind in _AROUND_THE_CLOCK else VENUES[instrument.exchange].tz


def write_moment(moment: datetime, where: tzinfo) -> str:
    return f"{moment.astimezone(where):%Y-%m-%d %H:%M %Z}"


def write_source(source: str, language: Language) -> str:
    return _SOURCES_KO.get(source) or translate_source(source, language) if language == "ko" else source


def _name_source(source: str, language: Language) -> str:
    return f"{'출처' if language == 'ko' else 'Source'}: {write_source(source, language)}"


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
    """Why there is no figure. `what` is what was wanted, in the reader's language."""
    causes = error.causes if isinstance(error, AllSourcesFailed) else (error,) if error.source else ()
    why = write_failures([f"{each.source} {each.kind}" for each in causes if each.source], language)
    is_for_now = not causes or not all(isinstance(each, DataUnsupported) for each in causes)
    if language == "ko":
        again = " 잠시 뒤에 다시 시도해 주세요." if is_for_now else ""
        return f"{what}: 지금은 가져올 수 없습니다.{f' {why}.' if why else ''}{again}"
    again = " Please try again later." if is_for_now else ""
    return f"{what}: not available now.{f' {why}.' if why else ''}{again}"


# ── changes over a period ───────────────────────────────────────────────────────────────────────────────────

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
_MOVES: Final[dict[Language, tuple[str, str, str]]] = {
    "en": ("▲ up {0}%", "▼ down {0}%", "unchanged"),
    "ko": ("▲ {0}% 상승", "▼ {0}% 하락", "변동 없음"),
}
_CHANGE: Final[dict[Language, str]] = {
    "en": "**{title}**, {period}: {end}, {move} ({change}) since {day}.",
    "ko": "**{title}**, {period}: {end}, {day} 대비 {move} ({change}).",
}
_EXTREMES: Final[dict[Language, dict[str, str]]] = {
    "en": {"high": "High {}, low {}.", "highest_close": "Highest close {}, lowest close {}."},
    "ko": {"high": "최고 {}, 최저 {}.", "highest_close": "종가 기준 최고 {}, 최저 {}."},
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
        none = "아직 거래가 없습니다. 마지막 종가" if language == "ko" else "no session yet. Last close"
        return f"**{title_of(instrument, language)}**, {period}: {none} {price}.\n{provenance}."
    change = _CHANGE[language].format(
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
    high, low = ("high", "low") if "high" in facts else ("highest_close", "lowest_close")
    if facts[high].value == facts[low].value:
        return ""
    return _EXTREMES[language][high].format(f"{facts[high].value:,}", f"{facts[low].value:,}")


def write_percent_move(change: Decimal, language: Language) -> str:
    """A sign and a word, so that nobody has to know the colours."""
    up, down, still = _MOVES[language]
    if not change:
        return still
    return (up if change > 0 else down).format(abs(change))


def write_provenance(instrument: Instrument, fact: Fact, home: tzinfo | None, language: Language) -> str:
    """Who says a figure, and of when it is."""
    at = write_moment(fact.as_of, zone_for(instrument, home, language))
    source = _name_source(fact.source, language)
    return f"{source} · {at} 기준" if language == "ko" else f"{source} · as of {at}"


def describe_comparison(
    moves: Sequence[tuple[Instrument, Facts]], period: str, home: tzinfo | None, language: Language
) -> str:
    """Changes of several over the same period, in the order given: best first."""
    heads = {"en": f"Changes, {period}, best first:", "ko": f"{period} 등락, 높은 순:"}
    lines = [heads[language], *(f"- {_compare_line(*move, language)}" for move in moves)]
    if len({instrument.currency for instrument, _ in moves}) > 1:
        lines.append(
            "통화가 서로 다르며 환율 변동은 반영하지 않았습니다."
            if language == "ko"
            else "They are in different currencies and not adjusted for exchange rates."
        )
    instrument, facts = max(moves, key=lambda move: move[1]["end"].as_of)
    return "\n".join((*lines, write_provenance(instrument, facts["end"], home, language)))


def _compare_line(instrument: Instrument, facts: Facts, language: Language) -> str:
    start, end = facts["start"], facts["end"]
    prices = [
        f"{write_price(instrument, each.value, language)} ({session_day(instrument, each.as_of)})"
        for each in (start, end)
    ]
    if start.as_of == end.as_of:
        none = "아직 거래 없음, 마지막 종가" if language == "ko" else "no session yet, last close"
        return f"**{title_of(instrument, language)}** {none} {prices[1]}"
    move = write_percent_move(facts["period_change_percent"].value, language)
    return f"**{title_of(instrument, language)}** {move}: {' → '.join(prices)}"


def describe_close(instrument: Instrument, close: Fact, home: tzinfo | None, language: Language) -> str:
    """The close of one day."""
    on, price = session_day(instrument, close.as_of), write_price(instrument, close.value, language)
    what = f"{on} 종가: {price}" if language == "ko" else f"close of {on}: {price}"
    return f"**{title_of(instrument, language)}**, {what}\n{write_provenance(instrument, close, home, language)}"


# ── conversions ─────────────────────────────────────────────────────────────────────────────────────────────


def describe_conversion(facts: Sequence[Fact], home: tzinfo | None, language: Language) -> str:
    """An amount in another currency, with the rates that were used; by the facts of the conversion."""
    amount, result = (next(fact for fact in facts if fact.field == field) for field in ("amount", "result"))
    given = write_money(amount.value.normalize() + 0, amount.currency or "", language)
    value = write_money(result.value, result.currency or "", language)
    at = write_moment(result.as_of, home or (KRX.tz if language == "ko" else UTC))
    source = write_source(result.source, language)
    rates = write_rates(facts, language)
    if language == "ko":
        return f"**{given} = {value}**\n{rates} · {at} 기준 · 출처: {source}"
    return f"**{given} = {value}**\n{rates} · as of {at} · source: {source}"


def write_rates(facts: Iterable[Fact], language: Language) -> str:
    rates = ", ".join(f"{fact.subject} {fact.value:,f}" for fact in facts if fact.field == "rate")
    return f"적용 환율 {rates}" if language == "ko" else f"rate used {rates}"


# ── market hours ────────────────────────────────────────────────────────────────────────────────────────────

_REASONS: Final[dict[Language, dict[ClosedReason, str]]] = {
    "en": {"weekend": "weekend", "before_open": "before the open", "after_close": "after the close"},
    "ko": {"weekend": "주말", "before_open": "개장 전", "after_close": "장 마감"},
}
_OTHERS: Final[dict[Language, dict[str, str]]] = {
    "en": {"pre": "pre-market", "after": "after-market", "unknown": "hours not published"},
    "ko": {"pre": "프리마켓", "after": "애프터마켓", "unknown": "시간 미공개"},
}


def describe_hours(hours: VenueHours, home: tzinfo | None, language: Language) -> str:
    now_is, venue = hours.opening, hours.venue
    change = _both(now_is.changes_at, venue, home, language) if now_is.changes_at else ""
    if now_is.is_open:
        words = {"en": ("open", "closes at {}", "never closes"), "ko": ("열림", "{} 마감", "24시간 거래")}[language]
    else:
        why = name_rest(now_is.holiday or now_is.reason, language)
        words = {
            "en": (f"closed ({why})", "opens at {}", "opens at a time nobody knows"),
            "ko": (f"닫힘 ({why})", "{} 개장", "개장 시각을 알 수 없음"),
        }[language]
    name = venue.name_ko if language == "ko" else venue.name_en
    line = f"**{name}** {words[0]} · {words[1].format(change) if change else words[2]}"
    if not hours.has_phase:
        return line
    phase = hours.phase
    until = _both(phase.ends, venue, home, language)
    what = f"{name_venue(phase.venue, language)} {_OTHERS[language][phase.name]}"
    return f"{line} · {what} ({until}까지)" if language == "ko" else f"{line} · {what} until {until}"


def describe_session(
    venue: Venue,
    on: date,
    session: tuple[datetime, datetime] | None,
    note: str,
    home: tzinfo | None,
    language: Language,
) -> str:
    """Whether a venue trades on a day, and when; `note` names the holiday, or the reason for other hours."""
    name = venue.name_ko if language == "ko" else venue.name_en
    why = f" ({note})" if note else ""
    if session is None:
        return f"**{name}** {on} {'휴장' if language == 'ko' else 'closed'}{why}"
    opens, closes = (_both(each, venue, home, language) for each in session)
    if language == "ko":
        return f"**{name}** {on}{why} · {opens} 개장 · {closes} 마감"
    return f"**{name}** {on}{why} · opens at {opens} · closes at {closes}"


def name_rest(rest: Holiday | ClosedReason, language: Language) -> str:
    """Why a venue is closed."""
    if isinstance(rest, Holiday):
        return rest.name_ko if language == "ko" else rest.name
    return _REASONS[language].get(rest, rest)


def name_calendar(as_of: datetime, home: tzinfo | None, language: Language) -> str:
    """The last line: hours come from our own tables, whatever the prices beside them come from."""
    source = write_source(CALENDAR_SOURCE, language)
    if language == "ko":
        return f"개장 시간: {write_moment(as_of, home or KRX.tz)} 기준, 출처: {source}"
    return f"Hours: as of {write_moment(as_of, home or UTC)}, source: {source}"


def _both(moment: datetime, venue: Venue, home: tzinfo | None, language: Language) -> str:
    """There, and where the reader is if that is another time."""
    reader = home or (KRX.tz if language == "ko" else venue.tz)
    there, here = write_moment(moment, venue.tz), write_moment(moment, reader)
    return there if there == here else f"{there} ({here})"


# ── headlines ───────────────────────────────────────────────────────────────────────────────────────────────

_NEWS: Final[dict[Language, dict[str, str]]] = {
    "en": {
        "about": "News about {}",
        "market": "Market news",
        "banks": "From the central banks",
        "none about": "There are no recent headlines about {}.",
        "none": "There are no recent press releases.",
        "demo": "Made up: no real news.",
        "real": "Headlines and links alone; what they say is their publishers'.",
    },
    "ko": {
        "about": "{} 뉴스",
        "market": "시장 뉴스",
        "banks": "중앙은행 발표",
        "none about": "{} 관련 최근 뉴스가 없습니다.",
        "none": "최근 발표가 없습니다.",
        "demo": "데모 시장의 지어낸 제목입니다. 실제 뉴스가 아닙니다.",
        "real": "제목과 링크만 전해 드리며, 내용은 각 매체의 것입니다.",
    },
}


def describe_news(
    instrument: Instrument | None, items: Sequence[NewsItem], home: tzinfo | None, language: Language
) -> str:
    """Title, publisher, time and link of each, to the letter and without markup. Of the whole market only central
    banks publish for everybody."""
    texts, about = _NEWS[language], title_of(instrument, language) if instrument else ""
    if not items:
        return texts["none about"].format(about) if about else texts["none"]
    is_demo = any(each.source == DEMO_SOURCE for each in items)
    heading = texts["about"].format(about) if about else texts["market" if is_demo else "banks"]
    where = home or (KRX.tz if language == "ko" else UTC)
    if instrument is not None:
        where = zone_for(instrument, home, language)
    blocks = [_describe_item(each, where, language) for each in items]
    source = _name_source(", ".join(dict.fromkeys(each.source for each in items)), language)
    return "\n\n".join([heading, *blocks, f"{source}. {texts['demo' if is_demo else 'real']}"])


def _describe_item(item: NewsItem, where: tzinfo, language: Language) -> str:
    published = (write_source(item.publisher, language), write_moment(item.published_at, where))
    return f"{item.title}\n{' · '.join(filter(None, published))}\n{item.url}"
