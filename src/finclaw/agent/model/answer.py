"""A model's answer: collected from its stream, and the message that is made of it."""

import re
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime
from functools import cache, lru_cache
from typing import Any, Final

import msgspec
from msgspec import Struct, convert
from msgspec.structs import astuple, replace

from finclaw.agent.budget.call_ledger import CallCost, to_metadata
from finclaw.agent.turn_state.turn_log import APPROVED
from finclaw.diagnostics.crash_points import crash_point
from finclaw.errors import StreamCut
from finclaw.ids import new_id
from finclaw.kernel.chunk import (
    Chunk,
    Done,
    Model,
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
from finclaw.kernel.message import Block, Message, Source, Text, Thinking, ToolCall
from finclaw.redaction import hide_known_secrets
from finclaw.redaction.redact import redact_for_display
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
    blocks: tuple[Block, ...]
    usage: Usage
    stop: StopReason
    lengths: tuple[int, ...]  # of the pieces of text, in characters, for a replay


class PartialAnswer(Struct):
    """How far a stream has come, also one that broke."""

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
                block = _at(blocks, chunk.index, Thinking)
                block.parts.append(chunk.text)
                block.signature = chunk.signature or block.signature
                block.redacted = block.redacted or chunk.redacted
            case UsageReport(report):  # a provider of an extension may report less than nothing, or no number
                heard.usage = Usage(*(read_token_count(each) or 0 for each in astuple(report)))
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


def _at(blocks: _Blocks, index: int, kind: type[Block]) -> _Open:
    block = blocks.get((index, kind))
    if block is None:
        block = blocks[index, kind] = _Open(kind)
    return block


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


_LEGAL_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,40}")
MOST_PIECES: Final = 32
_SURELY_UNIQUE: Final = 20  # characters of an id that was not counted but drawn
_LONGEST_NAME: Final = 64  # no API takes a longer one


def build_answer_message(
    answer: Answer, model: Model, chosen: Model, costs: list[CallCost], step: int, now: datetime
) -> Message:
    """The answer of `model`, in the place of the `chosen` one where that did not answer; its metadata serve replays."""
    metadata = {**to_metadata(model, costs), "stop": answer.stop}
    if (model.provider, model.name) != (chosen.provider, chosen.name):
        metadata["instead_of"] = chosen.id
    if [each.usage for each in costs] not in ([], [answer.usage]):  # what was paid for is not the conversation's size
        metadata["context"] = answer.usage.total
    if len(answer.lengths) > 1:
        metadata["chunks"] = _coarsely(answer.lengths)
    return Message(new_id(), "assistant", answer.blocks, _source(step), now, metadata)


@cache
def _source(step: int) -> Source:
    """One for all answers that came as such a step: conversations are many, and keep theirs."""
    return Source("assistant", str(step))


def _coarsely(lengths: Sequence[int]) -> list[int]:
    """At most `MOST_PIECES` lengths of the same text: a replay needs the pace, not every word."""
    several = -(-len(lengths) // MOST_PIECES)
    return [sum(lengths[at : at + several]) for at in range(0, len(lengths), several)]


def stop_of(message: Message) -> StopReason:
    stop = message.metadata.get("stop", "end")
    return "end" if stop == "end" else convert(stop, StopReason)


def without_calls(message: Message) -> Message:
    """For an answer that was asked for without tools: a call in it will not be run, so it must not stay open."""
    return replace(message, blocks=tuple(block for block in message.blocks if not isinstance(block, ToolCall)))


def with_own_ids(message: Message, conversation: Sequence[Message]) -> Message:
    """Give each call a legal id that is unique in the conversation, and a name without secrets."""
    calls = message.tool_calls
    if not calls:
        return message
    short = any(len(call.id) < _SURELY_UNIQUE for call in calls)  # else there is no need to look
    used = {call.id for each in conversation for call in each.tool_calls} if short else set[str]()
    blocks: list[Block] = []
    for block in message.blocks:
        if isinstance(block, ToolCall):
            # Nor may it take the name of a call that a person approved, and run under it once more.
            if block.id in used or block.id.startswith(APPROVED) or not _LEGAL_ID.fullmatch(block.id):
                block = replace(block, id=f"call_{new_id()}")  # noqa: PLW2901
            hide = _hide_in_name if len(block.name) <= _LONGEST_NAME else redact_for_display
            if (name := hide(block.name)) != block.name:
                block = replace(block, name=name)  # noqa: PLW2901
            used.add(block.id)
        blocks.append(block)
    return replace(message, blocks=tuple(blocks))


@lru_cache(maxsize=1_024)
def _hide_in_name(name: str) -> str:
    """Cached: a model calls the same tools again and again, and their names look a little like keys."""
    return redact_for_display(name)
