"""The whole answer: one paragraph for each thing that was asked, in its order, in one language."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from finclaw.demo.assistant.clause import Clause
from finclaw.demo.assistant.dialogue import Candidate, Exchange, candidates_of, failure_of
from finclaw.demo.assistant.intent import ABOUT_INSTRUMENTS
from finclaw.demo.assistant.plan import PlanStep, product_call, split_call
from finclaw.demo.assistant.sayings import SAYINGS
from finclaw.demo.assistant.tell_basics import tell_left, tell_product, tell_result, tell_time
from finclaw.demo.assistant.tell_market import tell_calendar, tell_conversion, tell_hours
from finclaw.demo.assistant.tell_own import tell_alerts, tell_portfolio
from finclaw.demo.assistant.tell_price import tell_chart, tell_comparison, tell_history, tell_quote
from finclaw.kernel.message import ToolCall, ToolFailure, ToolResult
from finclaw.text import Language

_TELLERS: Mapping[str, Callable[[Language, ToolCall, ToolResult, Clause], str]] = {
    "market__quote": tell_quote,
    "market__history": tell_history,
    "market__chart": tell_chart,
    "market__compare": tell_comparison,
    "market__hours": tell_hours,
    "market__calendar": tell_calendar,
    "fx__convert": tell_conversion,
    "portfolio__show": tell_portfolio,
    "alert__add": tell_alerts,
    "alert__list": tell_alerts,
    "alert__remove": tell_alerts,
    "calc__evaluate": tell_result,
    "time__now": tell_time,
}
_LONGEST_QUOTED = 60
_UNUSABLE: Mapping[str, Mapping[Language, str]] = {
    "timeout": {
        "en": "Looking that up took too long. Please try again in a moment.",
        "ko": "조회가 너무 오래 걸렸습니다. 잠시 후 다시 시도해 주세요.",
    },
    "denied": {"en": "I am not allowed to look that up here.", "ko": "여기에서는 그 조회가 허용되지 않습니다."},
    "unavailable": {
        "en": "The source of that does not answer at the moment. Please try again later.",
        "ko": "지금은 해당 자료 제공처가 응답하지 않습니다. 나중에 다시 시도해 주세요.",
    },
    "awaiting": {"en": "That waits for somebody's approval.", "ko": "담당자의 승인을 기다리고 있습니다."},
    "stopped": SAYINGS["unfinished"],
    "skipped": SAYINGS["unfinished"],
    "unknown": SAYINGS["unfinished"],
    "error": {
        "en": "Sorry, I could not look that up, and I will not guess a figure.",
        "ko": "죄송합니다. 조회하지 못했습니다. 수치를 추측해서 말씀드리지는 않겠습니다.",
    },
}
_FAILURES: Mapping[str, Mapping[Language, str]] = {
    "OnlyOne": SAYINGS["which_two"],
    "SameCurrency": {
        "en": "Both sides are the same currency. Which other one shall I convert into?",
        "ko": "두 통화가 같습니다. 어떤 통화로 바꿀까요?",
    },
    "WrongCurrency": {
        "en": "That instrument trades in another currency ({detail}). Please give me the price in that one.",
        "ko": "그 종목은 다른 통화({detail})로 거래됩니다. 해당 통화로 가격을 알려 주세요.",
    },
    "ImpossiblePrice": {
        "en": "That is not a price it can trade at, so I set no alert. Please give me another one.",
        "ko": "그 종목이 거래될 수 없는 가격이라 알림을 설정하지 않았습니다. 다른 가격을 알려 주세요.",
    },
    "ImplausiblePrice": {
        "en": "That is far from its price. In which currency do you mean it? It trades in {detail}.",
        "ko": "현재 가격과 차이가 큽니다. 어느 통화의 금액인가요? 이 종목은 {detail}(으)로 거래됩니다.",
    },
    "NoSuchSession": {
        "en": "I have no close of that day ({detail}): it is no trading day, lies ahead or is too long ago.",
        "ko": "해당 날짜({detail})의 종가가 없습니다. 휴장일이거나 아직 오지 않았거나 너무 오래된 날짜입니다.",
    },
    "HistoryTooShort": {
        "en": "The prices I can get begin too late for that ({detail}). Please ask for a shorter time.",
        "ko": "제공되는 시세가 그 기간보다 늦게 시작합니다({detail}). 더 짧은 기간으로 물어봐 주세요.",
    },
    "AllSourcesFailed": {
        "en": "No source gives that at the moment ({detail}), so I tell no figure. Please try again later.",
        "ko": "지금은 어느 제공처에서도 가져올 수 없어({detail}) 수치를 드리지 않습니다. 나중에 다시 시도해 주세요.",
    },
    "DataUnsupported": {
        "en": "None of the sources in use has that, so I tell no figure.",
        "ko": "사용 중인 제공처 가운데 그 자료가 있는 곳이 없어 수치를 말씀드리지 못합니다.",
    },
    "UnknownDay": {"en": "That calendar does not know “{detail}”.", "ko": "그 달력에는 “{detail}”이(가) 없습니다."},
    "TooManyAlerts": {
        "en": "You have as many alerts as I can keep. Please remove one first.",
        "ko": "알림이 가득 찼습니다. 먼저 하나를 지워 주세요.",
    },
}
_WHICH: Mapping[Language, str] = {
    "en": "“{name}” may mean several. Which one?",
    "ko": "“{name}”에 해당하는 종목이 여럿입니다. 어느 것인가요?",
}
_NOT_FOUND: Mapping[Language, str] = {
    "en": "Sorry, I know nothing called “{name}”.",
    "ko": "죄송합니다. “{name}”에 해당하는 종목을 찾지 못했습니다.",
}
_GIVE_A_NAME: Mapping[Language, str] = {
    "en": "Please give me its symbol or full name, such as AAPL or Samsung Electronics.",
    "ko": "종목 코드나 정확한 이름을 알려 주세요. 예: AAPL, 삼성전자.",
}


def answer(language: Language, steps: Sequence[PlanStep], now: Exchange) -> str:
    known = {result.call_id for result in now.results}
    if known and not any(step.call and step.call.id in known for step in steps):
        # Looked up by an assistant that planned otherwise, before an update or a crash: tell what there is.
        steps = [PlanStep(Clause(text=now.text), call=call) for call in now.calls]
    paragraphs = [paragraph for step in _all_or_nothing(steps, now) for paragraph in _paragraphs(language, step, now)]
    return "\n\n".join(dict.fromkeys(paragraphs))


def further_calls(steps: Sequence[PlanStep], now: Exchange) -> tuple[ToolCall, ...]:
    """Calls to make because of what was found: a name turned out to be several, or a price has to be multiplied."""
    known = {call.id for call in now.calls}
    several = (call for parent in now.calls for call in _children(parent, now))
    products = (call for step in steps if (call := _product_call(step, now)))
    return tuple(call for call in (*several, *products) if call.id not in known)


def _product_call(step: PlanStep, now: Exchange) -> ToolCall | None:
    """The calculator's part of "ten shares of Apple"."""
    quantity, result = step.clause.quantity, now.result_of(step.call) if step.call else None
    if quantity in (None, 1) or step.call is None or result is None or result.status != "ok":
        return None
    facts = {fact.field: fact for fact in result.facts}
    price = facts.get("price_in") or facts.get("price")
    return product_call(step.call, f"{quantity:f} * {price.value:f}") if price else None


