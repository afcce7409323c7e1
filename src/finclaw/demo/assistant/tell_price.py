"""Prices, changes and comparisons in words. Every figure is a fact's value or time, spelled and never computed."""

from collections.abc import Mapping
from datetime import tzinfo

from finclaw.demo.assistant.clause import Clause
from finclaw.demo.assistant.wording import (
    amount,
    arrow,
    clock,
    day,
    format_quantity,
    home,
    large_amount,
    percent,
    seen_at,
    source,
    subjects_of,
    title,
    zone_of,
)
from finclaw.kernel.fact import Fact
from finclaw.kernel.message import ToolCall, ToolResult
from finclaw.text import Language

Facts = Mapping[str, Fact]

_PERIODS: Mapping[str, Mapping[Language, str]] = {
    "day": {"en": "in the latest session", "ko": "최근 거래일"},
    "yesterday": {"en": "in the session before today", "ko": "전 거래일"},
    "this_week": {"en": "this week", "ko": "이번 주"},
    "last_week": {"en": "last week", "ko": "지난주"},
    "this_month": {"en": "this month", "ko": "이번 달"},
    "last_month": {"en": "last month", "ko": "지난달"},
    "this_quarter": {"en": "this quarter", "ko": "이번 분기"},
    "last_quarter": {"en": "last quarter", "ko": "지난 분기"},
    "last_year": {"en": "last year", "ko": "작년"},
    "week": {"en": "over the past week", "ko": "최근 일주일"},
    "month": {"en": "over the past month", "ko": "최근 한 달"},
    "quarter": {"en": "over the past quarter", "ko": "최근 한 분기"},
    "year": {"en": "over the past year", "ko": "최근 한 해"},
    "year_to_date": {"en": "this year so far", "ko": "올해"},
    "1D": {"en": "in the latest session", "ko": "최근 거래일"},
    "5D": {"en": "over five sessions", "ko": "최근 5거래일"},
    "1M": {"en": "over the past month", "ko": "최근 한 달"},
    "3M": {"en": "over three months", "ko": "최근 3개월"},
    "6M": {"en": "over six months", "ko": "최근 6개월"},
    "1Y": {"en": "over the past year", "ko": "최근 1년"},
    "YTD": {"en": "this year so far", "ko": "올해"},
}
_EXTENDED: Mapping[str, Mapping[Language, str]] = {
    "pre": {"en": "Pre-market", "ko": "프리마켓"},
    "after": {"en": "After-market", "ko": "애프터마켓"},
}
_CURRENCY_KO = {"KRW": "원화", "USD": "달러", "EUR": "유로", "JPY": "엔화", "GBP": "파운드"}


def tell_quote(language: Language, call: ToolCall, result: ToolResult, clause: Clause) -> str:
    facts = {fact.field: fact for fact in result.facts}
    sentences = [_price_ko(facts) if language == "ko" else _price_en(facts)]
    sentences += [_describe_conversion(language, result.facts)] if "price_in" in facts else []
    sentences += [_volume(language, facts["volume"])] if "volume" in clause.aspects and "volume" in facts else []
    sentences.append(_note(language, facts["price"]))
    extended = (_extended(language, facts, phase) for phase in ("pre", "after") if f"{phase}_market_price" in facts)
    return "\n".join((" ".join(sentences), *extended))


def tell_history(language: Language, call: ToolCall, result: ToolResult, clause: Clause) -> str:
    facts = {fact.field: fact for fact in result.facts}
    if "close" in facts:
        return _close_of_day(language, facts["close"])
    start, end = facts["start"], facts["end"]
    name, period = title(language, start), _period_words(language, call)
    change, where = facts["period_change"], zone_of(start)
    dates = day(start.as_of, where), day(end.as_of, where)
    if start.as_of == end.as_of:
        return _no_session_yet(language, f"{name} {period}", end)
    if language == "ko":
        moved = f"{name} {period}: {amount('ko', start)}({dates[0]}) → {amount('ko', end)}({dates[1]}), "
        moved += f"{_moved_ko(change)} ({percent(facts['period_change_percent'])})."
    else:
        moved = f"{name} {_moved_en(change, facts['period_change_percent'])} {period}, "
        moved += f"from {amount('en', start)} ({dates[0]}) to {amount('en', end)} ({dates[1]})."
    if "opening" in clause.aspects and "open" in facts:
        opening = amount(language, facts["open"])
        moved = (f"시가는 {opening}입니다. " if language == "ko" else f"It opened at {opening}. ") + moved
    return " ".join((moved, *_extremes(language, facts), _note(language, end)))


