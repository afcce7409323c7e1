"""Words that the commands of finance share: names, prices, moves, times and sources, as a person reads them.

Nothing is computed here but the figure's spelling. What the model reads is written by `output.py`.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, tzinfo
from decimal import Decimal
from typing import Final

from finclaw.finance.instrument import Instrument
from finclaw.finance.market import DEMO_SOURCE, Quote
from finclaw.finance.market_data.errors import AllSourcesFailed, DataError, DataUnsupported
from finclaw.finance.output import CALENDAR_SOURCE
from finclaw.finance.source_line import translate_source
from finclaw.finance.venue import KRX, VENUES
from finclaw.kernel.person import Person, zone_of
from finclaw.numerals.write import format_financial_number
from finclaw.text import Language

_SOURCES_KO: Final = {DEMO_SOURCE: "데모 시장", CALENDAR_SOURCE: "FinClaw 시장 달력"}
_KINDS_KO: Final = {
    "failed": "실패",
    "not found": "종목 없음",
    "does not have it": "제공하지 않음",
    "has nothing for it": "자료 없음",
    "is behind": "최신 자료 아님",
    "was asked too often": "요청 한도 초과",
    "refused access": "접근 거부",
    "answered what cannot be read": "읽을 수 없는 응답",
    "gave a figure that cannot be right": "믿을 수 없는 값",
    "did not answer": "응답 없음",
}
"""What a source did instead of answering, by the kind of its failure."""


def name_of(instrument: Instrument, language: Language) -> str:
    return instrument.name_ko if language == "ko" else instrument.name_en


def title_of(instrument: Instrument, language: Language) -> str:
    """The name with its symbol: a price of the wrong company is seen at once."""
    name = name_of(instrument, language)
    return name if name == instrument.symbol else f"{name} ({instrument.symbol})"


# ── figures ─────────────────────────────────────────────────────────────────────────────────────────────────


def write_money(value: Decimal, currency: str, language: Language) -> str:
    """With the digits that the value has: those of a price are its market's, and none is added or taken away."""
    exponent = value.as_tuple().exponent
    digits = max(0, -exponent) if isinstance(exponent, int) else 0
    display = "name" if language == "ko" else "symbol"
    return format_financial_number(
        value, language, currency, min_digits=digits, max_digits=digits, currency_display=display
    )


def write_price(instrument: Instrument, value: Decimal, language: Language) -> str:
    """An index is counted in points: nobody can pay it."""
    if instrument.kind == "index":
        return f"{value:,f}{'포인트' if language == 'ko' else ' points'}"
    return write_money(value, instrument.currency, language)


def write_move(quote: Quote, language: Language) -> str:
    """A sign and a percentage with its own sign, so that nobody has to know colours."""
    if not quote.change:
        return "변동 없음" if language == "ko" else "unchanged"
    arrow = "▲" if quote.change > 0 else "▼"
    return f"{arrow} {write_price(quote.instrument, abs(quote.change), language)} ({quote.change_percent:+,f}%)"


# ── times and sources ───────────────────────────────────────────────────────────────────────────────────────


def zone_for(instrument: Instrument, person: Person, language: Language) -> tzinfo:
    """The person's own zone; where nobody has said it, Seoul for Korean, else the market's."""
    if own := zone_of(person):
        return own
    if language == "ko":
        return KRX.tz
    return UTC if instrument.kind in ("coin", "rate") else VENUES[instrument.exchange].tz


def write_moment(moment: datetime, where: tzinfo) -> str:
    return f"{moment.astimezone(where):%Y-%m-%d %H:%M %Z}"


def write_source(source: str, language: Language) -> str:
    return _SOURCES_KO.get(source) or translate_source(source, language) if language == "ko" else source


def write_failures(failed: Iterable[str], language: Language) -> str:
    """Sources that were passed over, each with what it did: `Naver did not answer`."""
    if language == "en":
        return "; ".join(failed)
    return ", ".join(map(_translate_failure, failed))


def _translate_failure(failed: str) -> str:
    for english, korean in _KINDS_KO.items():
        if failed.endswith(f" {english}"):
            return f"{failed.removesuffix(f' {english}')}({korean})"
    return failed


def explain_missing(what: str, error: DataError, language: Language) -> str:
    """Why there is no figure. `what` is what was wanted, in the reader's language."""
    causes = error.causes if isinstance(error, AllSourcesFailed) else (error,) if error.source else ()
    why = write_failures([f"{each.source} {each.kind}" for each in causes if each.source], language)
    is_for_now = not causes or not all(isinstance(each, DataUnsupported) for each in causes)
    if language == "ko":
        again = " 잠시 뒤에 다시 시도해 주세요." if is_for_now else ""
        return f"{what}: 지금은 가져올 수 없습니다.{f' {why}.' if why else ''}{again}"
    again = " Please try again later." if is_for_now else ""
    return f"{what}: not available now.{f' {why}.' if why else ''}{again}"
