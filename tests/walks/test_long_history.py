"""A long conversation that has to be read from the disk: what a turn needs of it becomes messages, and no more."""

import pytest
from msgspec.structs import replace
from tests.ports.nouns import said
from tests.walks.house import House, in_virtual_time

from finclaw.kernel.message import Message, Patch, Source
from finclaw.kernel.scope import TurnContext, TurnResult
from finclaw.providers.anthropic.request import AnthropicRequestWriter as AnthropicWriter
from finclaw.providers.openai.request import OpenAIRequestWriter as OpenAIWriter
from finclaw.transcript.history import PagedHistory

LENGTH = 2_000
FEW = 200


def exchange(number: int) -> Message:
    """As turns leave them: an answer tells what the model counted."""
    if number % 2 == 0:
        return said(f"{number:032x}", f"saying {number}")
    answer = said(f"{number:032x}", f"saying {number}", role="assistant")
    return replace(answer, source=Source("assistant", "0"), metadata={"usage": [9, 9, 0, 0], "model": "offline/demo"})


async def talked(house: House, length: int = LENGTH) -> list[Message]:
    """The conversation as it is on the disk; its gateway has gone."""
    async with house.open("ok") as gateway:
        await gateway.ask("first")
        (session,) = [each.key for each in (await gateway.app.sessions(1)).items]
        await gateway.app.reset(session)
        messages = [exchange(number) for number in range(length)]
        await gateway.app.restore(session, messages)
        return messages


@pytest.mark.spec("DX-33")
@in_virtual_time
async def test_a_plain_turn_opens_few_of_thousands(house: House) -> None:
    messages = await talked(house)
    async with house.open("one", "two") as gateway:
        for text in ("hello", "and again"):
            await gateway.ask(text)
            asked = gateway.provider.requests[-1]
            assert isinstance(asked.messages, PagedHistory)
            for writer in (AnthropicWriter(8_000_000), OpenAIWriter(8_000_000, "max_tokens")):
                assert writer.write(asked).count(b"saying ") == LENGTH
            assert asked.messages.open_count < FEW
    assert [each.id for each in asked.messages[:LENGTH]] == [each.id for each in messages]
    assert [each.text for each in asked.messages[LENGTH:]] == ["hello", "one", "and again"]


@in_virtual_time
async def test_a_layer_may_walk_it_and_change_what_is_far_back(house: House) -> None:
    messages = await talked(house)

    async def walk(ctx: TurnContext) -> TurnResult:
        assert list(ctx.conversation.base_messages) == messages
        ctx.emit_message_event(Patch(messages[3].id, {"read": True}))
        assert ctx.conversation.next_messages[3].metadata["read"] is True
        return await ctx.next()

    async with house.open("ok", layers=[("turn", walk)]) as gateway:
        await gateway.ask("hello")
    async with house.open("ok") as gateway:
        await gateway.ask("and now?")
        assert [each.id for each in gateway.seen if each.metadata.get("read")] == [messages[3].id]
        assert len(gateway.seen) == LENGTH + 3
