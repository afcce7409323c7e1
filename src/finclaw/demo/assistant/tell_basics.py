"""Sums, the time, and what was not understood, in words."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from finclaw.demo.assistant.clause import Clause
from finclaw.demo.assistant.sayings import SAYINGS
from finclaw.demo.assistant.wording import amount, clock, format_quantity, instrument_of, large_amount, moment_of, zone
from finclaw.kernel.message import ToolCall, ToolResult
from finclaw.text import Language

_MOST_WORDS, _LONGEST_WORD = 4, 40
_WEEKDAYS: Mapping[Language, Sequence[str]] = {
    "en": ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
    "ko": "월화수목금토일",
}


def tell_left(language: Language, words: tuple[str, ...], names: tuple[str, ...]) -> str:
    """Which words were not understood, and a question that would have been."""
    quoted = ", ".join(f"“{_cut(word)}”" for word in words[:_MOST_WORDS])
    name = next((each for each in names if each not in words), "AAPL" if language == "en" else "삼성전자")
    nearest = f"“{_cut(name)} price”" if language == "en" else f"“{_cut(name)} 주가 알려줘”"
    return SAYINGS["left"][language].format(words=quoted, nearest=nearest)


def tell_result(language: Language, call: ToolCall, result: ToolResult, clause: Clause) -> str:
    told = next(fact for fact in result.facts if fact.field == "result")
    source = "(출처: 계산기)" if language == "ko" else "(Source: calculator)"
    return f"{told.subject} = {format_quantity(told.value)} {source}"


def tell_product(language: Language, result: ToolResult, quoted: ToolResult | None) -> str | None:
    """So many pieces at one price: the calculator's figure in the currency of the price."""
    facts = {fact.field: fact for fact in quoted.facts} if quoted else {}
    price, product = facts.get("price_in") or facts.get("price"), next(iter(result.facts), None)
    if result.status != "ok" or price is None or product is None:
        return None
    count, _, is_product = product.subject.partition(" * ")
    known = instrument_of(facts["price"])
    if not is_product or (known is not None and known.kind in ("rate", "index")):
        return None
    total = replace(product, currency=price.currency, value=product.value + 0 * price.value)  # its places
    if language == "ko":
        return f"{amount('ko', price)} × {count} = {large_amount('ko', total)}입니다. (계산기)"
    return f"{count} × {amount('en', price)} = {amount('en', total)}. (Calculator)"


def tell_time(language: Language, call: ToolCall, result: ToolResult, clause: Clause) -> str:
    """The subject of the time is the zone of the place."""
    told = result.facts[0]
    now, where = moment_of(told), zone(told.subject)
    weekday = _WEEKDAYS[language][now.astimezone(where).weekday()]
    if language == "ko":
        return f"지금은 {clock(now, where)}, {weekday}요일입니다. (출처: 시계)"
    return f"It is {clock(now, where)}, a {weekday}. (Source: clock)"


def _cut(word: str) -> str:
    return word if len(word) <= _LONGEST_WORD else f"{word[:_LONGEST_WORD]}…"
