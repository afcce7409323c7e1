"""The plan of an answer: what was said before, the question completed from it, and the tool calls."""

from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from finclaw.demo.assistant.patterns import CALENDAR, CHART, COMPARE, CONVERT, HISTORY, HOURS, NEWS, QUOTE, Question
from finclaw.demo.assistant.tokens import CSAT, HALF_YEAR, clean_text
from finclaw.finance.hours import find_venue
from finclaw.finance.instrument import key_of
from finclaw.kernel.message import Message, Text, ToolCall, ToolResult
from finclaw.kernel.person import reader_zone
from finclaw.text import Language

_LOOK_BACK: Final = 8
"""Messages of a person. What was spoken of before that is no longer what "it" means."""
_ARGUMENTS: Final[Mapping[str, Mapping[str, str]]] = {
    QUOTE: {"name": "symbol", "currency": "in_currency", "quantity": ""},
    HISTORY: {"name": "symbol", "period": "period", "date": "on"},
    CHART: {"name": "symbol", "period": "period", "language": "language"},
    COMPARE: {"name": "symbols", "period": "period"},
    HOURS: {"market": "market", "date": "on", "tomorrow": "on"},
    CALENDAR: {"market": "market", "holiday": "holiday"},
    NEWS: {"name": "symbol"},
    CONVERT: {"amount": "amount", "base": "from", "currency": "to"},
    "portfolio__show": {"currency": "in_currency"},
    "time__now": {"city": "timezone"},
    "watch__list": {},
    "watch__add": {"name": "symbols"},
    "watch__remove": {"name": "symbols"},
}
"""The argument of each tool that a slot becomes. A question with a slot that its tool lacks is not answered."""
TOOLS: Final = frozenset((*_ARGUMENTS, "calc__evaluate"))
"""The only tools it ever calls, whatever a message says."""
_ABOUT_INSTRUMENTS: Final = (QUOTE, HISTORY, CHART, COMPARE)
_CHART_PERIODS: Final = {
    **{"": "6M", "day": "1D", "week": "5D", "month": "1M", "quarter": "3M", "year": "1Y", "year_to_date": "YTD"},
    **{HALF_YEAR: "6M"},
}
EXAM_LIMIT: Final = 12
"""By this limit an answer tells a question about the exam from one about holidays."""
_YES: Final = ("yes", "yeah", "yep", "sure", "ok", "okay", "right", "correct", "네", "넵", "예", "응", "맞아", "맞아요")
_ORDINALS: Final = (
    ("1", "first", "1st", "1번", "첫번째", "첫째"),
    ("2", "second", "2nd", "2번", "두번째", "둘째"),
    ("3", "third", "3rd", "3번", "세번째", "셋째"),
)


class Exchange(Struct, frozen=True):
    """One thing a person said, and what the tools have found about it since."""

    text: str = ""
    message_id: str = ""
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()

    def result_of(self, call: ToolCall) -> ToolResult | None:
        return next((result for result in self.results if result.call_id == call.id), None)

    @property
    def question(self) -> Question | None:
        """The question that was answered here, read back from the last call that found something."""
        found = [each for each in self.results if each.status == "ok" and each.name in _ARGUMENTS]
        call = next((each for each in reversed(self.calls) if found and each.id == found[-1].call_id), None)
        if call is None:
            return None
        slots = {slot: str(call.args[key]) for slot, key in _ARGUMENTS[call.name].items() if key in call.args}
        facts = (fact for result in found for fact in result.facts)
        if "name" in slots:
            symbols = dict.fromkeys(fact.subject for fact in facts if fact.field in ("price", "start", "close"))
            slots["name"] = ", ".join(symbols) or slots["name"]
        if call.name == CHART:
            slots.pop("period")
        return Question(tool=call.name, slots=slots)


def read_exchanges(messages: Sequence[Message]) -> list[Exchange]:
    """What was said and found, the latest first; at least this exchange and the one before it."""
    found: list[Exchange] = []
    calls: list[ToolCall] = []
    results: list[ToolResult] = []
    for message in reversed(messages):
        calls[:0] = message.tool_calls
        results[:0] = message.tool_results
        if message.role == "user":  # one without words too: a picture must not be answered with an old price
            found.append(Exchange(words_of(message), message.id, tuple(calls), tuple(results)))
            calls.clear()
            results.clear()
    return [*found, Exchange(), Exchange()][: _LOOK_BACK + 1]


def words_of(message: Message) -> str:
    """What the person wrote: the first text. After it there may be a note by the gateway about an attachment."""
    return next((block.text for block in message.blocks if isinstance(block, Text)), "")


def offer_of(result: ToolResult | None) -> tuple[str, list[list[str]]]:
    """The name that was not certain, and what it may have meant: `symbol | name | Korean name`, a line each."""
    if result is None or result.error is None or result.error.name not in ("AmbiguousName", "UnknownName"):
        return "", []
    asked, *lines = (result.error.suggestion or "").split("\n")
    rows = (line.split(" | ") for line in lines)
    return asked, list(rows)


def choose_offer(now: Exchange, before: Exchange) -> Iterator[ToolCall]:
    """The calls of the exchange before, with the instrument that the person chooses.

    Only a short yes, a number or a part of a name chooses. Anything else is a sentence of its own.
    """
    for call in before.calls:
        asked, candidates = offer_of(before.result_of(call))
        if chosen := _pick(clean_text(now.text).casefold(), candidates):
            yield _with_name(call, asked, chosen, now.message_id)


