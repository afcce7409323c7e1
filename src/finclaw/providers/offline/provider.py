"""The provider itself: it looks at the request, makes up its mind, and streams what it decided."""

import re
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import msgspec

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
from finclaw.providers.offline.answer import INTRODUCTION, NO_MARKET, UNFINISHED, answer
from finclaw.providers.offline.question import Question, read_question

QUOTE = "market__quote"
"""The only tool it ever calls, whatever a message says."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """The last thing a person said, and what the tools have found about it since."""

    question: Question
    message_id: str
    calls: tuple[ToolCall, ...]
    results: tuple[ToolResult, ...]


class OfflineProvider:
    @property
    def name(self) -> str:
        return "offline"

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        decision = decide(request)
        chunks = _say(decision, request.max_tokens) if isinstance(decision, str) else _call(decision)
        written = 0
        for chunk in chunks:
            written += _words_written(chunk)
            if isinstance(chunk, Done):
                yield UsageReport(Usage(input=_words_read(request), output=written))
            yield chunk

    async def close(self) -> None:
        pass


def decide(request: ModelRequest) -> str | tuple[ToolCall, ...]:
    """What to say, or which tools to call first. The same request always gets the same decision."""
    exchange = _latest(request.messages)
    question = exchange.question
    if exchange.results:
        asked = {call.id: str(call.args.get("symbol", "")) for call in exchange.calls}
        return answer(question.language, exchange.results, asked)
    if not question.names:
        return INTRODUCTION[question.language]
    if any(tool.name == QUOTE for tool in request.tools):
        return tuple(_quote_call(exchange.message_id, name) for name in question.names)
    return (NO_MARKET if request.tools else UNFINISHED)[question.language]


def _latest(messages: Sequence[Message]) -> Exchange:
    calls: list[ToolCall] = []
    results: list[ToolResult] = []
    for message in reversed(messages):
        if message.role == "user" and message.text:
            return Exchange(read_question(message.text), message.id, tuple(calls), tuple(results))
        calls[:0] = message.tool_calls
        results[:0] = message.tool_results
    return Exchange(read_question(""), "", tuple(calls), tuple(results))


def _quote_call(message_id: str, name: str) -> ToolCall:
    """Its id is made from the message and the name, so that a repeated request repeats it and nothing else does."""
    digest = blake2b(f"{message_id}\n{name}".encode(), digest_size=8).hexdigest()
    return ToolCall(f"call_{digest}", QUOTE, {"symbol": name})


# ── chunks ──────────────────────────────────────────────────────────────────────────────────────────────────


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


# ── usage ───────────────────────────────────────────────────────────────────────────────────────────────────
# There is no tokenizer here, so a word counts as a token: what was read and written, and no other figure.


def _words_written(chunk: Chunk) -> int:
    match chunk:
        case TextDelta() | ToolInputDelta():
            return 1
        case _:
            return 0


def _words_read(request: ModelRequest) -> int:
    told = len(request.system.split()) + sum(len(tool.description.split()) for tool in request.tools)
    return told + sum(_words_in(message) for message in request.messages)


def _words_in(message: Message) -> int:
    texts = (
        block.text if isinstance(block, Text) else block.content
        for block in message.blocks
        if isinstance(block, Text | ToolResult)
    )
    return sum(len(text.split()) for text in texts)
