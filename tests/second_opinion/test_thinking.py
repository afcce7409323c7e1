"""Thoughts go back as they came: the mock, when strict, refuses a tool loop that does not begin with a signed one."""

from collections.abc import Generator
from typing import Final

import anthropic
import pytest
from msgspec.structs import replace
from tests.providers.protocols import Anthropic
from tests.second_opinion.aimock import Aimock, running
from tests.second_opinion.asking import answer, asks, message, said, user
from tests.second_opinion.sdk import SDKS

from finclaw.kernel.chunk import Features, Model, ModelRequest
from finclaw.kernel.message import Message, Text, Thinking, ToolCall, ToolResult
from finclaw.providers.anthropic.request import AnthropicRequestWriter

pytestmark = pytest.mark.aimock

THINKS: Final = Model("anthropic", "some-model", features=Features(thinking=True))
CALL: Final = ToolCall("call_1", "market__quote", {"symbol": "AAPL"})
RESULT: Final = message(3, "tool", ToolResult("call_1", "market__quote", "231.40 USD"))


@pytest.fixture(scope="module")
def strict() -> Generator[Aimock]:
    with running("--strict") as server:
        yield server


def thinking(*messages: Message) -> ModelRequest:
    return replace(asks(*messages), model=THINKS, thinking="medium", max_tokens=16_000)


@pytest.mark.parametrize("sealed", [[], ["EmwKAhgB"]], ids=["open", "sealed"])
async def test_a_thought_comes_back_with_the_result(strict: Aimock, sealed: list[str]) -> None:
    strict.reset()
    call = {"id": CALL.id, "name": CALL.name, "arguments": CALL.args}
    calls = {"reasoning": "Prices first.", "redactedThinking": sealed, "toolCalls": [call]}
    strict.expect(
        {"match": {"hasToolResult": False}, "response": calls},
        {"match": {"hasToolResult": True}, "response": {"reasoning": "So.", "content": "231.40 USD"}},
    )
    first = await answer(Anthropic(), strict, thinking(user("AAPL?")))
    assert isinstance(first.blocks[0], Thinking)
    assert first.blocks[-1] == CALL
    asked = thinking(user("AAPL?"), message(2, "assistant", *first.blocks), RESULT)
    assert b'"thinking":{"type":"enabled"' in AnthropicRequestWriter(10_000).write(asked)
    assert said(await answer(Anthropic(), strict, asked)) == "231.40 USD"
    SDKS["anthropic"](strict.url, asked)  # raises where the mock refuses


async def test_a_loop_that_began_without_a_thought_goes_on_without(strict: Aimock) -> None:
    strict.reset()
    strict.say({"content": "231.40 USD"})
    asked = thinking(user("AAPL?"), message(2, "assistant", Text("봅니다."), CALL), RESULT)
    assert said(await answer(Anthropic(), strict, asked)) == "231.40 USD"


def test_the_mock_would_have_refused(strict: Aimock) -> None:
    """What the two tests above prove is that we never ask this."""
    strict.reset()
    strict.say({"content": "231.40 USD"})
    with (
        anthropic.Anthropic(api_key="key", base_url=strict.url, max_retries=0) as client,
        pytest.raises(anthropic.BadRequestError),
    ):
        client.messages.create(
            model="some-model",
            max_tokens=16_000,
            thinking={"type": "enabled", "budget_tokens": 2_000},
            messages=[
                {"role": "user", "content": "AAPL?"},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "q", "input": {}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "231.40"}]},
            ],
        )
