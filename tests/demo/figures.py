"""Where the numbers and the words of an answer come from: what has no fact behind it, what is in the wrong language."""

import re
import unicodedata
from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

from tests.demo.talk import Said

_ZONES = (UTC, ZoneInfo("Asia/Seoul"), ZoneInfo("America/New_York"))
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
_WON = re.compile(r"약 ((?:[\d,]+[조억만] ?)+)원")
_UNITS = {"조": 10**12, "억": 10**8, "만": 10**4}


def unexplained(said: Said, *earlier: Said) -> set[Decimal]:
    """Numbers in the answer that are neither a fact, nor a time of one, nor the person's own."""
    text = without_names(said, *earlier)
    for form in ("%Y-%m-%d %H:%M %Z", "%Y-%m-%d"):
        for moment in _moments(said):
            for zone in _ZONES:
                text = text.replace(moment.astimezone(zone).strftime(form), " ")
    values = {abs(fact.value) for fact in said.facts}
    text = _WON.sub(lambda found: " " if _rounds(found.group(1), values) else found.group(), text)
    own = {number for each in (said, *earlier) for number in numbers(unicodedata.normalize("NFKC", each.text))}
    return numbers(text) - values - own


def wrong_language(said: Said, language: str, *earlier: Said) -> str:
    """The words of the answer that belong to the other language, names and quoted words apart."""
    text = re.sub("“[^”]*”|`[^`]*`", " ", without_names(said, *earlier))
    if language == "en":
        return " ".join(re.findall("[가-힣]+", text))
    return " ".join(word for word in re.findall("[A-Za-z]+", text) if not word.isupper() and word != "FinClaw")


def without_names(said: Said, *earlier: Said) -> str:
    text = said.reply
    for name in sorted(_names(said, *earlier), key=len, reverse=True):
        text = text.replace(name, " ")
    return text


def numbers(text: str) -> set[Decimal]:
    return {Decimal(each.replace(",", "").rstrip(".")) for each in _NUMBER.findall(text)}


def _names(*turns: Said) -> Iterable[str]:
    for said in turns:
        for result in said.results:
            lines = [line.partition(": ") for line in result.content.splitlines()]
            yield from (
                value for key, _, value in lines if key in ("symbol", "name", "name_ko", "holiday", "holiday_ko")
            )
            suggestion = (result.error.suggestion or "") if result.error else ""
            yield from (part for line in suggestion.split("\n")[1:] for part in line.split(" | ") if part)
            yield from (fact.subject for fact in result.facts if fact.field == "rate")
    yield from ("AAPL", "삼성전자")  # the examples in the fixed sentences


def _moments(said: Said) -> Iterable[datetime]:
    for fact in said.facts:
        yield fact.as_of
        if fact.unit == "unix":
            yield datetime.fromtimestamp(int(fact.value), UTC)


def _rounds(words: str, values: set[Decimal]) -> bool:
    parts = re.findall(r"([\d,]+)([조억만])", words)
    told = sum(Decimal(count.replace(",", "")) * _UNITS[unit] for count, unit in parts)
    return any(abs(value - told) <= 5_000 for value in values)
