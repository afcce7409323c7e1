"""A stream of chunks, collected in blocks. Several tool calls may be open at once; what cannot be read is never run."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import astuple

from finclaw.diagnostics.crash_points import crash_point
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
    read_token_count,
)
from finclaw.kernel.message import Block, Text, Thinking, ToolCall
from finclaw.redaction import hide_known_secrets
from finclaw.text import fix_surrogates


class _Open(Struct):
    """A block that is still being written."""

    kind: type[Block]
    parts: list[str] = []
    id: str = ""
    name: str = ""
    ended: bool = False
    signature: str = ""
    redacted: bool = False


_Blocks = dict[tuple[int, type[Block]], _Open]
"""By place and kind: if a server gives two kinds one place, neither gets the other's words."""


class Answer(Struct, frozen=True):
    """A whole model answer, collected."""

    blocks: tuple[Block, ...]
    usage: Usage
    stop: StopReason
    lengths: tuple[int, ...]
    """Of the pieces of text, in characters: so a replay can stream it as it came."""


class PartialAnswer(Struct):
    """A partial answer: how far a stream had come, also of one that broke."""

    begun: bool = False
    usage: Usage = Usage()
    blocks: _Blocks = {}

    def text(self) -> str:
        """Everything that the model has written so far: words, thoughts and calls."""
        return "\n".join(f"{block.name}{''.join(block.parts)}" for block in self.blocks.values())


async def collect(
    chunks: AsyncIterator[Chunk], on_text: Callable[[str], None], heard: PartialAnswer | None = None
) -> Answer:
    """Read a stream to its end, telling each piece of text as it comes. Raises StreamCut when there is no end."""
    heard = heard or PartialAnswer()
    blocks = heard.blocks
    lengths: list[int] = []
    stop: StopReason | None = None
    async for chunk in chunks:
        if not heard.begun:
            heard.begun = True
            crash_point("model:first_chunk")
        match chunk:
            case TextDelta(text, index):
                _at(blocks, index, Text).parts.append(text)
                lengths.append(len(text))
                on_text(text)
            case ThinkingDelta():
                _feed_thinking(_at(blocks, chunk.index, Thinking), chunk)
            case UsageReport(report):
                heard.usage = _readable(report)
            case Done(reason):
                stop = reason
            case _:
                _feed_tool(blocks, chunk)
    if stop is None:
        raise StreamCut("the model's stream ended before the answer did")
    crash_point("model:ended")
    in_order = sorted(blocks.items(), key=lambda item: item[0][0])
    cut = stop == "max_tokens"
    return Answer(tuple(_close(block, cut=cut) for _, block in in_order), heard.usage, stop, tuple(lengths))


def _readable(report: Usage) -> Usage:
    """The same from any provider: also one of an extension may report less than nothing, or no number."""
    return Usage(*(read_token_count(each) or 0 for each in astuple(report)))


def _at(blocks: _Blocks, index: int, kind: type[Block]) -> _Open:
    block = blocks.get((index, kind))
    if block is None:
        block = blocks[index, kind] = _Open(kind)
    return block


def _feed_thinking(block: _Open, chunk: ThinkingDelta) -> None:
    block.parts.append(chunk.text)
    block.signature = chunk.signature or block.signature
    block.redacted = block.redacted or chunk.redacted


def _feed_tool(blocks: _Blocks, chunk: ToolUseStart | ToolInputDelta | ToolUseEnd) -> None:
    """Pieces of a call that never started belong to nothing and are dropped."""
    match chunk:
        case ToolUseStart(id=call_id, name=name, index=index):
            blocks[index, ToolCall] = _Open(ToolCall, id=call_id, name=name)
        case ToolInputDelta(delta, index):
            if (index, ToolCall) in blocks:
                blocks[index, ToolCall].parts.append(delta)
        case ToolUseEnd(index):
            if (index, ToolCall) in blocks:
                blocks[index, ToolCall].ended = True


def _close(block: _Open, *, cut: bool) -> Block:
    text = fix_surrogates("".join(block.parts))
    if block.kind is ToolCall:
        # An answer that ran into its limit may have lost the arguments of its last call: empty is not "none" then.
        args, bad = _read_args(text, ended=block.ended and not (cut and not text.strip()))
        return ToolCall(block.id, block.name, args, bad)
    if block.kind is Thinking:  # to the letter: what is signed is sent back as it was
        return Thinking(text, block.signature, block.redacted)
    return Text(hide_known_secrets(text))  # a server may repeat the key that it was sent


def _read_args(text: str, *, ended: bool) -> tuple[dict[str, Any], str | None]:
    """The arguments, or the text that could not be read. A call that was cut off counts as unreadable."""
    if not text.strip() and ended:
        return {}, None
    try:
        args: object = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):  # the second: nested thousands deep
        return {}, text
    if not ended or not isinstance(args, dict):
        return {}, text
    return args, None  # pyright: ignore[reportUnknownVariableType]
