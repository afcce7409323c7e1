"""Answers from the facts of results, in the words of the slash commands."""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Final

import msgspec
from msgspec import Struct

from finclaw.demo.assistant.patterns import Question
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
EXAM_LIMIT: Final = 12
"""By this limit an answer tells a question about the exam from one about holidays."""


class Exchange(Struct, frozen=True):
    """One thing a person said, and what the tools have found about it since."""

    text: str = ""
    message_id: str = ""
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()

    def result_of(self, call: ToolCall) -> ToolResult | None:
        return next((result for result in self.results if result.call_id == call.id), None)


def answer(language: Language, question: Question | None, now: Exchange) -> str:
    """What the results say, a paragraph for each call in the order in which they were made."""
    paragraphs: list[str] = []
    for call in now.calls:
        result = now.result_of(call)
        if product_of(question, result):
            paragraphs.append(_write_product(language, question, now, result))
        if result is None:
            paragraphs.append(PHRASES["error"][language])
        elif result.status != "ok":
            paragraphs.append(_explain_failure(language, question, now.text, result))
        elif call.name in _WRITERS:
            try:
                if call.args.get("limit") == EXAM_LIMIT and _is_other_day(question, result):
                    return PHRASES["not understood"][language]
                paragraphs.append(_WRITERS[call.name](language, call, result))
            except (KeyError, IndexError, StopIteration, ValueError):  # a tool of another make may give less than ours
                paragraphs.append(PHRASES["error"][language])
    return "\n\n".join(filter(None, paragraphs)) or PHRASES["error"][language]


def offer_of(result: ToolResult | None) -> tuple[str, list[list[str]]]:
    """The name that was not certain, and what it may have meant: `symbol | name | Korean name`, a line each."""
    if result is None or result.error is None or result.error.name not in ("AmbiguousName", "UnknownName"):
        return "", []
    asked, *lines = (result.error.suggestion or "").split("\n")
    return asked, [line.split(" | ") for line in lines]


def product_of(question: Question | None, quoted: ToolResult | None) -> str:
    """What the calculator computes for "ten shares of Apple"; "" if nothing is multiplied."""
    quantity = question.slots.get("quantity", "1") if question else "1"
    price = _price_of(quoted)
    return "" if quantity == "1" or price is None else f"{quantity} * {price.value:f}"


def _price_of(quoted: ToolResult | None) -> Fact | None:
    """The price in the currency that was asked for."""
    if quoted is None or quoted.name != "market__quote":
        return None
    facts = {fact.field: fact for fact in quoted.facts}
    return facts.get("price_in") or facts.get("price")


def _explain_failure(language: Language, question: Question | None, text: str, result: ToolResult) -> str:
    if result.error is None:
        return PHRASES.get(result.status, PHRASES["error"])[language]
    name = result.error.name
    detail = result.error.suggestion or ""
    asked, similar = offer_of(result)
    if name == "SeveralNames":  # each of them has a call of its own
        return ""
    size = len(asked.split())
    is_all = asked and (question is None or question.is_bare) and len(text.split()) > 1
    has_more = size > 1 and any(key_of(each) in key_of(asked) for row in similar for each in row)
    is_sentence = name == "UnknownName" and (size > _MOST_WORDS or is_all or has_more)
    if is_sentence or name in ("OnlyOne", "SameCurrency", "InvalidArguments"):
        return PHRASES["not understood"][language]
    if name in _UNCERTAIN:
        reply = resolve.ask_which(_UNCERTAIN[name]("", suggestion=detail), detail.split("\n")[0], language, str)
        return "\n".join((reply.text, *(f"• {action.label}" for action in reply.actions)))
    if name == "AllSourcesFailed":
        detail = words.write_failures(detail.split("; "), language)
    return PHRASES.get(name, PHRASES["error"])[language].format(detail)


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
    if "price_in" in facts:
        text += f"\n= **{_money(facts['price_in'], language)}** · {words.write_rates(result.facts, language)}"
    return text


