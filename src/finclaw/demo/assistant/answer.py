"""Answers from the facts of results, in the words of the slash commands."""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

import msgspec

from finclaw.demo.assistant.patterns import Question
from finclaw.demo.assistant.phrases import PHRASES
from finclaw.demo.assistant.plan import EXAM_LIMIT, Exchange, multiply, offer_of, split_call
from finclaw.demo.listings import DEMO_LISTINGS
from finclaw.finance import resolve, words
from finclaw.finance.calendar import TableCalendar
from finclaw.finance.hours import load_hours
from finclaw.finance.instrument import Instrument, key_of
from finclaw.finance.market import DEMO_SOURCE
from finclaw.finance.market_data.port import NewsItem
from finclaw.finance.quote import read_quote
from finclaw.finance.venue import KRX, VENUES, Venue
from finclaw.kernel.fact import Fact
from finclaw.kernel.message import ToolCall, ToolResult
from finclaw.kernel.person import reader_zone
from finclaw.text import Language

_DEMO: Final = {listing.instrument.symbol: listing.instrument for listing in DEMO_LISTINGS}
_CALENDAR: Final = TableCalendar()
_UNCERTAIN: Final = {each.__name__: each for each in (resolve.AmbiguousName, resolve.UnknownName, resolve.DelistedName)}
_MOST_WORDS: Final = 3
"""A longer text that no instrument goes by is not a name."""


def answer(language: Language, question: Question | None, now: Exchange) -> str:
    """What the results say, a paragraph for each call in the order in which they were made."""
    paragraphs: list[str] = []
    for call in now.calls:
        result = now.result_of(call)
        if product := multiply(question, call, now):
            paragraphs.append(_write_product(language, question, now.result_of(product), result))
        if result is None:
            paragraphs.append(PHRASES["unfinished"][language])
        elif result.status != "ok" and not split_call(call, now):
            paragraphs.append(_explain_failure(language, question, now.text, result))
        elif result.status == "ok" and call.name in _WRITERS:
            try:
                paragraphs.append(_WRITERS[call.name](language, call, result))
            except (KeyError, IndexError, StopIteration, ValueError):  # a tool of another make may give less than ours
                paragraphs.append(PHRASES["error"][language])
    return "\n\n".join(paragraphs) or PHRASES["unfinished"][language]


def _explain_failure(language: Language, question: Question | None, text: str, result: ToolResult) -> str:
    if result.error is None:
        return PHRASES.get(result.status, PHRASES["error"])[language]
    name = result.error.name
    detail = result.error.suggestion or ""
    asked, similar = offer_of(result)
    if name == "UnknownName":
        size = len(asked.split())
        is_all = (question is None or question.is_bare) and len(text.split()) > 1
        has_more = size > 1 and any(key_of(each) in key_of(asked) for row in similar for each in row)
        if size > _MOST_WORDS or is_all or has_more:
            return PHRASES["not understood"][language]
    if name in ("OnlyOne", "SameCurrency", "InvalidArguments"):
        return PHRASES["not understood"][language]
    if name in _UNCERTAIN:
        reply = resolve.ask_which(_UNCERTAIN[name]("", suggestion=detail), detail.split("\n")[0], language, str)
        return "\n".join((reply.text, *(f"• {action.label}" for action in reply.actions)))
    if name == "AllSourcesFailed":
        detail = words.write_failures(detail.split("; "), language)
    return PHRASES.get(name, PHRASES.get(result.status, PHRASES["error"]))[language].format(detail)


def _instrument_of(fact: Fact) -> Instrument:
    """What a fact is about; for what somebody has added to the records, its symbol alone."""
    symbol = fact.subject
    known = _DEMO.get(symbol)
    if fact.source != DEMO_SOURCE:
        from finclaw.finance.instruments.catalogue import shipped_catalogue  # noqa: PLC0415  `cold_cpu`: not for the demo

        known = shipped_catalogue().get(symbol)
    currency = fact.currency or ""
    exchange = "KRX" if currency == "KRW" else "NYSE"
    return known or Instrument(symbol=symbol, exchange=exchange, name_en=symbol, name_ko=symbol, currency=currency)


