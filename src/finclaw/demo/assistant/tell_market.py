"""Opening hours, holidays and converted money in words."""

from datetime import UTC, tzinfo

from finclaw.demo.assistant.clause import Clause
from finclaw.demo.assistant.tell_price import plain_rate
from finclaw.demo.assistant.wording import (
    Record,
    amount,
    clock,
    day,
    home,
    large_amount,
    moment_of,
    particle,
    records,
    source,
    title,
    zone,
)
from finclaw.kernel.fact import Fact
from finclaw.kernel.message import ToolResult
from finclaw.text import Language

_REASONS_EN = {"weekend": "for the weekend", "before_open": "until its session opens", "after_close": "for the day"}
_REASONS_KO = {"weekend": "주말", "before_open": "개장 전", "after_close": "장 마감"}


def tell_hours(language: Language, result: ToolResult, clause: Clause) -> str:
    known = [each for each in records(result.content) if "market" in each]
    lines = [(_on_day if "on" in each else _state)(language, each, result.facts) for each in known]
    return "\n".join((*lines, _note(language, result.facts[0])))


def tell_calendar(language: Language, result: ToolResult, clause: Clause) -> str:
    lines: list[str] = []
    days = iter([fact for fact in result.facts if fact.field.startswith("closed ")])
    for each in records(result.content):
        if "closed" in each:
            lines.append(_closure(language, each, next(days)))
        elif "name" in each:
            lines.append(_heading(language, each, result.facts))
    return "\n".join((*lines, _note(language, result.facts[0]) if result.facts else "")).rstrip()


def tell_conversion(language: Language, result: ToolResult, clause: Clause) -> str:
    facts = {fact.field: fact for fact in result.facts}
    given, told = facts["amount"], facts["result"]
    rates = ", ".join(f"{fact.subject} {plain_rate(fact)}" for fact in result.facts if fact.field == "rate")
    seen = clock(told.as_of, home(language))
    if language == "ko":
        text = f"{particle(amount('ko', given), '은/는')} {large_amount('ko', told)}입니다."
        return f"{text} (적용 환율 {rates}, {seen} 기준, 출처: {source('ko', told.source)})"
    return f"{amount('en', given)} is {amount('en', told)}. (Rate used: {rates}; as of {seen}, source: {told.source})"


# ── hours ───────────────────────────────────────────────────────────────────────────────────────────────────


def _state(language: Language, record: Record, facts: tuple[Fact, ...]) -> str:
    mine = {fact.field: fact for fact in facts if fact.subject == record["market"]}
    name = title(language, record, record["market"])
    where = zone(record.get("zone", "UTC"))
    if record.get("reason") == "open":
        return _describe_open(language, name, mine, where)
    return _describe_closed(language, name, record, mine, where)


def _describe_open(language: Language, name: str, mine: dict[str, Fact], where: tzinfo) -> str:
    closes = mine.get("closes_at")
    if language == "ko":
        then = f" {_both(language, closes, where)}에 마감합니다." if closes else " 쉬지 않고 거래됩니다."
        return f"{particle(name, '은/는')} 지금 열려 있습니다.{then}"
    then = f" It closes at {_both(language, closes, where)}." if closes else " It never closes."
    return f"{name} is open.{then}"


def _describe_closed(language: Language, name: str, record: Record, mine: dict[str, Fact], where: tzinfo) -> str:
    opens, ends = mine["opens_at"], mine.get("then_closes_at")
    reason = record.get("reason", "")
    if language == "ko":
        why = record.get("holiday_ko") or _REASONS_KO.get(reason, "")
        until = f" 마감은 {_both(language, ends, where)}입니다." if ends else ""
        return (
            f"{particle(name, '은/는')} 지금 닫혀 있습니다({why}). {_both(language, opens, where)}에 열립니다.{until}"
        )
    why = f"for {record['holiday']}" if "holiday" in record else _REASONS_EN.get(reason, "")
    until = f" and closes at {_both(language, ends, where)}" if ends else ""
    return f"{name} is closed {why}. It opens at {_both(language, opens, where)}{until}."


def _on_day(language: Language, record: Record, facts: tuple[Fact, ...]) -> str:
    mine = {fact.field: fact for fact in facts if fact.subject == record["market"]}
    name, where = title(language, record, record["market"]), zone(record.get("zone", "UTC"))
    if "opens_at" not in mine:
        if language == "ko":
            return f"{particle(name, '은/는')} {record['on']}에 쉽니다({record.get('reason_ko', '')})."
        return f"{name} is closed on {record['on']} ({record.get('reason', '')})."
    opens, closes = (_both(language, mine[field], where) for field in ("opens_at", "closes_at"))
    if language == "ko":
        return f"{particle(name, '은/는')} {record['on']}에 열립니다. 개장 {opens}, 마감 {closes}."
    return f"{name} is open on {record['on']}, from {opens} to {closes}."


def _both(language: Language, fact: Fact, where: tzinfo) -> str:
    """There, and where the reader is if that is another time."""
    moment = moment_of(fact)
    there, here = clock(moment, where), clock(moment, home(language))
    return there if there == here else f"{there} ({here})"


# ── holidays ────────────────────────────────────────────────────────────────────────────────────────────────


def _heading(language: Language, record: Record, facts: tuple[Fact, ...]) -> str:
    name = title(language, record, record["market"])
    if not any(fact.subject == record["market"] for fact in facts):
        return f"{name}: 예정된 휴장일이 없습니다." if language == "ko" else f"{name}: no holidays ahead."
    return f"{name} 다음 휴장일:" if language == "ko" else f"{name} will next be closed on:"


def _closure(language: Language, record: Record, fact: Fact) -> str:
    name = record.get("holiday_ko" if language == "ko" else "holiday", "")
    # Noon there is the same date in UTC for Seoul and for New York.
    return f"• {day(moment_of(fact), UTC)} {name}"


def _note(language: Language, fact: Fact) -> str:
    seen = clock(fact.as_of, home(language))
    if language == "ko":
        return f"({seen} 기준, 출처: {source('ko', fact.source)})"
    return f"(As of {seen}, source: {fact.source})"
