"""The offline provider: it reads the request, plans an answer or tool calls, and streams them."""

import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from finclaw.demo.assistant.answer import EXAM_LIMIT, PHRASES, Exchange, answer, offer_of, product_of
from finclaw.demo.assistant.patterns import CSAT, LONGEST, SPOKEN, Question, clean_text, read_question
from finclaw.demo.listings import DEMO_LISTINGS
from finclaw.finance.hours import find_venue
from finclaw.finance.instrument import key_of
from finclaw.finance.market import DEMO_SOURCE
from finclaw.kernel.chunk import (
    Chunk,
    Done,
    ModelRequest,
    TextDelta,
    ToolInputDelta,
    ToolUseEnd,
    ToolUseStart,
    Usage,
    UsageReport,
)
from finclaw.kernel.message import Message, Text, ToolCall, ToolResult
from finclaw.text import Language, language_of

_REMEMBERED: Final = 8
"""Messages of a person. What was spoken of before that is no longer what "it" means."""
_TOOLS: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = {
    "quote": ("market__quote", {"name": "symbol", "in": "in_currency", "quantity": ""}),
    "history": ("market__history", {"name": "symbol", "period": "period", "date": "on"}),
    "chart": ("market__chart", {"name": "symbol", "period": "period", "language": "language"}),
    "compare": ("market__compare", {"name": "symbols", "period": "period"}),
    "hours": ("market__hours", {"market": "market", "date": "on", "tomorrow": "on"}),
    "calendar": ("market__calendar", {"market": "market", "holiday": "holiday"}),
    "news": ("market__news", {"name": "symbol"}),
    "convert": ("fx__convert", {"amount": "amount", "base": "from", "in": "to"}),
    "portfolio": ("portfolio__show", {"in": "in_currency"}),
    "time": ("time__now", {}),
    "watchlist": ("watch__list", {}),
}
"""The tool of each kind of question, and the argument that each slot becomes. No tool takes any other slot."""
_KINDS: Final = {tool: kind for kind, (tool, _) in _TOOLS.items()}
TOOLS: Final = frozenset((*_KINDS, "calc__evaluate"))
"""The only tools it ever calls, whatever a message says."""
_ABOUT_INSTRUMENTS: Final = ("quote", "history", "chart", "compare")
_CHART_PERIODS: Final = {
    **{"day": "1D", "week": "5D", "month": "1M", "quarter": "3M", "half_year": "6M"},
    **{"year": "1Y", "year_to_date": "YTD"},
}
_YES: Final = ("yes", "yeah", "yep", "sure", "ok", "okay", "right", "correct", "네", "넵", "예", "응", "맞아", "맞아요")


class OfflineProvider:
    @property
    def name(self) -> str:
        return "offline"

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        decision = decide(request)
        written = 0  # there is no tokenizer here: a word counts as a token
        for chunk in _write_chunks(decision, request.max_tokens):
            written += isinstance(chunk, TextDelta | ToolInputDelta)
            if isinstance(chunk, Done):
                yield UsageReport(Usage(input=_words_read(request), output=written))
            yield chunk

    async def close(self) -> None:
        pass


def decide(request: ModelRequest) -> str | tuple[ToolCall, ...]:
    """What to say, or which tools to call first. The same request always gets the same decision."""
    language = _spoken_language(request.messages)
    now, before, *earlier = _read_exchanges(request.messages)
    if request.messages and not now.text.strip():
        return PHRASES["wordless"][language]
    question = read_question(now.text)
    if question is not None:
        last, was_refused = _look_back((before, *earlier))
        question = None if was_refused and question.is_follow_up else _complete(question, last)
    wanted = list(_further_calls(question, now) if now.results else _choose_offer(now, before))
    if question is not None and not (wanted or now.results):
        wanted = list(_plan_call(question, language, now.message_id))
    offered = {tool.name for tool in request.tools}
    if calls := tuple({call.id: call for call in wanted if call.name in offered}.values()):
        return calls
    reply = PHRASES["not understood"][language]
    if now.results:
        reply = answer(language, question, now)
    elif wanted:
        return PHRASES["denied" if request.tools else "error"][language]
    elif question is not None and question.kind in (*SPOKEN, "lacking"):
        reply = PHRASES[question.kind][language].format(question.slots.get(language))
    return _introduce(reply, request, language)


def _spoken_language(messages: Sequence[Message]) -> Language:
    """The language of the last message that had words: one of tickers and figures alone has none."""
    texts = (_words_of(message)[:LONGEST] for message in reversed(messages[-100:]) if message.role == "user")
    return language_of(next((text for text in texts if re.search("[a-zㄱ-ㆎ가-힣]", text)), ""))


