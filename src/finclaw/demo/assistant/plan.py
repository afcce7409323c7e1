"""The plan of an answer: tool calls and plain sentences, in the order in which they were wanted."""

import re
from collections.abc import Callable, Iterator, Mapping
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import Struct

from finclaw.demo.assistant.clause import ASPECTS, Clause, read_clause
from finclaw.demo.assistant.dialogue import Dialogue, candidates_of
from finclaw.demo.assistant.follow_up import choose_offer, complete_clause, resume_clause
from finclaw.demo.assistant.intent import POLITE, Intent
from finclaw.demo.assistant.money_words import currency_of
from finclaw.demo.assistant.names import MOST_NAMES
from finclaw.demo.assistant.periods import UNKNOWN
from finclaw.demo.assistant.question import ParsedQuestion, read_question
from finclaw.demo.assistant.sayings import Saying
from finclaw.kernel.message import ToolCall
from finclaw.kernel.person import reader_zone
from finclaw.numerals.tables import FIAT
from finclaw.text import Language

TOOLS = frozenset(
    (
        *("market__quote", "market__history", "market__compare", "market__hours", "market__calendar"),
        *("fx__convert", "portfolio__show", "alert__add", "alert__list", "alert__remove"),
        *("market__chart", "calc__evaluate", "time__now"),
    )
)
"""The only tools it ever calls, whatever a message says."""

Wish = tuple[str, dict[str, Any]]
"""A tool's name and its arguments."""


class PlanStep(Struct, frozen=True):
    """One thing to do for one clause: a call, or a sentence; `words` are those that were not understood."""

    clause: Clause
    call: ToolCall | None = None
    saying: Saying | None = None
    words: tuple[str, ...] = ()


_USED: dict[Intent, str] = {
    **{"price": "currency quantity", "about": "currency quantity", "change": "period on", "compare": "period"},
    **{"hours": "on holiday", "calendar": "holiday", "convert": "amounts currency", "portfolio": "currency"},
    **{"alert_add": "amounts", "alert_remove": "amounts", "alert_list": "", "clock": "", "calc": ""},
}
"""What each kind of question makes use of. Whatever else a person said with it is not passed over."""
_NAMELESS: frozenset[Intent] = frozenset(("convert", "portfolio", "alert_list", "calc"))


def not_understood(clause: Clause) -> tuple[str, ...]:
    """The words of a clause that its plan would pass over."""
    if clause.intent is None or clause.intent not in _USED:
        return clause.left
    used = _USED[clause.intent].split()
    names = clause.names if clause.intent in _NAMELESS else ()
    if clause.currency or clause.intent == "compare":  # "in won and yen", "euro vs dollar": these are no instruments
        names = (*names, *(name for name in clause.names if currency_of(name) in FIAT))
    unused = (said for slot, said in clause.taken if slot not in used)
    return tuple(dict.fromkeys((*clause.left, *names, *unused, *_untold(clause))))


def _untold(clause: Clause) -> Iterator[str]:
    """Words for a figure that the tool of this question does not give."""
    intent = clause.intent
    over_time = intent == "compare" or (intent == "change" and (clause.period or clause.on))
    unused = {
        "volume": over_time,
        "opening": over_time and clause.period != "day",
        "extremes": clause.on or clause.period == "yesterday" or intent == "compare",
        "quantity": len(clause.names) > 1,
        "amounts": intent == "convert" and len(clause.amounts) > 1,
        "currency": intent == "portfolio" and clause.currency not in (None, "KRW", "USD"),
        "on": intent == "hours" and clause.on != "tomorrow" and len(clause.on or "") < len("2026-11-26"),
    }
    aspects = ((name, word) for name in clause.aspects for word in ASPECTS[name].findall(clause.text))
    yield from (word for name, word in (*aspects, *clause.taken) if unused.get(name))


def plan(question: ParsedQuestion, dialogue: Dialogue) -> tuple[PlanStep, ...]:
    if question.too_long or question.too_many:
        return (PlanStep(Clause(text=""), saying="too_long" if question.too_long else "too_many"),)
    steps = list(_steps(question, dialogue))
    kept = [step for step in steps if step.saying not in POLITE] or steps[:1]
    once = {
        (each.saying, each.words, each.clause.quantity, each.call and each.call.id): each for each in reversed(kept)
    }
    return tuple(reversed(once.values())) or (PlanStep(Clause(text=""), saying="unknown"),)


