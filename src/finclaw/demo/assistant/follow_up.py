"""Follow-up questions, completed by what was said before: "and MSFT?", "그럼 원화로는?", "last month?", "the first"."""

import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from msgspec.structs import replace

from finclaw.demo.assistant.clause import Clause
from finclaw.demo.assistant.dialogue import Candidate, Dialogue, Exchange, candidates_of
from finclaw.demo.assistant.intent import ABOUT_INSTRUMENTS, Intent
from finclaw.demo.assistant.money_words import Amount, currency_of
from finclaw.demo.assistant.periods import UNKNOWN
from finclaw.demo.assistant.vocabulary import PARTICLE
from finclaw.finance.hours import find_venue
from finclaw.kernel.message import ToolCall

_INTENT_OF: dict[str, Intent] = {
    "market__quote": "price",
    "market__history": "change",
    "market__chart": "change",
    "market__compare": "compare",
    "market__hours": "hours",
    "market__calendar": "calendar",
    "fx__convert": "convert",
    "portfolio__show": "portfolio",
}


def choose_offer(clause: Clause, dialogue: Dialogue) -> tuple[tuple[str, dict[str, Any]], ...]:
    """The calls of the exchange before, with the offer that was taken up put in place of the name that failed."""
    says_more = any(slot != "amounts" or clause.place is None for slot, _ in clause.taken)
    if clause.intent not in (None, "price", "about") or clause.left or says_more:
        return ()
    again: list[tuple[str, dict[str, Any]]] = []
    for call in dialogue.offered.calls:
        asked, candidates = candidates_of(dialogue.offered.result_of(call))
        taken = _pick(clause, candidates)
        if taken is not None and not (call.name.startswith("alert__") and " " in asked):  # a word more may be a "not"
            again.append((call.name, _with_name(call, asked, taken.symbol)))
    return tuple(again)


def resume_clause(clause: Clause, asked: Clause) -> Clause | None:
    """A question of ours that is being answered: the clause that we asked about, with what it lacked."""
    if clause.left or clause.intent not in (None, "change", "convert", "alert_add"):
        return None
    if asked.intent == "alert_add" and clause.amounts and not clause.names:
        return replace(clause, intent="alert_add", names=asked.names, side=clause.side or asked.side)
    if asked.period == UNKNOWN and clause.period not in (None, UNKNOWN) and not (clause.names or clause.amounts):
        return replace(asked, period=clause.period, taken=clause.taken)
    if asked.intent == "compare" and clause.names and clause.intent is None:
        return replace(asked, names=(*asked.names, *clause.names), taken=clause.taken)
    return None


def complete_clause(clause: Clause, dialogue: Dialogue, said: Clause | None) -> Clause:
    """The clause with what it leaves out, from the clause before it in the message or from the exchange before."""
    if clause.left:
        return clause
    if clause.intent is None:
        clause = _with_intent(clause, dialogue.before, said)
    last = _last_call(dialogue.before)
    was_comparison = said.intent == "compare" if said else last is not None and last.name == "market__compare"
    if clause.intent == "change" and clause.period and not clause.names and was_comparison:
        clause = replace(clause, intent="compare")
    if clause.intent in ABOUT_INSTRUMENTS and not clause.names:
        names = said.names if said and said.names else dialogue.before.symbols
        clause = replace(clause, names=names)
    if clause.intent == "compare" and len(clause.names) == 1 and "period" not in dict(clause.taken):  # "vs apple"
        known = said.names if said and said.names else dialogue.before.symbols
        clause = replace(clause, names=tuple(dict.fromkeys((*known, *clause.names))))
    if clause.intent == "hours" and not clause.names and dialogue.before.symbols and _points_back(clause):
        clause = replace(clause, names=dialogue.before.symbols[:1])
    return clause


def _last_call(before: Exchange) -> ToolCall | None:
    return next((call for call in reversed(before.answered_calls) if call.name in _INTENT_OF), None)


def _with_intent(clause: Clause, before: Exchange, said: Clause | None) -> Clause:
    """A clause that only names something wants what was wanted last."""
    if said is not None and said.intent in ("price", "change", "hours", "compare"):
        if clause.names or clause.currency:
            return replace(clause, intent=said.intent, period=clause.period or said.period)
        return clause
    if (last := _last_call(before)) is None:
        return replace(clause, intent=_by_itself(clause))
    return _repeat_question(clause, last, before)