def _all_or_nothing(steps: Sequence[PlanStep], now: Exchange) -> Iterator[PlanStep]:
    """One name of several that nobody knows may be a word that changes the question: then none of them is answered."""
    for step in steps:
        asked = [now.result_of(each.call) for each in steps if each.clause == step.clause and each.call]
        unknown = tuple(candidates_of(each)[0] for each in asked if failure_of(each, "UnknownName") is not None)
        yield replace(step, call=None, saying="left", words=unknown) if unknown and len(asked) > 1 else step


def _paragraphs(language: Language, step: PlanStep, now: Exchange) -> Iterator[str]:
    if step.saying == "left":
        about = step.clause.names if step.clause.intent in ABOUT_INSTRUMENTS else ()
        yield tell_left(language, step.words, about)
    elif step.saying is not None:
        yield SAYINGS[step.saying][language]
    if product := _product_call(step, now):
        result = now.result_of(product)
        told = tell_product(language, result, now.result_of(step.call)) if result and step.call else None
        yield told or SAYINGS["unfinished"][language]
        if not told:
            return
    if step.call and step.clause.quantity not in (None, 1) and _children(step.call, now):
        yield SAYINGS["too_many"][language]
    elif step.call is not None:
        for call in _children(step.call, now) or (step.call,):
            yield _about(language, step.clause, call, now.result_of(call))


