"""Opening hours, holidays and converted money in words. Why a market rests says our own calendar."""

from datetime import UTC, date, tzinfo
from functools import cache

from finclaw.demo.assistant.clause import Clause
from finclaw.demo.assistant.tell_price import plain_rate
from finclaw.demo.assistant.wording import (
    amount,
    clock,
    day,
    home,
    large_amount,
    moment_of,
    particle,
    source,
    subjects_of,
    venue_title,
    zone,
)
from finclaw.finance.calendar import TableCalendar
from finclaw.finance.venue import VENUES
from finclaw.kernel.calendar import Holiday
from finclaw.kernel.fact import Fact
from finclaw.kernel.message import ToolCall, ToolResult
from finclaw.text import Language

_REASONS_EN = {"weekend": "for the weekend", "before_open": "until its session opens", "after_close": "for the day"}
_REASONS_KO = {"weekend": "주말", "before_open": "개장 전", "after_close": "장 마감"}


def tell_hours(language: Language, call: ToolCall, result: ToolResult, clause: Clause) -> str:
    days = subjects_of(result.facts, "day")
    lines = [_on_day(language, code, mine) for code, mine in days.items()] or [
        _state(language, code, mine) for code, mine in subjects_of(result.facts, "is_open").items()
    ]
    return "\n".join((*lines, _note(language, result.facts[0])))


def tell_calendar(language: Language, call: ToolCall, result: ToolResult, clause: Clause) -> str:
    lines: list[str] = []
    for code, mine in subjects_of(result.facts, "holidays_ahead").items():
        closed = [fact for field, fact in mine.items() if field.startswith("closed ")]
        lines += [_heading(language, code, has_days=bool(closed)), *(_closure(language, fact) for fact in closed)]
        lines += [_other_hours(language, mine, field[6:]) for field in mine if field.startswith("opens ")]
    return "\n".join((*lines, _note(language, result.facts[0])))


def tell_conversion(language: Language, call: ToolCall, result: ToolResult, clause: Clause) -> str:
    facts = {fact.field: fact for fact in result.facts}
    given, told = facts["amount"], facts["result"]
    rates = ", ".join(f"{fact.subject} {plain_rate(fact)}" for fact in result.facts if fact.field == "rate")
    seen = clock(told.as_of, home(language))
    if language == "ko":
        text = f"{particle(amount('ko', given), '은/는')} {large_amount('ko', told)}입니다."
        return f"{text} (적용 환율 {rates}, {seen} 기준, 출처: {source('ko', told.source)})"
    return f"{amount('en', given)} is {amount('en', told)}. (Rate used: {rates}; as of {seen}, source: {told.source})"


# ── hours ───────────────────────────────────────────────────────────────────────────────────────────────────


@cache
def _calendar() -> TableCalendar:
    return TableCalendar()


def _zone_of(code: str) -> tzinfo:
    return zone(VENUES[code].zone)


def _state(language: Language, code: str, mine: dict[str, Fact]) -> str:
    describe = _describe_open if mine["is_open"].value else _describe_closed
    return describe(language, code, mine)


def _describe_open(language: Language, code: str, mine: dict[str, Fact]) -> str:
    name, where, closes = venue_title(language, code), _zone_of(code), mine.get("closes_at")
    if language == "ko":
        then = f" {_both(language, closes, where)}에 마감합니다." if closes else " 쉬지 않고 거래됩니다."
        return f"{particle(name, '은/는')} 지금 열려 있습니다.{then}"
    then = f" It closes at {_both(language, closes, where)}." if closes else " It never closes."
    return f"{name} is open.{then}"


def _describe_closed(language: Language, code: str, mine: dict[str, Fact]) -> str:
    name, where, ends = venue_title(language, code), _zone_of(code), mine.get("then_closes_at")
    opens = _both(language, mine["opens_at"], where)
    opening = _calendar().opening(code, mine["is_open"].as_of)
    if language == "ko":
        why = opening.holiday.name_ko if opening.holiday else _REASONS_KO.get(opening.reason, "")
        until = f" 마감은 {_both(language, ends, where)}입니다." if ends else ""
        return f"{particle(name, '은/는')} 지금 닫혀 있습니다({why}). {opens}에 열립니다.{until}"
    why = f"for {opening.holiday.name}" if opening.holiday else _REASONS_EN.get(opening.reason, "")
    until = f" and closes at {_both(language, ends, where)}" if ends else ""
    return f"{name} is closed {why}. It opens at {opens}{until}."


def _on_day(language: Language, code: str, mine: dict[str, Fact]) -> str:
    name, where = venue_title(language, code), _zone_of(code)
    on = moment_of(mine["day"]).astimezone(where).date()
    if "opens_at" not in mine:
        why = _name_rest(language, code, on)
        if language == "ko":
            return f"{particle(name, '은/는')} {on}에 쉽니다({why})."
        return f"{name} is closed on {on} ({why})."
    opens, closes = (_both(language, mine[field], where) for field in ("opens_at", "closes_at"))
    if language == "ko":
        return f"{particle(name, '은/는')} {on}에 열립니다. 개장 {opens}, 마감 {closes}."
    return f"{name} is open on {on}, from {opens} to {closes}."


def _name_rest(language: Language, code: str, on: date) -> str:
    """Why there is no session on a day."""
    rest = _calendar().rest_on(code, on)
    if isinstance(rest, Holiday):
        return rest.name_ko if language == "ko" else rest.name
    return "주말" if language == "ko" else "weekend"


def _both(language: Language, fact: Fact, where: tzinfo) -> str:
    """There, and where the reader is if that is another time."""
    moment = moment_of(fact)
    there, here = clock(moment, where), clock(moment, home(language))
    return there if there == here else f"{there} ({here})"


# ── holidays ────────────────────────────────────────────────────────────────────────────────────────────────


def _heading(language: Language, code: str, *, has_days: bool) -> str:
    name = venue_title(language, code)
    if not has_days:
        return f"{name}: 예정된 휴장일이 없습니다." if language == "ko" else f"{name}: no holidays ahead."
    return f"{name} 다음 휴장일:" if language == "ko" else f"{name} will next be closed on:"


def _closure(language: Language, fact: Fact) -> str:
    # Noon there is the same date in UTC for Seoul and for New York.
    on = day(moment_of(fact), UTC)
    return f"• {on} {_name_rest(language, fact.subject, date.fromisoformat(on))}"


def _other_hours(language: Language, mine: dict[str, Fact], on: str) -> str:
    """A session that opens late or closes early."""
    opens, closes = mine[f"opens {on}"], mine[f"closes {on}"]
    first, last = (_both(language, fact, _zone_of(fact.subject)) for fact in (opens, closes))
    return f"거래 시간 변경: {first} ~ {last}" if language == "ko" else f"Other hours: from {first} to {last}."


def _note(language: Language, fact: Fact) -> str:
    seen = clock(fact.as_of, home(language))
    if language == "ko":
        return f"({seen} 기준, 출처: {source('ko', fact.source)})"
    return f"(As of {seen}, source: {fact.source})"
