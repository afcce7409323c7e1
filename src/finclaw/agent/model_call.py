"""One question to the model: always streamed, always collected, its usage kept with the answer."""

import re
from collections.abc import Sequence
from typing import Any, Final

from msgspec import convert, to_builtins
from msgspec.structs import replace

from finclaw.agent.log import TurnLog
from finclaw.agent.running import RunningTurn
from finclaw.agent.stream import Answer, collect
from finclaw.kernel.chunk import Model, ModelRequest, StopReason, ToolSpec, Usage
from finclaw.kernel.envelope import new_id
from finclaw.kernel.event import MessageCompleted, TextStreamed, UsageUpdated
from finclaw.kernel.message import Block, Message, Source, ToolCall
from finclaw.kernel.port import Clock, Provider

_LEGAL_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,40}")
_SURELY_UNIQUE: Final = 20
"""Characters of an id that was not counted but drawn."""


class ModelCall:
    def __init__(self, provider: Provider, clock: Clock, max_tokens: int) -> None:
        self._provider = provider
        self._clock = clock
        self._max_tokens = max_tokens

    async def __call__(self, turn: RunningTurn, tools: tuple[ToolSpec, ...], step: int) -> Message:
        """The assistant's message. Raises ProviderError; nothing of a failed answer is kept."""
        turn.state.move("streaming")
        request = ModelRequest(
            model=turn.model,
            system=turn.system,
            messages=tuple(turn.conversation.next_messages),
            tools=tools,
            max_tokens=min(self._max_tokens, turn.model.max_output),
            temperature=turn.temperature,
        )
        answer = await collect(
            self._provider.stream(request), lambda text: turn.emit(TextStreamed(text=text, **turn.ids))
        )
        message = Message(
            id=new_id(),
            role="assistant",
            blocks=answer.blocks,
            source=Source("assistant", str(step)),
            created_at=self._clock.now(),
            metadata=_metadata(answer, turn.model),
        )
        self._tell(turn, message, answer.usage, step)
        return message

    @staticmethod
    def _tell(turn: RunningTurn, message: Message, usage: Usage, step: int) -> None:
        total = usage_so_far(turn.log) + usage
        turn.emit(MessageCompleted(message_id=message.id, step=step, **turn.ids))
        turn.emit(UsageUpdated(usage=total, context=usage.input + usage.cache_read + usage.cache_write, **turn.ids))


def _metadata(answer: Answer, model: Model) -> dict[str, Any]:
    """What travels with the message, so that a resumed turn still knows it and a replay can repeat it."""
    metadata: dict[str, Any] = {"usage": to_builtins(answer.usage), "stop": answer.stop}
    metadata["model"] = f"{model.provider}/{model.name}"
    if cost := model.cost(answer.usage):
        metadata["cost"] = str(cost)
    if len(answer.lengths) > 1:
        metadata["chunks"] = answer.lengths
    return metadata


def usage_of(message: Message) -> Usage:
    """What this answer cost in tokens."""
    return convert(message.metadata.get("usage", {}), Usage)


def usage_so_far(log: TurnLog) -> Usage:
    return sum((usage_of(each) for each in log.answers), Usage())


def stop_of(message: Message) -> StopReason:
    return convert(message.metadata.get("stop", "end"), StopReason)


def without_calls(message: Message) -> Message:
    """For an answer that was asked for without tools: a call in it will not be run, so it must not stay open."""
    return replace(message, blocks=tuple(block for block in message.blocks if not isinstance(block, ToolCall)))


def with_own_ids(message: Message, conversation: Sequence[Message]) -> Message:
    """The same calls, each with an id that is legal everywhere and its own in the conversation: results go by it.

    Some models number the calls of every answer anew, or not at all.
    """
    calls = message.tool_calls
    if not calls:
        return message
    short = any(len(call.id) < _SURELY_UNIQUE for call in calls)  # else there is no need to look
    used = {call.id for each in conversation for call in each.tool_calls} if short else set[str]()
    blocks: list[Block] = []
    for block in message.blocks:
        if isinstance(block, ToolCall):
            if block.id in used or not _LEGAL_ID.fullmatch(block.id):
                block = replace(block, id=f"call_{new_id()}")  # noqa: PLW2901
            used.add(block.id)
        blocks.append(block)
    return replace(message, blocks=tuple(blocks))
