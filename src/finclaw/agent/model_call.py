"""One question to the model: always streamed, always collected, its usage kept with the answer."""

from collections.abc import Collection

from msgspec import convert, to_builtins
from msgspec.structs import replace

from finclaw.agent.stream import collect
from finclaw.kernel.chunk import ModelRequest, StopReason, ToolSpec, Usage
from finclaw.kernel.envelope import new_id
from finclaw.kernel.event import TextStreamed
from finclaw.kernel.message import Block, Message, Source, ToolCall
from finclaw.kernel.port import Clock, Provider
from finclaw.kernel.scope import TurnContext


class ModelCall:
    def __init__(self, provider: Provider, clock: Clock, max_tokens: int) -> None:
        self._provider = provider
        self._clock = clock
        self._max_tokens = max_tokens

    async def __call__(self, turn: TurnContext, tools: tuple[ToolSpec, ...], step: int) -> Message:
        """The assistant's message. Raises ProviderError; nothing of a failed answer is kept."""
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
        return Message(
            id=new_id(),
            role="assistant",
            blocks=answer.blocks,
            source=Source("assistant", str(step)),
            created_at=self._clock.now(),
            metadata={"usage": to_builtins(answer.usage), "stop": answer.stop},
        )


def usage_of(message: Message) -> Usage:
    """What this answer cost in tokens. It travels with the message, so that a resumed turn still knows."""
    return convert(message.metadata.get("usage", {}), Usage)


def stop_of(message: Message) -> StopReason:
    return convert(message.metadata.get("stop", "end"), StopReason)


def without_calls(message: Message) -> Message:
    """For an answer that was asked for without tools: a call in it will not be run, so it must not stay open."""
    return replace(message, blocks=tuple(block for block in message.blocks if not isinstance(block, ToolCall)))


def with_own_ids(message: Message, taken: Collection[str]) -> Message:
    """The same calls, each with an id of its own in this turn: results, starts and resumes go by it.

    Some models number the calls of every answer anew, or not at all.
    """
    used = set(taken)
    blocks: list[Block] = []
    for block in message.blocks:
        if isinstance(block, ToolCall):
            if not block.id or block.id in used:
                block = replace(block, id=f"call_{new_id()}")  # noqa: PLW2901
            used.add(block.id)
        blocks.append(block)
    return replace(message, blocks=tuple(blocks))