def _children(call: ToolCall, now: Exchange) -> tuple[ToolCall, ...]:
    several = failure_of(now.result_of(call), "SeveralNames")
    if not several or ("symbol" not in call.args and "market" not in call.args):
        return ()
    return tuple(split_call(call, name) for name in several.split("\n")[1:])


def _about(language: Language, clause: Clause, call: ToolCall, result: ToolResult | None) -> str:
    if result is None:
        return SAYINGS["unfinished"][language]
    if result.status == "ok":
        return _describe_result(language, clause, call, result)
    if failure_of(result, "AmbiguousName", "UnknownName") is not None:
        return _asked_back(language, clause, result)
    if result.error and result.error.name in _FAILURES:
        return _FAILURES[result.error.name][language].format(detail=_detail(language, result.error))
    return _UNUSABLE.get(result.status, _UNUSABLE["error"])[language]


def _detail(language: Language, error: ToolFailure) -> str:
    detail = error.suggestion or ""
    if error.name != "AllSourcesFailed":
        return detail
    from finclaw.finance.words import write_failures  # noqa: PLC0415  `cold_cpu`: for live sources alone

    return write_failures(detail.split("; "), language)


def _describe_result(language: Language, clause: Clause, call: ToolCall, result: ToolResult) -> str:
    """A tool of another make may give less than ours do; then there is nothing to tell, and nothing is made up."""
    teller = _TELLERS.get(result.name)
    try:
        told = teller(language, call, result, clause) if teller else ""
    except (KeyError, IndexError, StopIteration, ValueError):
        told = ""
    return told or _UNUSABLE["error"][language]


# ── asking back ─────────────────────────────────────────────────────────────────────────────────────────────


def _asked_back(language: Language, clause: Clause, result: ToolResult) -> str:
    asked, candidates = candidates_of(result)
    if not candidates and not clause.sure:
        return tell_left(language, (asked,), ())
    name = asked if len(asked) <= _LONGEST_QUOTED else asked[:_LONGEST_QUOTED] + "…"
    if failure_of(result, "AmbiguousName") is not None:
        return "\n".join((_WHICH[language].format(name=name), *(f"• {_title(language, each)}" for each in candidates)))
    sorry = _NOT_FOUND[language].format(name=name)
    return f"{sorry} {_perhaps(language, candidates) if candidates else _GIVE_A_NAME[language]}"


def _perhaps(language: Language, candidates: tuple[Candidate, ...]) -> str:
    titles = [_title(language, each) for each in candidates]
    return f"Did you mean {' or '.join(titles)}?" if language == "en" else f"혹시 {' 또는 '.join(titles)}인가요?"


def _title(language: Language, candidate: Candidate) -> str:
    if language == "ko":
        return f"{candidate.name_ko}({candidate.symbol})"
    return f"{candidate.name_en} ({candidate.symbol})"
