"""The offline provider: it reads the request, plans an answer or tool calls, and streams them."""

import re
from collections.abc import AsyncIterator, Iterator, Sequence

import msgspec

from finclaw.demo.assistant.answer import answer, further_calls
from finclaw.demo.assistant.dialogue import read_dialogue, read_words
from finclaw.demo.assistant.plan import plan
from finclaw.demo.assistant.question import LONGEST, read_question
from finclaw.demo.assistant.sayings import SAYINGS
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
    dialogue = read_dialogue(request.messages)
    if request.messages and not dialogue.now.text.strip():
        return SAYINGS["wordless"][_spoken_language(request.messages)]
    question = read_question(dialogue.now.text, _spoken_language(request.messages))
    steps = plan(question, dialogue)
    offered = {tool.name for tool in request.tools}
    first = tuple(step.call for step in steps if step.call)
    wanted = further_calls(steps, dialogue.now) if dialogue.now.results else first
    calls = tuple({call.id: call for call in wanted if call.name in offered}.values())
    if calls:
        return calls
    if wanted and not dialogue.now.results:
        return SAYINGS["no_tool" if request.tools else "unfinished"][question.language]
    return answer(question.language, steps, dialogue.now)


def _spoken_language(messages: Sequence[Message]) -> Language:
    """The language of the last message that had words: one of tickers and figures alone has none."""
    said = (read_words(each)[:LONGEST] for each in reversed(messages[-_LOOK_BACK:]) if each.role == "user")
    return language_of(next((text for text in said if _HAS_WORDS.search(text)), ""))


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