def tell_chart(language: Language, call: ToolCall, result: ToolResult, clause: Clause) -> str:
    """What the picture shows; where there is none, with its shape in a line of characters."""
    told = tell_history(language, call, result, clause)
    points = [fact.value for fact in result.facts if fact.field == "chart_point"]
    if not points:
        return told
    from finclaw.finance.charts.chart import sparkline  # noqa: PLC0415  `cold_cpu`: for charts alone

    return f"{told}\n`{sparkline(points)}`"


def tell_comparison(language: Language, call: ToolCall, result: ToolResult, clause: Clause) -> str:
    rows = [_row(language, mine) for mine in subjects_of(result.facts, "start").values()]
    ends = [fact for fact in result.facts if fact.field == "end"]
    latest = max(ends, key=lambda fact: fact.as_of)
    words = _period_words(language, call)
    mixed = len({fact.currency for fact in ends}) > 1
    if language == "ko":
        head = f"{words} 등락을 높은 순으로 비교했습니다."
        head += " 통화가 서로 달라 환율 변동은 반영하지 않았습니다." if mixed else ""
    else:
        head = f"Changes {words}, best first."
        head += " They are in different currencies and not adjusted for exchange rates." if mixed else ""
    return "\n".join((head, *rows, _note(language, latest, home("en") if language == "en" else None)))


def _row(language: Language, mine: Facts) -> str:
    start, end, share = mine["start"], mine["end"], mine["period_change_percent"]
    where = zone_of(start)
    dates = day(start.as_of, where), day(end.as_of, where)
    if start.as_of == end.as_of:
        none = "아직 거래 없음, 마지막 종가" if language == "ko" else "no session yet, last close"
        return f"• {title(language, start)}: {none} {amount(language, end)} ({dates[1]})"
    arrowed = f"{arrow(share.value)} " if language == "ko" else ""
    return (
        f"• {title(language, start)}: {arrowed}{percent(share)}, "
        f"{amount(language, start)} ({dates[0]}) → {amount(language, end)} ({dates[1]})"
    )


# ── pieces ──────────────────────────────────────────────────────────────────────────────────────────────────


def _period_words(language: Language, call: ToolCall) -> str:
    usual = "6M" if call.name == "market__chart" else "month"
    period = str(call.args.get("period") or usual)
    return _PERIODS.get(period, {"en": "over that time", "ko": "해당 기간"})[language]


def _price_en(facts: Facts) -> str:
    price = facts["price"]
    is_at = "closed at" if price.phase == "closed" else "is at"
    return f"{title('en', price)} {is_at} {amount('en', price)}{_change_en(facts)}."


def _price_ko(facts: Facts) -> str:
    price = facts["price"]
    what = "종가는" if price.phase == "closed" else "현재가는"
    return f"{title('ko', price)} {what} {amount('ko', price)}입니다.{_change_ko(facts)}"


def _change_en(facts: Facts) -> str:
    if not {"change", "change_percent", "previous_close"} <= facts.keys():
        return ""
    change, close = facts["change"], amount("en", facts["previous_close"])
    before = close if change.phase == "continuous" else f"its previous close of {close}"  # a coin's day never closes
    if not change.value:
        return f", unchanged from {before}"
    direction = "up" if change.value > 0 else "down"
    return f", {direction} {amount('en', change)} ({percent(facts['change_percent'])}) from {before}"


