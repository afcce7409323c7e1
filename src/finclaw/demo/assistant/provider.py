"""The offline provider: it reads the request, plans an answer or tool calls, and streams them."""

import re
from collections.abc import AsyncIterator, Iterator, Sequence

import msgspec

from finclaw.demo.assistant import plan
from finclaw.demo.assistant.answer import answer
from finclaw.demo.assistant.patterns import LACKING, POLITE, read_question
from finclaw.demo.assistant.phrases import PHRASES
from finclaw.demo.assistant.tokens import LONGEST
from finclaw.demo.listings import DEMO_LISTINGS
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

_HAS_WORDS = re.compile("[a-zㄱ-ㆎ가-힣]")
_LOOK_BACK = 100


class OfflineProvider:
    @property
    def name(self) -> str:
        return "offline"

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        decision = decide(request)
        chunks = _say(decision, request.max_tokens) if isinstance(decision, str) else _call(decision)
        written = 0  # there is no tokenizer here: a word counts as a token
        for chunk in chunks:
            written += isinstance(chunk, TextDelta | ToolInputDelta)
            if isinstance(chunk, Done):
                yield UsageReport(Usage(input=_words_read(request), output=written))
            yield chunk

    async def close(self) -> None:
        pass


def decide(request: ModelRequest) -> str | tuple[ToolCall, ...]:
    """What to say, or which tools to call first. The same request always gets the same decision."""
    language = _spoken_language(request.messages)
    now, before, *earlier = plan.read_exchanges(request.messages)
    if request.messages and not now.text.strip():
        return PHRASES["wordless"][language]
    question = read_question(now.text)
    if question is not None:
        last = next((each.question for each in (before, *earlier) if each.question), None)
        question = plan.complete(question, last)
    wanted = list(plan.further_calls(question, now)) if now.results else list(plan.choose_offer(now, before))
    if question is not None and not (wanted or now.results):
        wanted = list(plan.plan_call(question, language, now.message_id))
    offered = {tool.name for tool in request.tools}
    if calls := tuple({call.id: call for call in wanted if call.name in offered}.values()):
        return calls
    reply = PHRASES["not understood"][language]
    if now.results:
        reply = answer(language, question, now)
    elif wanted:
        return PHRASES["no tool" if request.tools else "unfinished"][language]
    elif question is not None and question.tool in (*POLITE, LACKING):
        reply = PHRASES[question.tool][language].format(question.slots.get(language))
    return _introduce(reply, request, language)


def _introduce(reply: str, request: ModelRequest, language: Language) -> str:
    """The reply with what the assistant is, once in a conversation; the prompt says which market there is."""
    lines = PHRASES["demo" if DEMO_SOURCE in request.system else "introduction"]
    written = {key: line.format(len(DEMO_LISTINGS)) for key, line in lines.items()}
    said = (message.text for message in request.messages if message.role == "assistant")
    if any(line in text for text in said for line in written.values()):
        return reply
    return f"{reply}\n\n{written[language]}"


def _spoken_language(messages: Sequence[Message]) -> Language:
    """The language of the last message that had words: one of tickers and figures alone has none."""
    texts = (plan.words_of(each)[:LONGEST] for each in reversed(messages[-_LOOK_BACK:]) if each.role == "user")
    return language_of(next((text for text in texts if _HAS_WORDS.search(text)), ""))


def _say(text: str, most_words: int) -> Iterator[Chunk]:
    words = _words(text)
    for word in words[:most_words]:
        yield TextDelta(word)
    yield Done("max_tokens" if len(words) > most_words else "end")


def _call(calls: Sequence[ToolCall]) -> Iterator[Chunk]:
    for index, call in enumerate(calls):
        yield ToolUseStart(call.id, call.name, index)
        for word in _words(msgspec.json.encode(call.args).decode()):
            yield ToolInputDelta(word, index)
        yield ToolUseEnd(index)
    yield Done("tool_use")


def _words(text: str) -> list[str]:
    """Words with the space behind them: joined, they are the text again."""
    return re.findall(r"^\s+|\S+\s*", text)


def _words_read(request: ModelRequest) -> int:
    texts = [request.system, *(tool.description for tool in request.tools)]
    for block in (block for message in request.messages for block in message.blocks):
        if isinstance(block, Text):
            texts.append(block.text)
        elif isinstance(block, ToolResult):
            texts.append(block.content)
    return sum(len(text.split()) for text in texts)