def _by_subject(result: ToolResult, field: str) -> dict[str, dict[str, Fact]]:
    """The facts by subject and field, for every subject that has this field, in their order."""
    subjects = dict.fromkeys(fact.subject for fact in result.facts if fact.field == field)
    return {each: {fact.field: fact for fact in result.facts if fact.subject == each} for each in subjects}


def _money(fact: Fact, language: Language) -> str:
    return words.write_money(fact.value, fact.currency or "", language)


def _write_quote(language: Language, call: ToolCall, result: ToolResult) -> str:
    facts = {fact.field: fact for fact in result.facts}
    text = words.describe_quote(read_quote(result.facts, _instrument_of(facts["price"])), reader_zone(), language)
    if "price_in" not in facts:
        return text
    return f"{text}\n= **{_money(facts['price_in'], language)}** · {words.write_rates(result.facts, language)}"


def _write_product(
    language: Language, question: Question | None, result: ToolResult | None, quoted: ToolResult | None
) -> str:
    """So many pieces at one price: the calculator's figure in the currency of the price."""
    facts = {fact.field: fact for fact in quoted.facts} if quoted else {}
    price = facts.get("price_in") or facts.get("price")
    if result is None or result.status != "ok" or question is None or price is None:
        return PHRASES["unfinished"][language]
    if price.currency is None:  # an index is counted in points
        return PHRASES["not understood"][language]
    total = words.write_money(result.facts[0].value + 0 * price.value, price.currency, language)
    return f"**{question.slots['quantity']} × {_money(price, language)} = {total}**"


def _write_history(language: Language, call: ToolCall, result: ToolResult) -> str:
    facts = {fact.field: fact for fact in result.facts}
    if "start" not in facts:
        return words.describe_close(_instrument_of(facts["close"]), facts["close"], reader_zone(), language)
    period = words.PERIOD_NAMES[call.args.get("period", "month")][language]
    text = words.describe_change(_instrument_of(facts["start"]), facts, period, reader_zone(), language)
    points = [fact.value for fact in result.facts if fact.field == "chart_point"]
    if not points:
        return text
    from finclaw.finance.charts.chart import sparkline  # noqa: PLC0415  `cold_cpu`: for charts alone

    return f"{text}\n`{sparkline(points)}`"


def _write_comparison(language: Language, call: ToolCall, result: ToolResult) -> str:
    moves = [(_instrument_of(facts["start"]), facts) for facts in _by_subject(result, "start").values()]
    period = words.PERIOD_NAMES[call.args.get("period", "month")][language]
    return words.describe_comparison(moves, period, reader_zone(), language)


def _write_watchlist(language: Language, call: ToolCall, result: ToolResult) -> str:
    watched = [facts["price"] for facts in _by_subject(result, "previous_close").values()]
    quotes = [read_quote(result.facts, _instrument_of(price)) for price in watched]
    return words.list_quotes(quotes, reader_zone(), language) if quotes else PHRASES["empty"][language]


def _write_portfolio(language: Language, call: ToolCall, result: ToolResult) -> str:
    lines = [PHRASES["sample"][language]]
    for facts in _by_subject(result, "quantity").values():
        title = words.title_of(_instrument_of(facts["value"]), language)
        count = f"{facts['quantity'].value.normalize():,f}"
        gain = f"{facts['gain_percent'].value:+,f}%"
        lines.append(f"- {title} × {count}: {_money(facts['value'], language)} ({gain})")
    total = next(fact for fact in result.facts if fact.field == "total")
    at = words.write_moment(total.as_of, reader_zone() or {"ko": KRX.tz, "en": UTC}[language])
    rates = words.write_rates(result.facts, language)
    return "\n".join((*lines, "", f"**{_money(total, language)}** · {rates} · {at}"))


