"""Chunks become blocks. Several tool calls may be open at once; what cannot be read is never run."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from finclaw.errors import StreamCut
from finclaw.kernel.chunk import (
    Chunk,
    Done,
    StopReason,
    TextDelta,
    ThinkingDelta,
    ToolInputDelta,
    ToolUseEnd,
    ToolUseStart,
    Usage,
    UsageReport,
)
from finclaw.kernel.crash import crash_point
from finclaw.kernel.message import Block, Text, Thinking, ToolCall
from finclaw.kernel.text import whole_characters


@dataclass(slots=True)
class _Open:
    """A block that is still being written."""

    kind: type[Block]
    parts: list[str] = field(default_factory=list[str])
    id: str = ""
    name: str = ""
    ended: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole model answer, collected."""

    blocks: tuple[Block, ...]
    usage: Usage
    stop: StopReason


async def collect(chunks: AsyncIterator[Chunk], on_text: Callable[[str], None]) -> Answer:
    """Read a stream to its end, telling each piece of text as it comes. Raises StreamCut when there is no end."""
    blocks: dict[int, _Open] = {}
    usage = Usage()
    stop: StopReason | None = None
    async for chunk in chunks:
        crash_point("model:first_chunk")
        match chunk:
            case TextDelta(text, index):
                blocks.setdefault(index, _Open(Text)).parts.append(text)
                on_text(text)
            case ThinkingDelta(text, index):
                blocks.setdefault(index, _Open(Thinking)).parts.append(text)
            case UsageReport(report):
                usage = report
            case Done(reason):
                stop = reason
            case _:
                _feed_tool(blocks, chunk)
    if stop is None:
        raise StreamCut("the model's stream ended before the answer did")
    crash_point("model:ended")
    return Answer(tuple(_close(block) for _, block in sorted(blocks.items())), usage, stop)


def _feed_tool(blocks: dict[int, _Open], chunk: ToolUseStart | ToolInputDelta | ToolUseEnd) -> None:
    """Pieces of a call that never started belong to nothing and are dropped."""
    match chunk:
        case ToolUseStart(id=call_id, name=name, index=index):
            blocks[index] = _Open(ToolCall, id=call_id, name=name)
        case ToolInputDelta(delta, index):
            if index in blocks:
                blocks[index].parts.append(delta)
        case ToolUseEnd(index):
            if index in blocks:
                blocks[index].ended = True


def _close(block: _Open) -> Block:
    text = whole_characters("".join(block.parts))
    if block.kind is ToolCall:
        args, bad = _read_args(text, ended=block.ended)
        return ToolCall(block.id, block.name, args, bad)
    return Thinking(text) if block.kind is Thinking else Text(text)


def _read_args(text: str, *, ended: bool) -> tuple[dict[str, Any], str | None]:
    """The arguments, or the text that could not be read. A call that was cut off counts as unreadable."""
    if not text.strip() and ended:
        return {}, None
    try:
        args: object = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return {}, text
    if not ended or not isinstance(args, dict):
        return {}, text
    return args, None  # pyright: ignore[reportUnknownVariableType]
