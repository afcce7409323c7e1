"""Writing the answer. Every figure in it is a fact's value or time, spelled for the reader and never computed."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

from finclaw.kernel.fact import Fact
from finclaw.kernel.message import ToolResult
from finclaw.providers.offline.question import Language

_KST = timezone(timedelta(hours=9), "KST")
_SIGNS = {"KRW": "₩", "USD": "$"}
_SOURCES_KO = {"demo market": "데모 시장"}
_PERHAPS = re.compile("(?:Did you|may) mean (.+)")
_IN_BRACKETS = re.compile(r"^.+\((.+)\)$")

INTRODUCTION: Mapping[Language, str] = {
    "en": (
        "I am FinClaw's offline assistant: there is no language model behind me, so I can only look up prices. "
        "Ask me, for example, “What is AAPL trading at?” or “How much are Tesla and Bitcoin?”.\n\n"
        "To talk freely, set `model` under `agent` in your FinClaw configuration to a real model (`provider/model`), "
        "give that provider's key, and restart."
    ),
    "ko": (
        "저는 FinClaw의 오프라인 도우미입니다. 언어 모델 없이 동작해서 시세 조회만 할 수 있습니다. "
        "예를 들어 “삼성전자 현재 주가 알려줘”, “테슬라랑 비트코인 얼마야?”처럼 물어봐 주세요.\n\n"
        "자유롭게 대화하려면 FinClaw 설정의 `agent` 아래 `model`에 실제 모델(`provider/model`)을 적고 "
        "해당 제공자의 키를 넣은 뒤 다시 시작해 주세요."
    ),
}
NO_MARKET: Mapping[Language, str] = {
    "en": "I cannot look up prices here: no quote tool is available to me. I will not guess a figure.",
    "ko": "여기에서는 시세를 조회할 도구를 쓸 수 없습니다. 가격을 추측해서 말씀드리지는 않겠습니다.",
}
UNFINISHED: Mapping[Language, str] = {
    "en": "I could not finish looking that up. Please ask again.",
    "ko": "조회를 마치지 못했습니다. 다시 한번 물어봐 주세요.",
}
_TOO_SLOW: Mapping[Language, str] = {
    "en": "Looking up “{name}” took too long. Please try again in a moment.",
    "ko": "“{name}” 조회가 너무 오래 걸렸습니다. 잠시 후 다시 시도해 주세요.",
}
_NOT_ALLOWED: Mapping[Language, str] = {
    "en": "I am not allowed to look up “{name}” here.",
    "ko": "여기에서는 “{name}” 조회가 허용되지 않습니다.",
}
_NOT_FOUND: Mapping[Language, str] = {
    "en": "Sorry, I could not find a price for “{name}”. {hint}",
    "ko": "죄송합니다. “{name}”의 시세를 찾지 못했습니다. {hint}",
}
_GIVE_A_NAME: Mapping[Language, str] = {
    "en": "Please give me its symbol or full name, such as AAPL or Samsung Electronics.",
    "ko": "종목 코드나 정확한 이름을 알려 주세요. 예: AAPL, 삼성전자.",
}
_STALE: Mapping[Language, str] = {
    "en": " This price may be out of date.",
    "ko": " 최신 가격이 아닐 수 있습니다.",
}


def answer(language: Language, results: Sequence[ToolResult], asked: Mapping[str, str]) -> str:
    """One paragraph a result, in the order of the calls. `asked` tells by call id which name was looked up."""
    return "\n\n".join(_about(language, result, asked.get(result.call_id) or result.name) for result in results)


def _about(language: Language, result: ToolResult, name: str) -> str:
    facts = {fact.field: fact for fact in result.facts}
    match result.status:
        case "ok" if "price" in facts:
            return _price(language, _title(language, result, facts["price"]), facts)
        case "timeout":
            return _TOO_SLOW[language].format(name=name)
        case "denied":
            return _NOT_ALLOWED[language].format(name=name)
        case "skipped" | "unknown":
            return UNFINISHED[language]
        case "ok" | "error":
            return _NOT_FOUND[language].format(name=name, hint=_hint(language, result))


def _hint(language: Language, result: ToolResult) -> str:
    """The tool tells what was perhaps meant, each in quotes: `Did you mean "Kakao (카카오)"`."""
    perhaps = _PERHAPS.search(result.error.message if result.error else result.content)
    candidates = re.findall('"([^"]+)"', perhaps.group(1)) if perhaps else []
    if not candidates:
        return _GIVE_A_NAME[language]
    if language == "en":
        return f"Did you mean {' or '.join(candidates)}?"
    in_korean = [_IN_BRACKETS.sub(r"\1", each) for each in candidates]
    return f"혹시 {' 또는 '.join(in_korean)}인가요?"


def _title(language: Language, result: ToolResult, price: Fact) -> str:
    said = dict(line.split(": ", 1) for line in result.content.splitlines() if ": " in line)
    name = said.get("name_ko" if language == "ko" else "name")
    if not name:
        return price.subject
    return f"{name}({price.subject})" if language == "ko" else f"{name} ({price.subject})"


def _price(language: Language, title: str, facts: Mapping[str, Fact]) -> str:
    price = facts["price"]
    seen = _when(price.as_of, price.currency)
    if language == "ko":
        source = _SOURCES_KO.get(price.source, price.source)
        text = f"{title} 현재가는 {_money(price)}입니다.{_change_ko(facts)} ({seen} 기준, 출처: {source})"
    else:
        text = f"{title} is at {_money(price)}{_change_en(facts)}. (As of {seen}, source: {price.source})"
    return text + (_STALE[language] if price.stale else "")


def _change_en(facts: Mapping[str, Fact]) -> str:
    if not {"change", "change_percent", "previous_close"} <= facts.keys():
        return ""
    change, close = facts["change"], _money(facts["previous_close"])
    if not change.value:
        return f", unchanged from its previous close of {close}"
    direction = "up" if change.value > 0 else "down"
    return f", {direction} {_money(change)} ({_percent(facts)}) from its previous close of {close}"


def _change_ko(facts: Mapping[str, Fact]) -> str:
    if not {"change", "change_percent", "previous_close"} <= facts.keys():
        return ""
    change, close = facts["change"], _money(facts["previous_close"])
    if not change.value:
        return f" 전일 종가 {close}에서 변동이 없습니다."
    direction = "올랐습니다" if change.value > 0 else "내렸습니다"
    return f" 전일 종가 {close}보다 {_money(change)} ({_percent(facts)}) {direction}."


def _money(fact: Fact) -> str:
    """Without its sign, which the words beside it tell."""
    amount = f"{abs(fact.value):,f}"
    sign = _SIGNS.get(fact.currency or "")
    return f"{sign}{amount}" if sign else f"{amount} {fact.currency or fact.unit}".rstrip()


def _percent(facts: Mapping[str, Fact]) -> str:
    value: Decimal = facts["change_percent"].value
    return f"{value:+,f}%"


def _when(moment: datetime, currency: str | None) -> str:
    """In the zone of the people who trade in that currency."""
    return moment.astimezone(_KST if currency == "KRW" else UTC).strftime("%Y-%m-%d %H:%M %Z")