def _write_product(language: Language, question: Question | None, now: Exchange, quoted: ToolResult | None) -> str:
    """So many pieces at one price: the calculator's figure in the currency of the price."""
    price = _price_of(quoted)
    call = next((each for each in now.calls if each.args.get("expression") == product_of(question, quoted)), None)
    result = now.result_of(call) if call else None
    if result is None or result.status != "ok" or question is None or price is None:
        return PHRASES["error"][language]
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
    if points:
        from finclaw.finance.charts.chart import sparkline  # noqa: PLC0415  `cold_cpu`: for charts alone

        text += f"\n`{sparkline(points)}`"
    return text


def _write_comparison(language: Language, call: ToolCall, result: ToolResult) -> str:
    moves = [(_instrument_of(facts["start"]), facts) for facts in _by_subject(result, "start").values()]
    period = words.PERIOD_NAMES[call.args.get("period", "month")][language]
    return words.describe_comparison(moves, period, reader_zone(), language)


def _write_watchlist(language: Language, call: ToolCall, result: ToolResult) -> str:
    watched = [facts["price"] for facts in _by_subject(result, "previous_close").values()]
    quotes = [read_quote(result.facts, _instrument_of(price)) for price in watched]
    return words.list_quotes(quotes, reader_zone(), language) if quotes else PHRASES["empty"][language]


def _write_portfolio(language: Language, call: ToolCall, result: ToolResult) -> str:
    lines: list[str] = []
    for facts in _by_subject(result, "quantity").values():
        instrument = _instrument_of(facts["value"])
        count = f"{facts['quantity'].value.normalize():,f}"
        pieces = {"en": f"× {count}", "ko": count + ("개" if instrument.kind == "coin" else "주")}[language]
        percent = words.write_percent_move(facts["gain_percent"].value, language)
        gain = words.write_money(abs(facts["gain"].value), facts["gain"].currency or "", language)
        value = _money(facts["value"], language)
        lines.append(f"- {words.title_of(instrument, language)} {pieces}: {value}, {percent} ({gain})")
    total = next(fact for fact in result.facts if fact.field == "total")
    at = words.write_moment(total.as_of, reader_zone() or {"ko": KRX.tz, "en": UTC}[language])
    sums = ", ".join(_money(fact, language) for fact in result.facts if fact.field == "subtotal")
    source = words.write_source(total.source, language)
    rates = words.write_rates(result.facts, language)
    return PHRASES["portfolio"][language].format("\n".join(lines), sums, _money(total, language), rates, at, source)


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
        if call.args.get("limit") == EXAM_LIMIT:
            days = [_find_exam(result)[1]]
        lines += [_write_day(language, venue, day) for day in days]
    return "\n".join((*lines, words.name_calendar(result.facts[0].as_of, reader_zone(), language)))


def _is_other_day(question: Question | None, result: ToolResult) -> bool:
    """Whether the question says that the exam is tomorrow or this year, and the next one is not."""
    slots: Mapping[str, str] = question.slots if question else {}
    today, exam = _find_exam(result)
    is_tomorrow = exam == today + timedelta(days=1)
    return ("tomorrow" in slots and not is_tomorrow) or ("period" in slots and exam.year != today.year)


def _find_exam(result: ToolResult) -> tuple[date, date]:
    """Today in Seoul, and the day of the next exam."""
    today = result.facts[0].as_of.astimezone(KRX.tz).date()
    year = (today + timedelta(days=number) for number in range(380))
    return today, next(day for day in year if _is_exam(KRX, day))


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
    zone = reader_zone() or {"ko": KRX.tz, "en": UTC}[language]
    now = result.facts[0].as_of.astimezone(zone)
    weekday = {"en": f"{now:%A}", "ko": f"{'월화수목금토일'[now.weekday()]}요일"}[language]
    return f"{words.write_moment(now, zone)}, {weekday}"


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

