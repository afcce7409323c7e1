"""A quote as a person reads it: price and move, the close before, where and when it was traded, and who says so."""

from collections.abc import Iterator, Sequence
from typing import Final

from finclaw.finance.commands.quote_batch import QuoteBatch
from finclaw.finance.commands.words import (
    explain_missing,
    title_of,
    write_failures,
    write_moment,
    write_move,
    write_price,
    write_source,
    zone_for,
)
from finclaw.finance.market import ExtendedPrice, Phase, Quote, percent
from finclaw.finance.venue import VENUES
from finclaw.kernel.person import Person
from finclaw.text import Language

_PHASES: Final[dict[Language, dict[Phase, str]]] = {
    "en": {
        "regular": "regular session",
        "closed": "market closed",
        "pre": "pre-market",
        "after": "after-market",
        "continuous": "trades around the clock",
    },
    "ko": {
        "regular": "정규장",
        "closed": "장 마감",
        "pre": "프리마켓",
        "after": "애프터마켓",
        "continuous": "24시간 거래",
    },
}
_AROUND_THE_CLOCK: Final = ("coin", "rate")
_VENUES_KO: Final = {"NXT": "넥스트레이드", "KRX": "한국거래소"}
_EXTENDED: Final[dict[Language, str]] = {
    "en": "{phase}: {price}, {move} against the close ({traded})",
    "ko": "{phase}: {price}, 종가 대비 {move} ({traded})",
}


def describe_quote(quote: Quote, person: Person, language: Language) -> str:
    """The answer about one instrument, in Markdown. After-market is a line of its own, against the close."""
    return "\n".join(_lines(quote, person, language))


def list_quotes(quotes: Sequence[Quote], person: Person, language: Language) -> str:
    """One line for each of several with its time; the source stands behind each, or once where it is the same."""
    sources = {quote.source_label for quote in quotes}
    lines = [f"- {_line(quote, person, language, has_source=len(sources) > 1)}" for quote in quotes]
    if len(sources) == 1:
        source = write_source(sources.pop(), language)
        lines += ["", f"출처: {source}" if language == "ko" else f"Source: {source}"]
    return "\n".join(lines)


def describe_missing(batch: QuoteBatch, language: Language) -> list[str]:
    """A line for each that could not be had, with the reason."""
    gone = "더 이상 종목 목록에 없습니다" if language == "ko" else "no longer in our records"
    missing = [explain_missing(title_of(each, language), error, language) for each, error in batch.missing]
    return [*missing, *(f"{symbol}: {gone}." for symbol in batch.unknown)]


def _lines(quote: Quote, person: Person, language: Language) -> Iterator[str]:
    instrument = quote.instrument
    price, move = write_price(instrument, quote.price, language), write_move(quote, language)
    yield f"**{title_of(instrument, language)}** {price}  {move}"
    yield " · ".join(_figures(quote, language))
    yield " · ".join((*_where(quote, language), *_provenance(quote, person, language)))
    if quote.extended is not None:
        yield _describe_extended(quote, quote.extended, person, language)
    if quote.stale:
        yield (
            "지금은 응답한 출처가 없어 마지막으로 확인된 가격입니다."
            if language == "ko"
            else "No source answers now; this is the last price that was known."
        )
    if quote.failed and not quote.stale:
        failed = write_failures(quote.failed, language)
        yield f"먼저 물은 출처: {failed}" if language == "ko" else f"Asked before: {failed}"


def _figures(quote: Quote, language: Language) -> Iterator[str]:
    before = write_price(quote.instrument, quote.previous_close, language)
    if quote.day_basis:
        yield f"기준가 {before} ({quote.day_basis})" if language == "ko" else f"from {before} at {quote.day_basis}"
    else:
        yield f"직전 종가 {before}" if language == "ko" else f"previous close {before}"
    if quote.volume and quote.instrument.kind != "index":  # an index counts no pieces, and every source its own thing
        yield f"거래량 {quote.volume:,}" if language == "ko" else f"volume {quote.volume:,}"


def _line(quote: Quote, person: Person, language: Language, *, has_source: bool) -> str:
    instrument = quote.instrument
    price, move = write_price(instrument, quote.price, language), write_move(quote, language)
    at, source = _provenance(quote, person, language)
    state = "" if instrument.kind in _AROUND_THE_CLOCK else _state_of(quote, language)
    told = " · ".join(filter(None, (state, at, source if has_source else "")))
    return f"**{title_of(instrument, language)}** {price} {move} · {told}"


def _where(quote: Quote, language: Language) -> Iterator[str]:
    if quote.instrument.kind not in _AROUND_THE_CLOCK:
        yield name_venue(quote.venue or quote.instrument.exchange, language)
    if quote.instrument.kind != "rate":
        yield _state_of(quote, language)


def _state_of(quote: Quote, language: Language) -> str:
    return _PHASES[language][quote.phase]


def _provenance(quote: Quote, person: Person, language: Language) -> tuple[str, str]:
    at = write_moment(quote.as_of, zone_for(quote.instrument, person, language))
    source = write_source(quote.source_label, language)
    return (f"{at} 기준", f"출처: {source}") if language == "ko" else (f"as of {at}", f"source: {source}")


def _describe_extended(quote: Quote, extended: ExtendedPrice, person: Person, language: Language) -> str:
    change = percent(extended.price - quote.price, quote.price)
    at = write_moment(extended.as_of, zone_for(quote.instrument, person, language))
    same = "변동 없음" if language == "ko" else "unchanged"
    return _EXTENDED[language].format(
        phase=_PHASES[language][extended.phase].capitalize(),
        price=write_price(quote.instrument, extended.price, language),
        move=f"{'▲' if change > 0 else '▼'} {change:+,f}%" if change else same,
        traded=", ".join(filter(None, (name_venue(extended.venue, language), at))),
    )


def name_venue(code: str, language: Language) -> str:
    venue = VENUES.get(code)
    if language == "ko":
        return _VENUES_KO.get(code) or (venue.name_ko if venue else code)
    return venue.name_en if venue else code
