"""Parsing of one clause of a message: what is wanted, of what, over which time, in which currency."""

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Literal, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from finclaw.demo.assistant import money_words, periods
from finclaw.demo.assistant.arithmetic import read_arithmetic
from finclaw.demo.assistant.intent import POLITE, Intent, intent_of, without_politeness
from finclaw.demo.assistant.money_words import Amount, currency_of
from finclaw.demo.assistant.names import is_bare, names_in
from finclaw.demo.assistant.periods import UNKNOWN
from finclaw.numerals.tables import FIAT

Reply = Literal["yes", "no"]
Taken = TypeVar("Taken")

_BELOW = re.compile(
    r"\b(?:below|under|falls?|drops?|dips?|down|less than|lower|loses?)\b|이하|아래|밑|내리|내려|떨어|하락|미만", re.I
)
_ABOVE = re.compile(
    r"\b(?:above|over|hits?|rises?|climbs?|exceeds?|more than|higher|up)\b|이상|넘|오르|올라|위로|돌파|상승|초과", re.I
)
_LEVEL = re.compile(
    r"\b(?:below|under|above|over|than|hits?|reach(?:es)?|at|to|exceeds?|cross(?:es)?|is)\b"
    "|이하|아래|밑|미만|이상|넘|위|돌파|초과|되면|될|도달|까지|찍|로\\s?(?:떨|내|오|올)",
    re.I,
)
"""A price to be reached. Without one of these words "drops 10 dollars" is a distance."""
_ALL = re.compile(r"\ball\b|\bevery(?:thing)?\b|전부|모두|모든|다\s?(?:지워|삭제|취소|없애)", re.I)
_YES = re.compile(
    "(?:yes|yeah|yep|yup|sure|ok(?:ay)?|right|correct|y|exactly|that one"
    "|네|넵|예|응|ㅇㅇ|웅|맞아요?|맞습니다|그래요?|좋아요?|어)",
    re.I,
)
_NO = re.compile(
    r"(?:no|nope|nah|n|neither|none|아니요?|아니오|ㄴㄴ|아냐|아뇨|됐어요?|괜찮아요?)(?: thanks?(?: you)?)?", re.I
)
_CHOICE = "(?:요|이요|거|것|거요|으로|로|로요|꺼)?"
_PLACES = (
    re.compile(rf"(?:the\s+)?(?:first|1st)(?:\s+one)?|1\s?(?:번째?)?{_CHOICE}|첫\s?번?째{_CHOICE}", re.I),
    re.compile(rf"(?:the\s+)?(?:second|2nd)(?:\s+one)?|2\s?(?:번째?)?{_CHOICE}|(?:두\s?번|둘)째{_CHOICE}", re.I),
    re.compile(rf"(?:the\s+)?(?:third|3rd)(?:\s+one)?|3\s?(?:번째?)?{_CHOICE}|(?:세\s?번|셋)째{_CHOICE}", re.I),
)
ASPECTS = {  # figures beside the price, which not every tool gives
    "volume": re.compile(r"\bvolume\b|거래량", re.I),
    "opening": re.compile(r"\bopen(?:ing|ed)?\b|시가|시초가", re.I),
    "extremes": re.compile(r"\b(?:highs?|lows?|highest|lowest|range)\b|고가|저가|최고|최저|고점|저점", re.I),
}
_PREVIOUS = re.compile(r"\b(?:previous|prior|last) close\b|직전 종가|전일 종가", re.I)
_OF_THE_DAY = re.compile(r"\btoday|\bday\b|오늘|(?<!최)(?:고가|저가)", re.I)
_NOW = re.compile(r"\b(?:today|now)\b|오늘|지금|휴장(?:이야|이에요|인가|임|이니|이냐)", re.I)
_ONLY_A_NUMBER = re.compile(r"(?:and\s+|그럼\s*|그러면\s*)?\d[\d,.\s조억만천백]*\W*", re.I)


class Clause(Struct, frozen=True, kw_only=True):
    text: str
    intent: Intent | None = None
    names: tuple[str, ...] = ()
    period: str | None = None
    on: str | None = None
    """One day: `2026-03-03`, `03-03`, or `tomorrow` for a market."""
    holiday: str | None = None
    quantity: Decimal | None = None
    amounts: tuple[Amount, ...] = ()
    currency: str | None = None
    """The one that is wanted, not the one that is given."""
    side: Literal["above", "below", "both"] | None = None
    distance: bool = False
    everything: bool = False
    aspects: tuple[str, ...] = ()
    expression: str | None = None
    reply: Reply | None = None
    place: int | None = None
    """`the second one`: a choice among what was offered, counted from zero."""
    sure: bool = True
    """False when the names are only a guess: nothing in the clause asks for a price."""
    taken: tuple[tuple[str, str], ...] = ()
    """Which words were read as what: `("period", "last month")`. A plan must make use of all of them."""
    left: tuple[str, ...] = ()
    """Words that were read as nothing at all."""

    @property
    def says_nothing(self) -> bool:
        return (
            not (self.intent or self.names or self.left or self.taken or self.reply or self.expression)
            and self.place is None
        )