def _change_ko(facts: Facts) -> str:
    if not {"change", "change_percent", "previous_close"} <= facts.keys():
        return ""
    change, close = facts["change"], amount("ko", facts["previous_close"])
    before = f"기준가 {close}" if change.phase == "continuous" else f"직전 종가 {close}"
    if not change.value:
        return f" {before}에서 변동이 없습니다."
    return f" {before} 대비 {_moved_ko(change)} ({percent(facts['change_percent'])})."


def _moved_ko(change: Fact) -> str:
    return f"{arrow(change.value)} {amount('ko', change)}" if change.value else arrow(change.value)


def _moved_en(change: Fact, share: Fact) -> str:
    if not change.value:
        return "did not change"
    return f"{'gained' if change.value > 0 else 'lost'} {amount('en', change)} ({percent(share)})"


def _extended(language: Language, facts: Facts, phase: str) -> str:
    """The price before or after the session, apart from the close and against it."""
    price, share = facts[f"{phase}_market_price"], facts[f"{phase}_market_change_percent"]
    name, told, seen = _EXTENDED[phase][language], amount(language, price), seen_at(language, price)
    where = f"{price.venue}, " if price.venue else ""
    if language == "ko":
        return f"{name}: {told}, 종가 대비 {percent(share)} ({where}{seen} 기준)"
    return f"{name}: {told}, {percent(share)} against the close ({where}as of {seen})"


def _close_of_day(language: Language, close: Fact) -> str:
    name, on, note = title(language, close), day(close.as_of, zone_of(close)), _note(language, close)
    if language == "ko":
        return f"{name} {on} 종가는 {amount('ko', close)}입니다. {note}"
    return f"{name} closed at {amount('en', close)} on {on}. {note}"


def _no_session_yet(language: Language, what: str, last: Fact) -> str:
    price, note = amount(language, last), _note(language, last)
    if language == "ko":
        return f"{what}: 아직 거래가 없었습니다. 마지막 종가는 {price}입니다. {note}"
    return f"{what}: no session yet. The last close is {price}. {note}"


def _extremes(language: Language, facts: Facts) -> tuple[str, ...]:
    """The prices really reached, where that is known; else the highest and lowest close, unless there was only one."""
    if "high" in facts:
        high, low = facts["high"], facts["low"]
        words = {"en": "High {}, low {}.", "ko": "고가 {}, 저가 {}."}
    else:
        high, low = facts["highest_close"], facts["lowest_close"]
        if high.value == low.value:
            return ()
        words = {"en": "Highest close {}, lowest close {}.", "ko": "종가 기준 최고 {}, 최저 {}."}
    return (words[language].format(amount(language, high), amount(language, low)),)


def _describe_conversion(language: Language, facts: tuple[Fact, ...]) -> str:
    price = next(fact for fact in facts if fact.field == "price_in")
    rates = ", ".join(f"{fact.subject} {plain_rate(fact)}" for fact in facts if fact.field == "rate")
    if language == "ko":
        currency = _CURRENCY_KO.get(price.currency or "", price.currency)
        return f"{currency} 기준 {large_amount('ko', price)}입니다(적용 환율 {rates})."
    return f"That is {amount('en', price)} (rate used: {rates})."


def plain_rate(fact: Fact) -> str:
    return f"{fact.value:,f}"


def _volume(language: Language, volume: Fact) -> str:
    return (
        f"거래량은 {format_quantity(volume.value)}입니다."
        if language == "ko"
        else f"Volume is {format_quantity(volume.value)}."
    )


def _note(language: Language, price: Fact, where: tzinfo | None = None) -> str:
    """As of when, in which state of the market, from where. The time is that of `where`, else of where it trades."""
    seen, closed = clock(price.as_of, where) if where else seen_at(language, price), price.phase == "closed"
    if language == "ko":
        state = ", 장 마감" if closed else ""
        stale = " 최신 가격이 아닐 수 있습니다." if price.stale else ""
        return f"({seen} 기준{state}, 출처: {source('ko', price.source)}){stale}"
    state = ", market closed" if closed else ""
    stale = " This price may be out of date." if price.stale else ""
    return f"(As of {seen}{state}, source: {price.source}){stale}"