def _write_hours(language: Language, call: ToolCall, result: ToolResult) -> str:
    lines: list[str] = []
    for code, facts in (_by_subject(result, "day") or _by_subject(result, "is_open")).items():
        venue = VENUES[code]
        if "day" in facts:
            lines.append(_write_day(language, venue, _day_of(facts["day"], venue)))
            continue
        hours = load_hours(_CALENDAR, venue, facts["is_open"].as_of)
        lines.append(words.describe_hours(hours, reader_zone(), language))
        if not (hours.opening.is_open and hours.opening.session.is_regular):
            lines.append(_write_day(language, venue, hours.opening.session.day))
    return "\n".join((*lines, words.name_calendar(result.facts[0].as_of, reader_zone(), language)))


def _write_calendar(language: Language, call: ToolCall, result: ToolResult) -> str:
    """The days of rest and those with other hours; asked about the exam, its day alone."""
    lines: list[str] = []
    for code, facts in _by_subject(result, "holidays_ahead").items():
        venue = VENUES[code]
        days = sorted(_day_of(fact, venue) for field, fact in facts.items() if field.startswith(("closed ", "opens ")))
        if call.args.get("limit") == EXAM_LIMIT:  # a year has more holidays than a tool lists
            today = facts["holidays_ahead"].as_of.astimezone(venue.tz).date()
            year = (today + timedelta(days=number) for number in range(380))
            days = [day for day in year if _is_exam(venue, day)][:1]
        lines += [_write_day(language, venue, day) for day in days]
    return "\n".join((*lines, words.name_calendar(result.facts[0].as_of, reader_zone(), language)))


def _write_day(language: Language, venue: Venue, day: date) -> str:
    session = _CALENDAR.session_on(venue.code, day)
    rest = _CALENDAR.rest_on(venue.code, day)
    note = words.name_rest(rest, language) if rest else ""
    if _is_exam(venue, day):
        note = {"en": "college entrance exam", "ko": "대학수학능력시험"}[language]
    times = (session.opens, session.closes) if session else None
    return words.describe_session(venue, day, times, note, reader_zone(), language)


def _is_exam(venue: Venue, day: date) -> bool:
    """Only on the day of the college entrance exam does Seoul close an hour late; the tables do not name it."""
    session = _CALENDAR.session_on(venue.code, day)
    return venue == KRX and session is not None and session.closes.astimezone(venue.tz).time() > KRX.closes


def _day_of(fact: Fact, venue: Venue) -> date:
    return datetime.fromtimestamp(int(fact.value), venue.tz).date()


def _write_news(language: Language, call: ToolCall, result: ToolResult) -> str:
    """The facts are the times of the headlines; their words are taken from the records of the result."""
    head, *rows = (dict(re.findall("^([a-z_]+): (.*)$", each, re.M)) for each in result.content.split("\n\n"))
    times = [{"published_at": fact.as_of} for fact in result.facts]
    items = [msgspec.convert({**row, **at}, NewsItem) for row, at in zip(rows, times, strict=True)]
    instrument = _DEMO.get(head.get("symbol", ""))
    if "symbol" in head and items:
        instrument = _instrument_of(result.facts[0])
    return words.describe_news(instrument, items, reader_zone(), language)


def _write_time(language: Language, call: ToolCall, result: ToolResult) -> str:
    """The subject of the time is the zone of the place."""
    (fact,) = result.facts
    zone = ZoneInfo(fact.subject)
    now = fact.as_of.astimezone(zone if call.args else reader_zone() or zone)
    weekday = {"en": f"{now:%A}", "ko": f"{'월화수목금토일'[now.weekday()]}요일"}[language]
    return f"{words.write_moment(now, now.tzinfo or zone)}, {weekday}"


_WRITERS: Final[Mapping[str, Callable[[Language, ToolCall, ToolResult], str]]] = {
    "market__quote": _write_quote,
    "market__history": _write_history,
    "market__chart": _write_history,
    "market__compare": _write_comparison,
    "market__hours": _write_hours,
    "market__calendar": _write_calendar,
    "market__news": _write_news,
    "fx__convert": lambda language, call, result: words.describe_conversion(result.facts, reader_zone(), language),
    "portfolio__show": _write_portfolio,
    "watch__list": _write_watchlist,
    "time__now": _write_time,
}
