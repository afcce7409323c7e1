"""The sample portfolio and the person's alerts in words."""

from collections.abc import Mapping

from finclaw.demo.assistant.clause import Clause
from finclaw.demo.assistant.tell_price import plain_rate
from finclaw.demo.assistant.wording import (
    amount,
    arrow,
    clock,
    format_quantity,
    home,
    instrument_of,
    large_amount,
    percent,
    source,
    subjects_of,
    title,
)
from finclaw.kernel.fact import Fact
from finclaw.kernel.message import ToolCall, ToolResult
from finclaw.text import Language

_LASTING: Mapping[Language, str] = {
    "en": (
        "Alerts last until the gateway stops, and I cannot message you by myself yet: ask for “my alerts” to see how "
        "they stand."
    ),
    "ko": (
        "알림은 게이트웨이가 멈추면 사라지며, 아직 제가 먼저 메시지를 보낼 수는 없습니다. "
        "“내 알림”이라고 물으면 상태를 알려 드립니다."
    ),
}
_NONE: Mapping[str, Mapping[Language, str]] = {
    "kept": {"en": "You have no alerts.", "ko": "설정된 알림이 없습니다."},
    "removed": {
        "en": "There was no such alert; nothing was removed.",
        "ko": "해당하는 알림이 없어 지운 것이 없습니다.",
    },
}
_DONE: Mapping[str, str] = {"alert__add": "set", "alert__list": "kept", "alert__remove": "removed"}
_HEADS: Mapping[str, Mapping[Language, str]] = {
    "set": {"en": "Alert set:", "ko": "알림을 설정했습니다."},
    "kept": {"en": "Your alerts:", "ko": "설정된 알림입니다."},
    "removed": {"en": "Removed:", "ko": "다음 알림을 지웠습니다."},
}


# ── portfolio ───────────────────────────────────────────────────────────────────────────────────────────────


def tell_portfolio(language: Language, call: ToolCall, result: ToolResult, clause: Clause) -> str:
    rows = [_holding(language, mine) for mine in subjects_of(result.facts, "quantity").values()]
    total = next(fact for fact in result.facts if fact.field == "total")
    rates = ", ".join(f"{fact.subject} {plain_rate(fact)}" for fact in result.facts if fact.field == "rate")
    sums = ", ".join(large_amount(language, fact) for fact in result.facts if fact.field == "subtotal")
    seen = clock(total.as_of, home(language))
    if language == "ko":
        return "\n".join(
            (
                "예시 포트폴리오입니다. 실제 보유 종목이 아닙니다.",
                *rows,
                f"통화별 합계: {sums}",
                f"총 평가액: {large_amount('ko', total)} (적용 환율 {rates})",
                f"({seen} 기준, 출처: {source('ko', total.source)})",
            )
        )
    return "\n".join(
        (
            "This is a sample portfolio, not your own holdings.",
            *rows,
            f"Sum for each currency: {sums}",
            f"Total value: {amount('en', total)} (rate used: {rates})",
            f"(As of {seen}, source: {total.source})",
        )
    )


def _holding(language: Language, mine: Mapping[str, Fact]) -> str:
    count, value, gain = format_quantity(mine["quantity"].value), mine["value"], mine["gain"]
    share, name = percent(mine["gain_percent"]), title(language, value)
    if language == "ko":
        known = instrument_of(value)
        unit = "개" if known is not None and known.kind == "coin" else "주"
        moved = f"{arrow(gain.value)} {amount('ko', gain)}" if gain.value else arrow(gain.value)
        return f"• {name} {count}{unit}: {amount('ko', value)}, 평가손익 {moved} ({share})"
    direction = "gain" if gain.value >= 0 else "loss"
    return f"• {name} × {count}: {amount('en', value)}, {direction} {amount('en', gain)} ({share})"


# ── alerts ──────────────────────────────────────────────────────────────────────────────────────────────────


def tell_alerts(language: Language, call: ToolCall, result: ToolResult, clause: Clause) -> str:
    what, alerts = _DONE[call.name], subjects_of(result.facts, "threshold")
    if not alerts:
        return _NONE.get(what, _NONE["kept"])[language]
    lines = [_alert(language, mine, removed=what == "removed") for mine in alerts.values()]
    closing = () if what == "removed" else (_LASTING[language],)
    return "\n".join((_HEADS.get(what, _HEADS["kept"])[language], *lines, *closing, _note(language, result.facts)))


def _alert(language: Language, mine: Mapping[str, Fact], *, removed: bool) -> str:
    threshold, price = amount(language, mine["threshold"]), amount(language, mine["price"])
    above, reached = bool(mine["is_above"].value), bool(mine["is_reached"].value)
    name = title(language, mine["price"])
    if language == "ko":
        text = f"• {name} {threshold} {'이상' if above else '이하'}"
        return text if removed else f"{text}: 현재 {price}, {'조건 충족' if reached else '아직 아님'}"
    text = f"• {name} at or {'above' if above else 'below'} {threshold}"
    return text if removed else f"{text}: now {price}, {'reached' if reached else 'not reached'}"


def _note(language: Language, facts: tuple[Fact, ...]) -> str:
    price = max((fact for fact in facts if fact.field == "price"), key=lambda fact: fact.as_of)
    seen = clock(price.as_of, home(language))
    if language == "ko":
        return f"({seen} 기준, 출처: {source('ko', price.source)})"
    return f"(As of {seen}, source: {price.source})"