def _words_of(message: Message) -> str:
    """What the person wrote: the first text. After it there may be a note by the gateway about an attachment."""
    return next((block.text for block in message.blocks if isinstance(block, Text)), "")


def _read_exchanges(messages: Sequence[Message]) -> list[Exchange]:
    """What was said and found, the latest first; at least this exchange and the one before it."""
    found: list[Exchange] = []
    calls: list[ToolCall] = []
    results: list[ToolResult] = []
    for message in reversed(messages):
        calls[:0] = message.tool_calls
        results[:0] = message.tool_results
        if message.role == "user":  # one without words too: a picture must not be answered with an old price
            found.append(Exchange(_words_of(message), message.id, tuple(calls), tuple(results)))
            calls.clear()
            results.clear()
    return [*found, Exchange(), Exchange()][: _REMEMBERED + 1]


def _look_back(exchanges: Sequence[Exchange]) -> tuple[Question | None, bool]:
    """The last question that was answered, and whether one after it was not: "in won" may mean that one."""
    for exchange in exchanges:
        if last := _question_of(exchange):
            return last, False
        asked = read_question(exchange.text) or Question(kind="")
        is_named = asked.is_follow_up or asked.kind == "lacking" or re.search(r"\d|\S\s+\S", exchange.text)
        if is_named and asked.kind not in ("help", "thanks"):
            return None, True
    return None, False


def _question_of(exchange: Exchange) -> Question | None:
    """The question that was answered, read back from the last call that found something."""
    found = [result for result in exchange.results if result.status == "ok" and result.name in _KINDS]
    call = next((call for call in reversed(exchange.calls) if found and call.id == found[-1].call_id), None)
    if call is None:
        return None
    kind = _KINDS[call.name]
    slots = {slot: str(call.args[key]) for slot, key in _TOOLS[kind][1].items() if key in call.args}
    if "name" in slots:
        facts = (fact for result in found for fact in result.facts)
        symbols = dict.fromkeys(fact.subject for fact in facts if fact.field in ("price", "start", "close"))
        slots["name"] = ", ".join(symbols) or slots["name"]
    if kind == "chart":
        slots.pop("period")
    if call.args.get("limit") == EXAM_LIMIT:
        slots["holiday"] = CSAT
    return Question(kind=kind, slots=slots)


def _complete(question: Question, last: Question | None) -> Question | None:
    """The question with what it leaves to the last one; None if there is none, or the two do not go together."""
    slots = question.slots
    if last and not slots and question.kind in _ABOUT_INSTRUMENTS and "name" not in last.slots:
        last = None  # "how much?" after the hours of a market
    if last is None:
        return question if "name" in slots or question.kind not in _ABOUT_INSTRUMENTS else None
    name = slots.get("name", "")
    if question.is_bare and name and (other := _other_slots(question, last, name)):
        return replace(last, slots={**last.slots, **other})
    if question.kind == "hours" and question.is_follow_up and "market" not in slots:
        return replace(question, slots={"market": last.slots.get("name") or last.slots.get("market", ""), **slots})
    if question.kind not in _ABOUT_INSTRUMENTS or "name" in slots:
        return question
    kept = ("name", "in") if "quantity" in slots else ("name",)
    carried = {slot: value for slot, value in last.slots.items() if slot in kept}
    if "name" not in last.slots or (question.kind == "history" and last.kind == "compare"):
        question = last  # in another currency, over another time
        carried = dict(last.slots)
    return replace(question, slots={**carried, **slots})


def _other_slots(question: Question, last: Question, name: str) -> Mapping[str, str]:
    """What takes the place of a slot of the last question: a market, an amount or a name."""
    if last.kind in ("hours", "calendar") and (market := find_venue(name)):
        return {"market": market.code}
    if question.is_follow_up and last.kind == "convert" and re.fullmatch(r"\d+(?:\.\d+)?[은는도]?", name):
        return {"amount": name.rstrip("은는도")}  # "and 200?"
    if not question.is_follow_up or "name" not in last.slots:
        return {}
    return {"name": f"{last.slots['name']}, {name}" if last.kind == "compare" else name}  # "and Tesla?"


def _choose_offer(now: Exchange, before: Exchange) -> Iterator[ToolCall]:
    """The calls of the exchange before, with the instrument that the person chooses.

    Only a short yes or a part of a name chooses. Anything else is a sentence of its own.
    """
    text = clean_text(now.text).casefold()
    for call in before.calls:
        asked, offered = offer_of(before.result_of(call))
        chosen = [names for names in offered if key_of(text) in map(key_of, names)]
        if text in _YES:
            chosen = offered
        elif len(key_of(text)) > 1:
            chosen = chosen or [names for names in offered if any(key_of(text) in key_of(name) for name in names)]
        if len(chosen) == 1:
            yield _with_name(call, asked, chosen[0][0], now.message_id)