def _steps(question: ParsedQuestion, dialogue: Dialogue) -> Iterator[PlanStep]:
    said: Clause | None = None
    for clause in question.clauses:
        wishes = choose_offer(clause, dialogue)
        if wishes:
            yield from (PlanStep(clause, call=_call(dialogue.now.message_id, wish)) for wish in wishes)
            continue
        if clause.reply == "yes" and any(len(candidates_of(each)[1]) > 1 for each in dialogue.offered.results):
            yield PlanStep(clause, saying="which_one")
            continue
        asked = asked_before(dialogue) if said is None else None
        if asked and asked.intent == "alert_add" and clause.amounts and clause.intent in (None, "convert"):
            clause = read_clause(clause.text, "alert_add")  # noqa: PLW2901
        said = (asked and resume_clause(clause, asked)) or complete_clause(clause, dialogue, said)
        if words := not_understood(said):
            yield PlanStep(said, saying="left", words=words)
            continue
        for wish in _wishes(said, question.language):
            if isinstance(wish, tuple):
                yield PlanStep(said, call=_call(dialogue.now.message_id, wish))
            else:
                yield PlanStep(said, saying=wish)


def asked_before(dialogue: Dialogue) -> Clause | None:
    """The clause of the message before this one, if it was one clause and led to a question back."""
    if dialogue.offered.answered_calls or not dialogue.offered.text:
        return None
    if refused := next((call for call in dialogue.offered.calls if call.name == "alert__add"), None):
        return Clause(text="", intent="alert_add", names=(str(refused.args.get("symbol")),))
    clauses = read_question(dialogue.offered.text).clauses
    return complete_clause(clauses[0], dialogue, None) if len(clauses) == 1 and not clauses[0].left else None


def _call(message_id: str, wish: Wish) -> ToolCall:
    """Its id is made from the message and the wish, so that a repeated request repeats it and nothing else does."""
    name, args = wish
    digest = blake2b(message_id.encode() + name.encode() + msgspec.json.encode(args), digest_size=8).hexdigest()
    return ToolCall(f"call_{digest}", name, args)


def split_call(parent: ToolCall, name: str) -> ToolCall:
    """The same question about one of the several names that the parent had."""
    key = "market" if "market" in parent.args else "symbol"
    return _call(parent.id, (parent.name, {**parent.args, key: name}))


def product_call(parent: ToolCall, expression: str) -> ToolCall:
    return _call(parent.id, ("calc__evaluate", {"expression": expression}))


# ── one function for each thing people want ─────────────────────────────────────────────────────────────────

_Planned = tuple[Wish | Saying, ...]


def _wishes(clause: Clause, language: Language) -> _Planned:
    if clause.intent is None:
        return ("ok" if clause.reply else "unknown",)
    if len(clause.names) > MOST_NAMES:
        return ("too_many",)
    match clause.intent:
        case "trade" | "advice" | "news" | "real" | "help" | "thanks" | "bye" | "greeting" as saying:
            return (saying,)
        case intent:
            return _PLANNERS[intent](clause, language)


def _price(clause: Clause, language: Language) -> _Planned:
    if not clause.names:
        return ("which_one",) if clause.intent == "price" else ("unknown",)
    extra = {"in_currency": clause.currency} if clause.currency else {}
    return tuple(("market__quote", {"symbol": name, **extra}) for name in clause.names)


_CHART_PERIODS: Mapping[str | None, str] = {
    None: "6M",
    "day": "1D",
    "week": "5D",
    "this_week": "5D",
    "month": "1M",
    "quarter": "3M",
    "year": "1Y",
    "year_to_date": "YTD",
}
"""Periods that a chart has; of the others the figures are told."""


def _chart_period(clause: Clause) -> str | None:
    """None: no chart is wanted. One that was wanted before has its period already."""
    if clause.period in _CHART_PERIODS.values():
        return clause.period
    is_chart = "chart" in clause.text.casefold() or "차트" in clause.text
    return _CHART_PERIODS.get(clause.period) if is_chart and clause.on is None else None


