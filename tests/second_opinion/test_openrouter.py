"""The one relative of OpenAI's protocol that the mock speaks with an accent: comments, cached tokens, costs."""

import pytest
from tests.second_opinion.aimock import Aimock
from tests.second_opinion.asking import ASKED

from finclaw.agent.model.answer import collect
from finclaw.errors import ProviderError, RateLimited
from finclaw.kernel.chunk import Usage
from finclaw.kernel.message import Text, ToolCall
from finclaw.providers.openai.provider import OpenAIProvider
from finclaw.redaction import Secret

pytestmark = pytest.mark.aimock


async def test_an_answer_with_comments_and_a_cache(aimock: Aimock) -> None:
    aimock.say(
        {
            "content": "봅니다.",
            "toolCalls": [{"id": "call_1", "name": "market__quote", "arguments": {"symbol": "AAPL"}}],
            "usage": {
                "prompt_tokens": 100,
                "completion_tokens": 7,
                "cost": 0.0012,
                "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 10},
            },
        },
        openRouterProcessing=True,
    )
    client = OpenAIProvider(f"{aimock.url}/api/v1", Secret("key"), name="openrouter")
    answer = await collect(client.stream(ASKED), lambda text: None)
    await client.close()
    assert answer.blocks == (Text("봅니다."), ToolCall("call_1", "market__quote", {"symbol": "AAPL"}))
    assert answer.usage == Usage(input=30, output=7, cache_read=60, cache_write=10)


async def test_a_refusal_whose_code_is_a_number(aimock: Aimock) -> None:
    aimock.say({"error": {"message": "words for people"}, "status": 429, "retryAfter": 3})
    client = OpenAIProvider(f"{aimock.url}/api/v1", Secret("key"), name="openrouter")
    with pytest.raises(ProviderError) as told:
        await collect(client.stream(ASKED), lambda text: None)
    await client.close()
    assert isinstance(told.value, RateLimited)
    assert told.value.retry_after == 3