def _with_name(call: ToolCall, old: str, new: str, parent_id: str) -> ToolCall:
    """The same call about another instrument."""
    args = {key: new if value == old else value for key, value in call.args.items()}
    if "symbols" in args:
        args["symbols"] = [name.replace(old, new) for name in args["symbols"]]
    return _make_call(parent_id, call.name, args)


def _plan_call(question: Question, language: Language, parent_id: str) -> Iterator[ToolCall]:
    """None for what is said without a tool, and for what the tool cannot do."""
    slots = dict(question.slots)
    kind = question.kind
    if kind == "history" and slots.get("period") == "half_year":
        kind = "chart"
    if kind == "chart":
        period = slots.get("period", "half_year")
        slots |= {"language": language, "period": _CHART_PERIODS.get(period, "")}
    if slots.get("holiday") == CSAT:
        is_ours = slots.get("market", "KRX") == "KRX" and slots.get("period", "year_to_date") == "year_to_date"
        if not is_ours or slots.keys() - {"holiday", "market", "period", "tomorrow"}:
            return
        yield _make_call(parent_id, "market__calendar", {"market": "KRX", "limit": EXAM_LIMIT})
        return
    if kind not in _TOOLS:
        return
    tool, arguments = _TOOLS[kind]
    if not slots.keys() <= arguments.keys() or not all(slots.values()):
        return
    usual: dict[str, dict[str, str]] = {
        "compare": {"period": "month"},
        "convert": {"to": "USD" if slots.get("base") == "KRW" else "KRW"},
        "portfolio": {"in_currency": "KRW" if language == "ko" else "USD"},
    }
    if language == "ko":  # "the market" means Seoul
        usual |= {"hours": {"market": "KRX"}, "calendar": {"market": "KRX"}}
    args: dict[str, Any] = usual.get(kind, {}) | {
        arguments[slot]: value for slot, value in slots.items() if arguments[slot]
    }
    if "symbols" in args:
        args["symbols"] = [args["symbols"]]
    yield _make_call(parent_id, tool, args)


def _further_calls(question: Question | None, now: Exchange) -> Iterator[ToolCall]:
    """Calls that follow from results: one for each of several names, and the product of a quantity."""
    for call in now.calls:
        result = now.result_of(call)
        further: list[ToolCall] = []
        if result and result.error and result.error.name == "SeveralNames":
            asked, *names = (result.error.suggestion or "").split("\n")
            further = [_with_name(call, asked, name, call.id) for name in names]
        if expression := product_of(question, result):
            further = [_make_call(call.id, "calc__evaluate", {"expression": expression})]
        yield from (each for each in further if now.result_of(each) is None)


def _make_call(parent_id: str, name: str, args: dict[str, Any]) -> ToolCall:
    """Its id is made from a message or call and what is asked: a repeated request repeats it, and nothing else does."""
    digest = blake2b(parent_id.encode() + name.encode() + msgspec.json.encode(args), digest_size=8).hexdigest()
    return ToolCall(f"call_{digest}", name, args)


def _introduce(reply: str, request: ModelRequest, language: Language) -> str:
    """The reply with what the assistant is, once in a conversation; the prompt says which market there is."""
    lines = PHRASES["demo" if DEMO_SOURCE in request.system else "introduction"]
    written = {key: line.format(len(DEMO_LISTINGS)) for key, line in lines.items()}
    said = (message.text for message in request.messages if message.role == "assistant")
    if any(line in text for text in said for line in written.values()):
        return reply
    return f"{reply}\n\n{written[language]}"


def _write_chunks(decision: str | Sequence[ToolCall], most_words: int) -> Iterator[Chunk]:
    if isinstance(decision, str):
        words = _words(decision)
        yield from map(TextDelta, words[:most_words])
        yield Done("max_tokens" if len(words) > most_words else "end")
        return
    for index, call in enumerate(decision):
        yield ToolUseStart(call.id, call.name, index)
        for word in _words(msgspec.json.encode(call.args).decode()):
            yield ToolInputDelta(word, index)
        yield ToolUseEnd(index)
    yield Done("tool_use")


def _words(text: str) -> list[str]:
    """Words with the space behind them: joined, they are the text again."""
    return re.findall(r"^\s+|\S+\s*", text)


def _words_read(request: ModelRequest) -> int:
    blocks = [block for message in request.messages for block in message.blocks]
    texts = [request.system, *(tool.description for tool in request.tools)]
    texts += [block.text for block in blocks if isinstance(block, Text)]
    texts += [block.content for block in blocks if isinstance(block, ToolResult)]
    return sum(len(text.split()) for text in texts)