EXAMPLES: Final[Mapping[Language, tuple[str, ...]]] = {
    "en": ("Apple price in won", "Compare Tesla and NVIDIA", "Is the New York market open?"),
    "ko": ("삼성전자 현재 주가 알려줘", "테슬라랑 엔비디아 비교해줘", "수능날 장 몇 시에 열어?"),
}
_QUOTED: Final = {language: ", ".join(f"“{each}”" for each in examples) for language, examples in EXAMPLES.items()}
PHRASES: Final[Mapping[str, Mapping[Language, str]]] = {
    "not understood": {
        "en": f"Sorry, I did not understand that, so I looked nothing up. These work: {_QUOTED['en']}.",
        "ko": f"죄송합니다. 이해하지 못해 조회하지 않았습니다. 이렇게 물어봐 주세요: {_QUOTED['ko']}.",
    },
    "help": {
        "en": "Hello! I tell prices, changes, charts, comparisons, conversions, market hours, news, your watchlist "
        f"and a sample portfolio: {_QUOTED['en']}. To talk freely, set `agent.model` to a real model.",
        "ko": "안녕하세요! 시세, 등락, 차트, 비교, 환율, 장 시간, 뉴스, 관심 종목과 예시 포트폴리오를 알려 드립니다: "
        f"{_QUOTED['ko']}. 자유롭게 대화하려면 `agent.model`에 실제 모델을 설정하세요.",
    },
    "thanks": {"en": "You are welcome.", "ko": "천만에요."},
    "watch": {
        "en": "To change your watchlist, write for example /watch add AAPL or /watch remove AAPL.",
        "ko": "관심 종목을 바꾸려면 /관심 추가 AAPL, /관심 삭제 AAPL처럼 입력해 주세요.",
    },
    "introduction": {"en": "(I am an offline assistant.)", "ko": "(저는 오프라인 도우미입니다.)"},
    "demo": {"en": "(I am an offline demo with {} instruments.)", "ko": "(저는 종목 {}개를 아는 오프라인 데모입니다.)"},
    "lacking": {"en": "I do not have {}.", "ko": "{} 자료는 없습니다."},
    "wordless": {"en": "There were no words in your message.", "ko": "보내신 메시지에 글이 없습니다."},
    "empty": {"en": "Your watchlist is empty.", "ko": "관심 종목이 없습니다."},
    "portfolio": {
        "en": "A sample portfolio, not your own:\n{}\n\n"
        "Sum for each currency: {}\n**Total value: {}** · {} · as of {} · source: {}",
        "ko": "예시 포트폴리오입니다. 실제 보유 종목이 아닙니다.\n{}\n\n"
        "통화별 합계: {}\n**총 평가액: {}** · {} · {} 기준 · 출처: {}",
    },
    "alerts": {"en": "I am offline and set no alerts.", "ko": "오프라인 도우미는 알림을 설정하지 않습니다."},
    "advice": {"en": "I give no advice and cannot trade.", "ko": "투자 조언이나 매매는 할 수 없습니다."},
    "denied": {"en": "I have no tool for that here.", "ko": "여기에서는 조회할 도구를 쓸 수 없습니다."},
    "awaiting": {"en": "That waits for somebody's approval.", "ko": "담당자의 승인을 기다리고 있습니다."},
    "error": {
        "en": "Sorry, that did not work, and I guess no figure. Please ask again.",
        "ko": "처리하지 못했습니다. 수치를 추측하지 않습니다. 다시 물어봐 주세요.",
    },
    "NoSuchSession": {
        "en": "I have no close of that day ({}): it is no trading day, lies ahead or is too long ago.",
        "ko": "해당 날짜({})의 종가가 없습니다. 휴장일이거나 아직 오지 않았거나 너무 오래된 날짜입니다.",
    },
    "HistoryTooShort": {"en": "The prices begin too late ({}).", "ko": "시세가 그 기간보다 늦게 시작합니다({})."},
    "AllSourcesFailed": {
        "en": "No source gives that at the moment ({}), so I tell no figure. Please try again later.",
        "ko": "지금은 어느 제공처에서도 가져올 수 없어({}) 수치를 드리지 않습니다. 나중에 다시 시도해 주세요.",
    },
    "UnknownDay": {"en": "The calendar does not know “{}”.", "ko": "달력에는 “{}”이(가) 없습니다."},
}
