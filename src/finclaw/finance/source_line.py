"""The source line at the end of a reply with live prices: who said them, of when they are, what to know of them."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from finclaw.finance.market import DEMO_SOURCE
from finclaw.finance.output import USER
from finclaw.finance.venue import KRX
from finclaw.kernel.fact import Fact
from finclaw.kernel.person import reader_zone
from finclaw.text import Language, language_of
from finclaw.tools.last_line import with_last_line

# fmt: off
PRICE_FIELDS: Final = frozenset({
    "price", "close", "rate", "result", "end", "price_in", "after_market_price", "pre_market_price",
})
# fmt: on
"""Fields of facts that somebody outside has said, and that age."""
_MOST: Final = 4
_KOREAN: Final = (
    ("unconfirmed", "미확인"),
    ("stale", "이전 시세"),
    ("change since", "등락 기준 시각"),
    ("fixing of", "고시일"),
)
_EXTENDED: Final[dict[Language, dict[str, str]]] = {
    "en": {"pre": "pre-market", "after": "after-market"},
    "ko": {"pre": "프리마켓", "after": "애프터마켓"},
}
"""Prices before and after the session have a time of their own: that of the close must not seem as late as theirs."""
_DELAYED: Final = re.compile(r"delayed (\d+) min")
_TIME: Final = re.compile(r"\d{1,2}:\d{2}")


def name_sources(reply: str, facts: Iterable[Fact], question: str, *, begun: bool = False) -> str:
    """The reply with its source line, in the reply's language; unchanged where it names its sources and a time."""
    latest: dict[tuple[str, str], datetime] = {}
    for fact in facts:
        if fact.field in PRICE_FIELDS and fact.source not in (USER, DEMO_SOURCE):
            said = (fact.source, fact.phase if fact.phase in _EXTENDED["en"] else "")
            latest[said] = max(fact.as_of, latest.get(said, fact.as_of))
    if not latest:
        return reply
    language = language_of(reply if any(map(str.isalpha, reply)) else question)
    if _TIME.search(reply) and all(translate_source(source, language) in reply for source, _ in latest):
        return reply
    told = "; ".join(
        ", ".join(
            filter(None, (translate_source(source, language), _EXTENDED[language].get(phase), _tell(as_of, language)))
        )
        for (source, phase), as_of in list(latest.items())[:_MOST]
    )
    return with_last_line(reply, f"(출처: {told})" if language == "ko" else f"(Source: {told})", begun=begun)


def translate_source(source: str, language: Language) -> str:
    """A source's label in the language of the reply; its name stays."""
    if language == "en":
        return source
    source = _DELAYED.sub(r"\1분 지연", source)
    for english, korean in _KOREAN:
        source = source.replace(english, korean)
    return source


def _tell(as_of: datetime, language: Language) -> str:
    if language == "en":
        return f"{as_of.astimezone(reader_zone() or UTC):%Y-%m-%d %H:%M %Z}"
    at = as_of.astimezone(reader_zone() or KRX.tz)
    zone = "한국 시각" if at.tzname() == "KST" else at.tzname()
    return f"{at.month}월 {at.day}일 {at:%H:%M} {zone} 기준"
