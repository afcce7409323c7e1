"""One clause of a message, read: what is wanted, of what, over which time, in which currency."""

import re
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from finclaw.providers.offline.intent import POLITE, Intent, intent_of, without_politeness
from finclaw.providers.offline.money_words import Amount, currency_of, take_amounts, take_target
from finclaw.providers.offline.names import bare_names_in, names_in
from finclaw.providers.offline.periods import take_period

Reply = Literal["yes", "no"]

_BELOW = re.compile(
    r"\b(?:below|under|falls?|drops?|dips?|down|less than|lower|loses?)\b|이하|아래|밑|내리|내려|떨어|하락|미만", re.I
)
_ABOVE = re.compile(
    r"\b(?:above|over|hits?|rises?|climbs?|exceeds?|more than|higher|up)\b|이상|넘|오르|올라|위로|돌파|상승|초과", re.I
)
_ALL = re.compile(r"\ball\b|\bevery(?:thing)?\b|전부|모두|모든|다\s?(?:지워|삭제|취소|없애)", re.I)
_VOLUME = re.compile(r"\bvolume\b|거래량", re.I)
_YES = re.compile(
    "(?:yes|yeah|yep|yup|sure|ok(?:ay)?|right|correct|y|exactly|that one"
    "|네|넵|예|응|ㅇㅇ|웅|맞아요?|맞습니다|그래요?|좋아요?|어)",
    re.I,
)
_NO = re.compile(
    r"(?:no|nope|nah|n|neither|none|아니요?|아니오|ㄴㄴ|아냐|아뇨|됐어요?|괜찮아요?)(?: thanks?(?: you)?)?", re.I
)
_PLACES = (
    re.compile(r"\b(?:first|1st)\b|첫\s?번?째|첫째|1번", re.I),
    re.compile(r"\b(?:second|2nd)\b|두\s?번째|둘째|2번", re.I),
    re.compile(r"\b(?:third|3rd)\b|세\s?번째|셋째|3번", re.I),
)


class Clause(Struct, frozen=True, kw_only=True):
    text: str
    intent: Intent | None = None
    names: tuple[str, ...] = ()
    period: str | None = None
    amounts: tuple[Amount, ...] = ()
    currency: str | None = None
    """The one that is wanted, not the one that is given."""
    side: Literal["above", "below"] | None = None
    everything: bool = False
    volume: bool = False
    reply: Reply | None = None
    place: int | None = None
    """`the second one`: a choice among what was offered, counted from zero."""
    sure: bool = True
    """False when the names are only a guess: nothing in the clause asks for a price."""

    @property
    def says_nothing(self) -> bool:
        return (
            not (self.intent or self.names or self.period or self.amounts or self.currency or self.reply)
            and self.place is None
        )


def read_clause(text: str) -> Clause:
    said = text.strip(" \t.,!?~…？！。")
    if _YES.fullmatch(said):
        return Clause(text=text, reply="yes")
    if _NO.fullmatch(said):
        return Clause(text=text, reply="no")
    intent = intent_of(text)
    period, rest = take_period(text)
    currency, rest = take_target(rest)
    amounts, rest = take_amounts(rest)
    place = next((index for index, pattern in enumerate(_PLACES) if pattern.search(text)), None)
    clause = Clause(
        text=text,
        intent=intent,
        period=period,
        currency=currency,
        amounts=amounts,
        side=_side(text),
        everything=bool(_ALL.search(text)),
        volume=bool(_VOLUME.search(text)),
        place=place,
    )
    return _understood(clause, rest)


def _side(text: str) -> Literal["above", "below"] | None:
    if _BELOW.search(text):
        return "below"
    return "above" if _ABOVE.search(text) else None


def _understood(clause: Clause, rest: str) -> Clause:
    """What the pieces mean together: an amount of money alone is a conversion, a time alone a change."""
    if clause.intent is None or (clause.intent in POLITE and bare_names_in(without_politeness(rest))):
        return _without_intent(replace(clause, intent=None), without_politeness(rest))
    names = names_in(rest)
    money = any(amount.currency for amount in clause.amounts)
    if clause.intent in ("price", "change", "about") and money and not _real_names(names):
        return replace(clause, intent="convert", currency=clause.currency or _only_currency(names))
    if clause.intent == "convert":
        return replace(clause, currency=clause.currency or _only_currency(names))
    if clause.intent in ("price", "about") and clause.period and clause.period != "day":
        return replace(clause, intent="change", names=names)
    return replace(clause, names=names, sure=clause.intent != "about")


def _without_intent(clause: Clause, rest: str) -> Clause:
    names = bare_names_in(rest)
    money = any(amount.currency for amount in clause.amounts)
    if money and not _real_names(names):
        return replace(clause, intent="convert", currency=clause.currency or _only_currency(names))
    if clause.period and not names:  # else the time would be taken for a word about what was spoken of before
        names = names_in(rest)
    if clause.period and names:
        return replace(clause, intent="change", names=names, sure=False)
    return replace(clause, names=names, sure=False)


def _real_names(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in names if currency_of(name) is None)


def _only_currency(names: tuple[str, ...]) -> str | None:
    return next((code for name in names if (code := currency_of(name))), None)
