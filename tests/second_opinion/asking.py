"""Our own providers ask the mock."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Final

from tests.providers.protocols import Wire
from tests.second_opinion.aimock import Aimock

from finclaw.agent.model.answer import Answer, collect
from finclaw.clock import SystemClock
from finclaw.kernel.chunk import Chunk, Model, ModelRequest, ToolSpec
from finclaw.kernel.message import Block, Message, Role, Source, Text
from finclaw.kernel.port import Provider


def message(number: int, role: Role, *blocks: Block) -> Message:
    return Message(str(number), role, blocks, Source("user"), datetime(2026, 1, 1, tzinfo=UTC))


def asks(*messages: Message) -> ModelRequest:
    tools = (
        ToolSpec("market__quote", "A price.", {"type": "object", "properties": {"symbol": {"type": "string"}}}),
        ToolSpec("fx__convert", "Money into other money.", {"type": "object"}),
    )
    return ModelRequest(model=Model("any", "some-model"), system="Be brief.", messages=messages, tools=tools)


def user(text: str) -> Message:
    return message(1, "user", Text(text))


ASKED: Final = asks(user("삼성전자?"))


@asynccontextmanager
async def provider(wire: Wire, server: Aimock) -> AsyncGenerator[Provider]:
    client = wire.provider(server.url, SystemClock())
    try:
        yield client
    finally:
        await client.close()


async def chunks(wire: Wire, server: Aimock, asked: ModelRequest = ASKED) -> list[Chunk]:
    async with provider(wire, server) as client:
        return [chunk async for chunk in client.stream(asked)]


async def answer(wire: Wire, server: Aimock, asked: ModelRequest = ASKED) -> Answer:
    async with provider(wire, server) as client:
        return await collect(client.stream(asked), lambda text: None)


def said(answer: Answer) -> str:
    return "".join(block.text for block in answer.blocks if isinstance(block, Text))
