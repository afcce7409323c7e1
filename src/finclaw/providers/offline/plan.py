"""From what was understood to what is done: tool calls and plain sentences, in the order in which they were wanted."""

from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import Struct

from finclaw.kernel.language import Language
from finclaw.kernel.message import ToolCall
from finclaw.providers.offline.clause import Clause
from finclaw.providers.offline.dialogue import Dialogue
from finclaw.providers.offline.follow_up import chosen, completed
from finclaw.providers.offline.intent import POLITE, Intent
from finclaw.providers.offline.names import MOST_NAMES
from finclaw.providers.offline.periods import UNKNOWN
from finclaw.providers.offline.question import Question
from finclaw.providers.offline.sayings import Saying

TOOLS = frozenset(
    (
        *("market__quote", "market__history", "market__compare", "market__hours", "market__calendar"),
        *("fx__convert", "portfolio__show", "alert__add", "alert__list", "alert__remove"),
    )
)
"""The only tools it ever calls, whatever a message says."""

Wish = tuple[str, dict[str, Any]]
"""A tool's name and its arguments."""


class Step(Struct, frozen=True):
    """One thing to do for one clause: a call, or a sentence where there is nothing to look up."""

    clause: Clause
    call: ToolCall | None = None
    saying: Saying | None = None


def plan(question: Question, dialogue: Dialogue) -> tuple[Step, ...]:
    if question.too_long:
        return (Step(Clause(text=""), saying="too_long"),)
    steps = list(_steps(question, dialogue))
    useful = [step for step in steps if step.saying not in POLITE]
    once = {(step.saying, step.call.id if step.call else ""): step for step in reversed(useful or steps[:1])}
    return tuple(reversed(once.values())) or (Step(Clause(text=""), saying="unknown"),)


def _steps(question: Question, dialogue: Dialogue) -> Iterator[Step]:
    said: Clause | None = None
    for clause in question.clauses:
        wishes = chosen(clause, dialogue)
        if wishes:
            yield from (Step(clause, call=_call(dialogue.now.message_id, wish)) for wish in wishes)
            continue
        said = completed(clause, dialogue, said)
        for wish in _wishes(said, question.language):
            if isinstance(wish, tuple):
                yield Step(said, call=_call(dialogue.now.message_id, wish))
            else:
                yield Step(said, saying=wish)


def _call(message_id: str, wish: Wish) -> ToolCall:
    """Its id is made from the message and the wish, so that a repeated request repeats it and nothing else does."""
    name, args = wish
    digest = blake2b(message_id.encode() + name.encode() + msgspec.json.encode(args), digest_size=8).hexdigest()
    return ToolCall(f"call_{digest}", name, args)


def split_call(parent: ToolCall, name: str) -> ToolCall:
    """The same question about one of the several names that the parent had."""
    key = "market" if "market" in parent.args else "symbol"
    return _call(parent.id, (parent.name, {**parent.args, key: name}))


# ── one function for each thing people want ─────────────────────────────────────────────────────────────────

_Planned = tuple[Wish | Saying, ...]


def _wishes(clause: Clause, language: Language) -> _Planned:
    if clause.intent is None:
        return ("ok" if clause.reply else "unknown",)
    if len(clause.names) > MOST_NAMES:
        return ("too_many",)
    planner = _PLANNERS.get(clause.intent)
    return planner(clause, language) if planner is not None else (_SAYING_FOR.get(clause.intent, "unknown"),)


def _price(clause: Clause, language: Language) -> _Planned:
    if not clause.names:
        return ("which_one",) if clause.intent == "price" else ("unknown",)
    extra = {"in_currency": clause.currency} if clause.currency else {}
    return tuple(("market__quote", {"symbol": name, **extra}) for name in clause.names)


def _change(clause: Clause, language: Language) -> _Planned:
    if clause.period == UNKNOWN:
        return ("periods",)
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
    if clause.names:
        return tuple((tool, {"market": name}) for name in clause.names)
    return ((tool, {"market": "KRX"} if language == "ko" else {}),)


def _convert(clause: Clause, language: Language) -> _Planned:
    given = next((amount for amount in clause.amounts if amount.currency), None)
    amount = given or next(iter(clause.amounts), None)
    if amount is None or (amount.currency is None and clause.currency is None):
        return ("how_much",)
    source = amount.currency or ("USD" if clause.currency == "KRW" else "KRW")
    target = clause.currency or ("USD" if source == "KRW" else "KRW")
    return (("fx__convert", {"amount": f"{amount.value:f}", "from": source, "to": target}),)


def _portfolio(clause: Clause, language: Language) -> _Planned:
    default = "KRW" if language == "ko" else "USD"
    wanted = clause.currency if clause.currency in ("KRW", "USD") else default
    return (("portfolio__show", {"in_currency": wanted}),)


def _alert_add(clause: Clause, language: Language) -> _Planned:
    if not clause.names or not clause.amounts:
        return ("alert_how",)
    amount = clause.amounts[-1]
    args: dict[str, Any] = {"symbol": clause.names[0], "price": f"{amount.value:f}"}
    if amount.currency:
        args["currency"] = amount.currency
    if clause.side:
        args["side"] = clause.side
    return (("alert__add", args),)


def _alert_list(clause: Clause, language: Language) -> _Planned:
    return (("alert__list", {}),)


def _alert_remove(clause: Clause, language: Language) -> _Planned:
    if clause.names:
        at = {"price": f"{clause.amounts[-1].value:f}"} if clause.amounts else {}
        return tuple(("alert__remove", {"symbol": name, **at}) for name in clause.names)
    return (("alert__remove", {"all": True}),) if clause.everything else ("alert_which",)


_SAYING_FOR: dict[Intent, Saying] = {
    "trade": "trade",
    "advice": "advice",
    "real": "real",
    "help": "help",
    "thanks": "thanks",
    "bye": "bye",
    "greeting": "greeting",
}
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
}