def _pick(text: str, candidates: Sequence[Sequence[str]]) -> str:
    if text in _YES and len(candidates) == 1:
        return candidates[0][0]
    ordinal = text.removeprefix("the ").removesuffix(" one").replace(" ", "")
    key = key_of(text)
    fitting = [each for each, words in zip(candidates, _ORDINALS, strict=False) if ordinal in words]
    fitting = fitting or [each for each in candidates if key in map(key_of, each)]
    if len(key) > 1:
        fitting = fitting or [each for each in candidates if any(key in key_of(part) for part in each)]
    return fitting[0][0] if len(fitting) == 1 else ""


def _with_name(call: ToolCall, old: str, new: str, parent_id: str) -> ToolCall:
    """The same call about another instrument."""
    args = {key: new if value == old else value for key, value in call.args.items()}
    if "symbols" in args:
        args["symbols"] = [each.replace(old, new) for each in args["symbols"]]
    return make_call(parent_id, call.name, args)


def complete(question: Question, last: Question | None) -> Question | None:
    """The question with what it leaves to the last one; None if there is none, or the two do not go together."""
    slots = question.slots
    if last is None:
        return question if "name" in slots or question.tool not in _ABOUT_INSTRUMENTS else None
    if question.is_bare and "name" in slots:
        return _ask_again(question, last)
    if question.tool == HOURS and question.is_follow_up and "market" not in slots:
        return replace(question, slots={"market": last.slots.get("name") or last.slots.get("market", ""), **slots})
    if question.tool not in _ABOUT_INSTRUMENTS or "name" in slots:
        return question
    if "name" not in last.slots or (question.tool == HISTORY and last.tool == COMPARE):
        return replace(last, slots={**last.slots, **slots})  # in another currency, over another time
    kept = ("name", "currency") if "quantity" in slots else ("name",)
    return replace(question, slots={**{slot: last.slots[slot] for slot in kept if slot in last.slots}, **slots})


def _ask_again(question: Question, last: Question) -> Question:
    """The last question about other instruments or another market: "and Tesla?". A bare name asks for its price."""
    name = question.slots["name"]
    market = find_venue(name)
    if market and last.tool in (HOURS, CALENDAR):
        return replace(last, slots={**last.slots, "market": market.code})
    if not question.is_follow_up or "name" not in last.slots:
        return question
    if last.tool == COMPARE:
        name = f"{last.slots['name']}, {name}"
    return replace(last, slots={**last.slots, "name": name})


def plan_call(question: Question, language: Language, parent_id: str) -> Iterator[ToolCall]:
    """None for what is said without a tool, and for what the tool cannot do."""
    tool = question.tool
    slots = dict(question.slots)
    if tool == HISTORY and slots.get("period") == HALF_YEAR:
        tool = CHART
    if tool == CHART:
        slots |= {"language": language, "period": _CHART_PERIODS.get(slots.get("period", ""), "")}
    if slots.get("holiday") == CSAT:
        yield make_call(parent_id, tool, {"market": "KRX", "limit": EXAM_LIMIT})
    elif tool in _ARGUMENTS and slots.keys() <= _ARGUMENTS[tool].keys() and all(slots.values()):
        args: dict[str, Any] = {_ARGUMENTS[tool][slot]: value for slot, value in slots.items()}
        args = _usual_arguments(tool, language, slots.get("base", "")) | args
        args.pop("", None)
        if "symbols" in args:
            args["symbols"] = [args["symbols"]]
        yield make_call(parent_id, tool, args)


def _usual_arguments(tool: str, language: Language, base: str) -> dict[str, Any]:
    is_korean = language == "ko"  # in Korean "the market" means Seoul
    usual = {
        COMPARE: {"period": "month"},
        CONVERT: {"to": "USD" if base == "KRW" else "KRW"},
        "portfolio__show": {"in_currency": "KRW" if is_korean else "USD"},
        HOURS: {"market": "KRX"} if is_korean else {},
        CALENDAR: {"market": "KRX"} if is_korean else {},
        "time__now": {"timezone": "Asia/Seoul"} if is_korean and reader_zone() is None else {},
    }
    return usual.get(tool, {})


def further_calls(question: Question | None, now: Exchange) -> Iterator[ToolCall]:
    """Calls that follow from results: one for each of several names, a product, and the list after a change of it."""
    for call in now.calls:
        result = now.result_of(call)
        further = [*split_call(call, now), multiply(question, call, now)]
        if call.name in ("watch__add", "watch__remove") and result and result.status == "ok":
            further.append(make_call(now.message_id, "watch__list", {}))
        yield from (each for each in further if each and now.result_of(each) is None)


def make_call(parent_id: str, name: str, args: dict[str, Any]) -> ToolCall:
    """Its id is made from a message or call and what is asked: a repeated request repeats it, and nothing else does."""
    digest = blake2b(parent_id.encode() + name.encode() + msgspec.json.encode(args), digest_size=8).hexdigest()
    return ToolCall(f"call_{digest}", name, args)


def split_call(call: ToolCall, now: Exchange) -> tuple[ToolCall, ...]:
    """The call once for each of the names that it had in one."""
    result = now.result_of(call)
    if result is None or result.error is None or result.error.name != "SeveralNames":
        return ()
    asked, *names = (result.error.suggestion or "").split("\n")
    return tuple(_with_name(call, asked, name, call.id) for name in names)


def multiply(question: Question | None, call: ToolCall, now: Exchange) -> ToolCall | None:
    """The calculator's part of "ten shares of Apple"."""
    result = now.result_of(call)
    facts = {fact.field: fact for fact in result.facts} if result else {}
    price = facts.get("price_in") or facts.get("price")
    quantity = question.slots.get("quantity", "1") if question else "1"
    if quantity == "1" or call.name != QUOTE or price is None:
        return None
    return make_call(call.id, "calc__evaluate", {"expression": f"{quantity} * {price.value:f}"})