def read_clause(text: str, intent: Intent | None = None) -> Clause:
    """What a text wants; `intent` when that is known already, for it answers a question of ours."""
    said = text.strip(" \t.,!?~…？！。")
    if _YES.fullmatch(said):
        return Clause(text=text, reply="yes")
    if _NO.fullmatch(said):
        return Clause(text=text, reply="no")
    if expression := read_arithmetic(said):
        return Clause(text=text, intent="calc", expression=expression)
    place = next((index for index, pattern in enumerate(_PLACES) if pattern.fullmatch(said)), None)
    clause, rest = _with_slots(Clause(text=text, intent=intent or intent_of(text), place=place), text)
    if clause.left or (place is not None and intent is None):
        return clause
    return _understood(clause, without_politeness(rest) if clause.intent in (None, *POLITE) else rest)


def _with_slots(clause: Clause, text: str) -> tuple[Clause, str]:
    """The clause with everything that has a form of its own: days, periods, quantities, currencies, amounts."""
    intent, rest, taken = clause.intent, text, list[tuple[str, str]]()

    def take(slot: str, taker: Callable[[str], tuple[Taken, str]]) -> Taken:
        nonlocal rest
        before = rest
        value, rest = taker(rest)
        if value:
            kept = rest.split()
            taken.append((slot, " ".join(word for word in before.split() if word not in kept)))
        return value

    if negative := money_words.negative_number(text):
        return replace(clause, left=(negative,)), ""
    holiday = take("holiday", periods.take_holiday) if intent in ("hours", "calendar") else None
    on = take("on", periods.take_tomorrow) if intent in ("hours", "calendar") else None
    on = on or take("on", periods.take_date)
    if unclear := money_words.unclear_number(rest):
        return replace(clause, left=(unclear,)), ""
    quantity = take("quantity", money_words.take_quantity) if intent not in ("change", "compare", "alert_add") else None
    period = take("period", periods.take_period)
    currency = take("currency", money_words.take_target)
    bare = intent in ("convert", "alert_add", "alert_remove") or _ONLY_A_NUMBER.fullmatch(rest.strip()) is not None
    amounts = take("amounts", lambda each: money_words.take_amounts(each, bare=bare))
    return replace(
        clause,
        holiday=holiday,
        on=None if on == UNKNOWN else on,
        period=UNKNOWN if on == UNKNOWN else period,
        quantity=quantity,
        currency=currency,
        amounts=amounts,
        side=_side(text),
        distance=_side(text) is not None and not _LEVEL.search(text),
        everything=bool(_ALL.search(text)),
        aspects=tuple(name for name, pattern in ASPECTS.items() if pattern.search(text)),
        taken=tuple(taken),
    ), rest


def _side(text: str) -> Literal["above", "below", "both"] | None:
    below, above = bool(_BELOW.search(text)), bool(_ABOVE.search(text))
    return "both" if below and above else "below" if below else "above" if above else None


def _understood(clause: Clause, rest: str) -> Clause:
    """What the pieces mean together: an amount of money alone is a conversion, a time alone a change."""
    intent = clause.intent if clause.intent not in POLITE else None
    timed = bool(clause.period or clause.on)
    if intent in ("price", "about", None):
        money = any(amount.currency for amount in clause.amounts)
        intent = "convert" if money else "change" if timed else intent
    if intent == "calendar" and _NOW.search(clause.text) and not clause.holiday:
        intent = "hours"
    names, left = names_in(rest, intent, past=timed or bool(_PREVIOUS.search(clause.text)))
    if clause.intent in POLITE and not (names or left or clause.taken):
        return clause
    clause = replace(clause, intent=intent, names=names, left=left, sure=clause.intent not in (None, "about", *POLITE))
    if intent is None and names and not (clause.currency or clause.quantity or is_bare(rest)):
        return replace(clause, left=(*left, *names), names=())
    return _with_usual_period(_as_conversion(clause))


def _with_usual_period(clause: Clause) -> Clause:
    """An opening price is that of the day; an extreme of no time at all, or of two times, is nothing we can look at."""
    timed = clause.period or clause.on
    if clause.period == periods.SINCE_YESTERDAY:
        return replace(clause, period=None)
    if timed and clause.period != "day" and _NOW.search(clause.text):
        return replace(clause, period=UNKNOWN)
    if clause.intent == "change" and not timed and {"opening", "extremes"} & {*clause.aspects}:
        return replace(
            clause, period="day" if "opening" in clause.aspects or _OF_THE_DAY.search(clause.text) else UNKNOWN
        )
    return clause


def _as_conversion(clause: Clause) -> Clause:
    """Money in another money: `100 dollars`, `유로 원화로`. A coin by itself is priced and not converted."""
    currencies = tuple(name for name in clause.names if currency_of(name))
    real = tuple(name for name in clause.names if name not in currencies)
    money = any(amount.currency for amount in clause.amounts)
    if clause.intent not in (None, "price", "about", "change", "convert") or real:
        return clause
    if money or (clause.intent == "convert" and clause.amounts):
        target = clause.currency or (currency_of(currencies[0]) if currencies else None)
        extra = currencies[0 if clause.currency else 1 :]
        return replace(clause, intent="convert", names=(), currency=target, left=(*clause.left, *extra))
    source = currency_of(currencies[0]) if len(currencies) == 1 else None
    if clause.currency and source in FIAT and not clause.amounts:
        return replace(clause, intent="convert", names=(), amounts=(Amount(Decimal(1), source),))
    return clause
