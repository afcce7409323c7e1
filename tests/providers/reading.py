"""Streams of the Messages API, read by us without a network."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass

from finclaw.agent.model.answer import collect
from finclaw.kernel.chunk import Chunk, StopReason, Usage
from finclaw.kernel.message import Block
from finclaw.providers.anthropic.answer import AnthropicAnswerReader
from finclaw.providers.http.sse import EventReader


@dataclass(frozen=True)
class Read:
    """What an answer comes to, whoever read it."""

    blocks: tuple[Block, ...]
    usage: Usage
    stop: StopReason


def chunks_of(pieces: Iterable[bytes]) -> list[Chunk]:
    """As the provider's own loop reads them. Raises ProviderError."""
    events, answer, chunks = EventReader(), AnthropicAnswerReader(), list[Chunk]()
    for piece in pieces:
        for name, data in events.feed(piece):
            chunks += answer.read(name, data)
    return [*chunks, *answer.close()]


def collected(chunks: Iterable[Chunk]) -> Read:
    async def stream() -> AsyncIterator[Chunk]:
        for chunk in chunks:
            yield chunk

    answer = asyncio.run(collect(stream(), lambda text: None))
    return Read(answer.blocks, answer.usage, answer.stop)


def read(stream: bytes) -> Read:
    return collected(chunks_of([stream]))