def _change(clause: Clause, language: Language) -> _Planned:
    if clause.period == UNKNOWN:
        return ("periods",)
    if clause.names and (period := _chart_period(clause)) is not None:
        wanted = {"period": period, "language": language}
        return tuple(("market__chart", {"symbol": name, **wanted}) for name in clause.names)
    if clause.on is not None and clause.names:
        return tuple(("market__history", {"symbol": name, "on": clause.on}) for name in clause.names)
    if clause.period is None:  # a quote tells the change of the day, and the price with it
        return _price(clause, language) if clause.names else ("which_one",)
    if not clause.names:
        return ("which_one",)
    return tuple(("market__history", {"symbol": name, "period": clause.period}) for name in clause.names)


def _compare(clause: Clause, language: Language) -> _Planned:
    if clause.period == UNKNOWN:
        return ("periods",)
    if not clause.names:
        return ("which_two",)
    return (("market__compare", {"symbols": list(clause.names), "period": clause.period or "month"}),)


def _hours(clause: Clause, language: Language) -> _Planned:
    return _market("market__hours", clause, language)


def _calendar(clause: Clause, language: Language) -> _Planned:
    return _market("market__calendar", clause, language)


def _market(tool: str, clause: Clause, language: Language) -> _Planned:
    """Whoever asks in Korean for "the market" means Seoul; in English it may be either."""
    extra: dict[str, Any] = {}
    if clause.holiday:
        tool, extra = "market__calendar", {"holiday": clause.holiday}
    elif clause.on:
        extra = {"on": clause.on}
    if clause.names:
        return tuple((tool, {"market": name, **extra}) for name in clause.names)
    return ((tool, {"market": "KRX", **extra} if language == "ko" else extra),)


def _convert(clause: Clause, language: Language) -> _Planned:
    amount = next(iter(clause.amounts), None)
    if amount is None or amount.currency is None:
        return ("how_much",)
    target = clause.currency or ("USD" if amount.currency == "KRW" else "KRW")
    return (("fx__convert", {"amount": f"{amount.value:f}", "from": amount.currency, "to": target}),)


def _portfolio(clause: Clause, language: Language) -> _Planned:
    default = "KRW" if language == "ko" else "USD"
    return (("portfolio__show", {"in_currency": clause.currency or default}),)


def _alert_add(clause: Clause, language: Language) -> _Planned:
    if len(clause.names) > 1 or len(clause.amounts) > 1 or clause.side == "both" or clause.distance:
        return ("alert_one",)
    if not clause.names or not clause.amounts:
        return ("alert_how",)
    amount = clause.amounts[0]
    args: dict[str, Any] = {"symbol": clause.names[0], "price": f"{amount.value:f}"}
    if amount.currency:
        args["currency"] = amount.currency
    if clause.side:
        args["side"] = clause.side
    return (("alert__add", args),)


def _alert_list(clause: Clause, language: Language) -> _Planned:
    return (("alert__list", {}),)


def _alert_remove(clause: Clause, language: Language) -> _Planned:
    several = len(clause.names) > 1 or len(clause.amounts) > 1 or (clause.names and clause.everything)
    if several or _NUMBERED.search(clause.text):
        return ("alert_which",)
    if clause.names:
        at = {"price": f"{clause.amounts[0].value:f}"} if clause.amounts else {}
        return (("alert__remove", {"symbol": clause.names[0], **at}),)
    return (("alert__remove", {"all": True}),) if clause.everything else ("alert_which",)


_NUMBERED = re.compile(r"\d+\s?번|\balerts?\s+(?:number\s+|no\.?\s*)?#?\d+\b|#\d+", re.IGNORECASE)


def _clock(clause: Clause, language: Language) -> _Planned:
    if len(clause.names) > 1:
        return ("unknown",)
    where = clause.names[0] if clause.names else "Asia/Seoul" if language == "ko" and reader_zone() is None else ""
    return (("time__now", {"timezone": where} if where else {}),)


_PLANNERS: dict[Intent, Callable[[Clause, Language], _Planned]] = {
    "price": _price,
    "about": _price,
    "change": _change,
    "compare": _compare,
    "hours": _hours,
    "calendar": _calendar,
    "convert": _convert,
    "portfolio": _portfolio,
    "alert_add": _alert_add,
    "alert_list": _alert_list,
    "alert_remove": _alert_remove,
    "calc": lambda clause, language: (("calc__evaluate", {"expression": clause.expression or ""}),),
    "clock": _clock,
}
