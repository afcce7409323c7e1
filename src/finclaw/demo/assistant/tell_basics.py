"""Sums, the time, and what was not understood, in words."""

import re

from msgspec.structs import replace

from finclaw.demo.assistant.clause import Clause
from finclaw.demo.assistant.sayings import SAYINGS
from finclaw.demo.assistant.wording import amount, clock, format_quantity, large_amount, moment_of, records, zone
from finclaw.kernel.message import ToolResult
from finclaw.text import Language

_MOST_WORDS, _LONGEST_WORD = 4, 40


def tell_left(language: Language, words: tuple[str, ...], names: tuple[str, ...]) -> str:
    """Which words were not understood, and a question that would have been."""
    quoted = ", ".join(f"“{_cut(word)}”" for word in words[:_MOST_WORDS])
    name = next((each for each in names if each not in words), "AAPL" if language == "en" else "삼성전자")
    nearest = f"“{_cut(name)} price”" if language == "en" else f"“{_cut(name)} 주가 알려줘”"
    return SAYINGS["left"][language].format(words=quoted, nearest=nearest)


def tell_result(language: Language, result: ToolResult, clause: Clause) -> str:
    record, facts = records(result.content)[0], {fact.field: fact for fact in result.facts}
    source = "(출처: 계산기)" if language == "ko" else "(Source: calculator)"
    return f"{record['expression']} = {format_quantity(facts['result'].value)} {source}"


def tell_product(language: Language, result: ToolResult, quoted: ToolResult | None) -> str | None:
    """So many pieces at one price: the calculator's figure in the currency of the price."""
    facts = {fact.field: fact for fact in quoted.facts} if quoted else {}
    price, product = facts.get("price_in") or facts.get("price"), next(iter(result.facts), None)
    count = result.content.partition("expression: ")[2].partition(" * ")[0]
    no_share = quoted is None or re.search("^kind: (?:rate|index)$", quoted.content, re.MULTILINE)
    if result.status != "ok" or price is None or product is None or not count or no_share:
        return None
    total = replace(product, currency=price.currency, value=product.value + 0 * price.value)  # its places
    if language == "ko":
        return f"{amount('ko', price)} × {count} = {large_amount('ko', total)}입니다. (계산기)"
    return f"{count} × {amount('en', price)} = {amount('en', total)}. (Calculator)"


def tell_time(language: Language, result: ToolResult, clause: Clause) -> str:
    now, record = moment_of(result.facts[0]), records(result.content)[0]
    where = zone(record["zone"])
    if language == "ko":
        weekday = next(word for word in record["text_ko"].split() if word.endswith("요일"))
        return f"지금은 {clock(now, where)}, {weekday}입니다. (출처: 시계)"
    return f"It is {clock(now, where)}, a {record['weekday']}. (Source: clock)"


def _cut(word: str) -> str:
    return word if len(word) <= _LONGEST_WORD else f"{word[:_LONGEST_WORD]}…"