def _repeat_question(clause: Clause, last: ToolCall, before: Exchange) -> Clause:
    """The last question with one thing in it changed. The first edit that makes sense is meant."""
    for edit in (_other_money, _other_total, _other_currency, _other_names, _other_quantity):
        edited = edit(clause, last, before)
        if edited is not None:
            return edited
    return clause


def _other_money(clause: Clause, last: ToolCall, before: Exchange) -> Clause | None:
    """After a conversion: another amount, or into another currency."""
    currencies = tuple(filter(None, map(currency_of, clause.names)))
    wanted = clause.currency or next(iter(currencies), None)
    if last.name != "fx__convert" or not (wanted or clause.amounts) or len(currencies) != len(clause.names):
        return None
    source, target = str(last.args.get("from")), wanted or str(last.args.get("to"))
    amounts = clause.amounts or (Amount(Decimal(str(last.args.get("amount", "0"))), source),)
    given = tuple(replace(each, currency=each.currency or source) for each in amounts)
    return replace(clause, intent="convert", names=(), amounts=given, currency=target)


def _other_total(clause: Clause, last: ToolCall, before: Exchange) -> Clause | None:
    asks = last.name == "portfolio__show" and clause.currency and not clause.names
    return replace(clause, intent="portfolio") if asks else None


def _other_quantity(clause: Clause, last: ToolCall, before: Exchange) -> Clause | None:
    if clause.quantity is None or last.name != "market__quote":
        return None
    currency = last.args.get("in_currency")
    return replace(clause, intent="price", names=before.symbols, currency=str(currency) if currency else None)


def _other_currency(clause: Clause, last: ToolCall, before: Exchange) -> Clause | None:
    if not clause.currency:
        return None
    return replace(clause, intent="price", names=clause.names or before.symbols)


def _other_names(clause: Clause, last: ToolCall, before: Exchange) -> Clause | None:
    if not clause.names:
        return None
    period, on, currency = last.args.get("period"), last.args.get("on"), last.args.get("in_currency")
    if on is not None and last.name == "market__history":
        return replace(clause, intent="change", on=str(on))
    match _INTENT_OF[last.name]:
        case "compare":
            names = tuple(dict.fromkeys((*before.symbols, *clause.names)))
            return replace(clause, intent="compare", names=names, period=str(period))
        case "change":
            return replace(clause, intent="change", period=str(period))
        case "hours" | "calendar" as intent:
            # "And New York?" goes on about hours. A share has none of its own: whoever names one wants its price.
            is_market = all(find_venue(name) is not None for name in clause.names)
            return replace(clause, intent=intent if is_market else "price")
        case _:
            in_quote = last.name == "market__quote" and currency
            return replace(clause, intent="price", currency=str(currency) if in_quote else None)


def _by_itself(clause: Clause) -> Intent | None:
    return "price" if clause.names else None


def _points_back(clause: Clause) -> bool:
    words = set(clause.text.casefold().replace("?", " ").split())
    return bool(words & {"it", "its", "that", "there", "거기", "거기는", "그거", "그건", "그", "거긴"})


# ── offers taken up ─────────────────────────────────────────────────────────────────────────────────────────


def _pick(clause: Clause, candidates: tuple[Candidate, ...]) -> Candidate | None:
    """By place, by yes when there is one, or by a part of the name that only one of them has."""
    if clause.place is not None:
        return candidates[clause.place] if clause.place < len(candidates) else None
    if clause.reply == "yes":
        return candidates[0] if len(candidates) == 1 else None
    for name in clause.names:
        fitting = [each for each in candidates if _fits(name, each)]
        exact = [each for each in fitting if {*_forms(name)} & set(map(_letters_only, _words(each)))]
        if len(exact or fitting) == 1:
            return (exact or fitting)[0]
    return None


def _fits(name: str, candidate: Candidate) -> bool:
    """The name, or a part of it, and nothing beside it: a word more would be passed over."""
    return any(len(form) > 1 and form in _letters_only(word) for form in _forms(name) for word in _words(candidate))


def _forms(name: str) -> tuple[str, str]:
    return _letters_only(name), _letters_only(re.sub(f"{PARTICLE}$", "", name))


def _words(candidate: Candidate) -> Iterable[str]:
    return candidate.symbol, candidate.name_en, candidate.name_ko


def _letters_only(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))


def _with_name(call: ToolCall, asked: str, symbol: str) -> dict[str, Any]:
    args = dict(call.args)
    for key in ("symbol", "market"):
        if key in args:
            args[key] = symbol
    if "symbols" in args:
        args["symbols"] = [symbol if " ".join(str(each).split()) == asked else each for each in args["symbols"]]
    return args
