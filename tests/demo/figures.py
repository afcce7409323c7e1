"""Where the numbers and the words of an answer come from: what has no fact, and what is in the wrong language."""

import re
import unicodedata
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

from tests.demo.talk import Said

from finclaw.finance.calendar import TableCalendar
from finclaw.finance.venue import VENUES
from finclaw.finance.words import PERIOD_NAMES

_ZONES = (UTC, ZoneInfo("Asia/Seoul"), ZoneInfo("America/New_York"))
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
_NO_FIGURES = re.compile(r"https?://\S+|24시간|\((?:I am|저는).*\)$", re.MULTILINE)


def unexplained(said: Said, *earlier: Said) -> set[Decimal]:
    """Numbers in the answer that are neither a fact, nor a time of one, nor the person's own."""
    text = without_names(said, *earlier)
    for form in ("%Y-%m-%d %H:%M %Z", "%Y-%m-%d"):
        for moment in _moments(said):
            for zone in _ZONES:
                text = text.replace(moment.astimezone(zone).strftime(form), " ")
    own = {number for each in (said, *earlier) for number in numbers(unicodedata.normalize("NFKC", each.text))}
    return numbers(text) - {abs(fact.value) for fact in said.facts} - own


def wrong_language(said: Said, language: str, *earlier: Said) -> str:
    """The words of the answer that belong to the other language, names and quoted words apart."""
    text = re.sub("“[^”]*”|`[^`]*`", " ", without_names(said, *earlier))
    if language == "en":
        return " ".join(re.findall("[가-힣]+", text))
    return " ".join(word for word in re.findall("[A-Za-z]+", text) if not word.isupper() and word != "FinClaw")


def without_names(said: Said, *earlier: Said) -> str:
    text = _NO_FIGURES.sub("", said.reply)
    for name in sorted(_names(said, *earlier), key=len, reverse=True):
        text = text.replace(name, " ")
    return text


def numbers(text: str) -> set[Decimal]:
    return {Decimal(each.replace(",", "").rstrip(".")) for each in _NUMBER.findall(text)}


def _names(*turns: Said) -> Iterable[str]:
    keys = ("symbol", "name", "name_ko", "holiday", "holiday_ko", "title")
    for said in turns:
        for result in said.results:
            lines = [line.partition(": ") for line in result.content.splitlines()]
            yield from (value for key, _, value in lines if key in keys)
            suggestion = (result.error.suggestion or "") if result.error else ""
            yield from (part for line in suggestion.split("\n")[1:] for part in line.split(" | ") if part)
            yield from (fact.subject for fact in result.facts if fact.field == "rate")
        for call in said.calls:
            yield from PERIOD_NAMES.get(call.args.get("period", "month"), {}).values()
    yield from ("AAPL", "삼성전자")  # the examples in the fixed sentences


def _moments(said: Said) -> Iterable[datetime]:
    """The times of the facts; of a market's hours those of its sessions on these days too."""
    for fact in said.facts:
        yield fact.as_of
        if fact.unit == "unix":
            at = datetime.fromtimestamp(int(fact.value), UTC)
            yield at
            venue = VENUES.get(fact.subject)
            for days in (-1, 0) if venue else ():
                session = TableCalendar().session_on(fact.subject, at.astimezone(_ZONES[1]).date() + timedelta(days))
                yield from (session.opens, session.closes) if session else ()
