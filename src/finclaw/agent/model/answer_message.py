"""The message that is made of a model's answer: its metadata, and ids of calls that are legal everywhere."""

import re
from collections.abc import Sequence
from datetime import datetime
from functools import cache, lru_cache
from typing import Any, Final

from msgspec import convert
from msgspec.structs import replace

from finclaw.agent.budget.call_ledger import CallCost, to_metadata
from finclaw.agent.model.stream import Answer
from finclaw.agent.turn_state.turn_log import APPROVED
from finclaw.ids import new_id
from finclaw.kernel.chunk import Model, StopReason
from finclaw.kernel.message import Block, Message, Source, ToolCall
from finclaw.redaction.redact import redact_for_display

_LEGAL_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,40}")
MOST_PIECES: Final = 32
"""In which a replay tells an answer."""
_SURELY_UNIQUE: Final = 20
"""Characters of an id that was not counted but drawn."""
_LONGEST_NAME: Final = 64
"""Of those that are remembered; no API takes a longer one."""


def build_answer_message(
    answer: Answer, model: Model, chosen: Model, costs: list[CallCost], step: int, now: datetime
) -> Message:
    """The assistant's message of an answer by `model`, in the place of the `chosen` one where that did not answer."""
    metadata = _metadata(answer, model, chosen, costs)
    return Message(new_id(), "assistant", answer.blocks, _source(step), now, metadata)


@cache
def _source(step: int) -> Source:
    """One for all answers that came as such a step: conversations are many, and keep theirs."""
    return Source("assistant", str(step))


def _metadata(answer: Answer, model: Model, chosen: Model, paid: list[CallCost]) -> dict[str, Any]:
    """What travels with the message, so that a resumed turn still knows it and a replay can repeat it."""
    metadata = {**to_metadata(model, paid), "stop": answer.stop}
    if (model.provider, model.name) != (chosen.provider, chosen.name):
        metadata["instead_of"] = chosen.id
    if [each.usage for each in paid] not in ([], [answer.usage]):  # so what was paid for is not the conversation's size
        metadata["context"] = answer.usage.total
    if len(answer.lengths) > 1:
        metadata["chunks"] = _coarsely(answer.lengths)
    return metadata


def _coarsely(lengths: Sequence[int]) -> list[int]:
    """The same text in no more pieces than are worth keeping: a replay needs the pace, not every word."""
    several = -(-len(lengths) // MOST_PIECES)
    return [sum(lengths[at : at + several]) for at in range(0, len(lengths), several)]


def stop_of(message: Message) -> StopReason:
    stop = message.metadata.get("stop", "end")
    return "end" if stop == "end" else convert(stop, StopReason)


def without_calls(message: Message) -> Message:
    """For an answer that was asked for without tools: a call in it will not be run, so it must not stay open."""
    return replace(message, blocks=tuple(block for block in message.blocks if not isinstance(block, ToolCall)))


def with_own_ids(message: Message, conversation: Sequence[Message]) -> Message:
    """The same calls, each with an id that is legal everywhere and its own in the conversation: results go by it.

    Some models number the calls of every answer anew, or not at all. Nor is a secret the name of a call: everybody
    hears that, from observers to the trace.
    """
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
            if (name := _safe_name(block.name)) != block.name:
                block = replace(block, name=name)  # noqa: PLW2901
            used.add(block.id)
        blocks.append(block)
    return replace(message, blocks=tuple(blocks))


def _safe_name(name: str) -> str:
    return _safe_known_name(name) if len(name) <= _LONGEST_NAME else redact_for_display(name)


@lru_cache(maxsize=1_024)
def _safe_known_name(name: str) -> str:
    """Looked through once: a model calls the same tools again and again, and their names look a little like keys."""
    return redact_for_display(name)
