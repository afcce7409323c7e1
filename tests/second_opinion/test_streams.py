"""What others say a model's answer looks like is read by us as by the vendors' clients, and means what they meant."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Final

import pytest
from tests.providers.protocols import WIRES, Wire
from tests.second_opinion.aimock import Aimock, Json
from tests.second_opinion.asking import ASKED, answer, asks, chunks, provider, said, user
from tests.second_opinion.sdk import SDKS, heard

from finclaw.agent.model.answer import collect
from finclaw.kernel.chunk import StopReason, Usage
from finclaw.kernel.message import Thinking, ToolCall
from finclaw.kernel.port import Provider

pytestmark = [pytest.mark.aimock, pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)]

QUOTE: Final[Json] = {"id": "call_1", "name": "market__quote", "arguments": {"symbol": "005930.KS", "note": "🙂 시세"}}
CONVERT: Final[Json] = {"id": "call_2", "name": "fx__convert", "arguments": {"amount": 1.5, "from": "USD", "to": "KRW"}}
NOTHING: Final[Json] = {"id": "call_3", "name": "market__hours", "arguments": {}}
USAGE: Final[Json] = {"input_tokens": 123, "output_tokens": 45, "prompt_tokens": 123, "completion_tokens": 45}

ANSWERS: Final[Mapping[str, Json]] = {
    "text": {"content": "삼성전자는 71,000원입니다 🙂. It closed higher.", "usage": USAGE},
    "one call": {"toolCalls": [QUOTE], "usage": USAGE},
    "parallel calls": {"toolCalls": [QUOTE, CONVERT, NOTHING], "usage": USAGE},
    "words and calls": {"content": "두 가지를 봅니다. ", "toolCalls": [QUOTE, CONVERT], "usage": USAGE},
    "thinking": {
        "reasoning": "Let me think: 삼성 is 005930.",
        "reasoningSignature": "EqQBCgIYAhIM1gbc",
        "content": "Yes.",
        "usage": USAGE,
    },
    "thinking and calls": {"reasoning": "Prices first.", "toolCalls": [QUOTE, CONVERT], "usage": USAGE},
    "sealed thinking": {"reasoning": "Hm.", "redactedThinking": ["EmwKAhgB"], "content": "Yes.", "usage": USAGE},
    "words between calls": {
        "content": "먼저. 그리고.",
        "toolCalls": [QUOTE, CONVERT],
        "blocks": [
            {"type": "toolCall", **QUOTE},
            {"type": "text", "text": "먼저. "},
            {"type": "toolCall", **CONVERT},
            {"type": "text", "text": "그리고."},
        ],
        "usage": USAGE,
    },
    "cut by the limit": {"content": "It goes on and", "finishReason": "length", "usage": USAGE},
    "no usage": {"content": "Yes."},
}


def meant(response: Json) -> tuple[str, list[tuple[str, str, Any]], StopReason, Usage]:
    calls = [(each["id"], each["name"], each["arguments"]) for each in response.get("toolCalls", ())]
    stop: StopReason = "max_tokens" if response.get("finishReason") == "length" else "tool_use" if calls else "end"
    return response.get("content", ""), calls, stop, Usage(123, 45)


@pytest.mark.parametrize("size", [2, 20, 1_000], ids=lambda size: f"{size} a piece")
@pytest.mark.parametrize("name", ANSWERS)
async def test_we_and_the_sdk_hear_the_same_in_the_same_order(aimock: Aimock, wire: Wire, name: str, size: int) -> None:
    plain = json.loads(json.dumps(ANSWERS[name], ensure_ascii=False).replace("🙂", "★"))
    aimock.say(plain, chunkSize=size)
    assert heard(await chunks(wire, aimock)) == SDKS[wire.name](aimock.url, ASKED)


@pytest.mark.parametrize("size", [1, 2, 3, 20, 1_000], ids=lambda size: f"{size} a piece")
@pytest.mark.parametrize("name", [name for name in ANSWERS if name != "no usage"])
async def test_an_answer_is_what_was_meant(aimock: Aimock, wire: Wire, name: str, size: int) -> None:
    """In small pieces even characters come in halves, which the vendors' own clients for Python do not join."""
    aimock.say(ANSWERS[name], chunkSize=size)
    got = await answer(wire, aimock)
    calls = [(each.id, each.name, each.args) for each in got.blocks if isinstance(each, ToolCall)]
    assert (said(got), calls, got.stop, got.usage) == meant(ANSWERS[name])
    thought = "".join(each.text for each in got.blocks if isinstance(each, Thinking))
    assert thought == ANSWERS[name].get("reasoning", "")


async def test_many_streams_at_once_do_not_mix(aimock: Aimock, wire: Wire) -> None:
    answers = {f"[{number}]": f"({number})" * 50 for number in range(40)}
    for question, text in answers.items():
        aimock.expect({"match": {"userMessage": question}, "response": {"content": text}, "chunkSize": 7})

    async def ask(client: Provider, question: str) -> str:
        return said(await collect(client.stream(asks(user(question))), lambda text: None))

    async with provider(wire, aimock) as client:
        assert await asyncio.gather(*(ask(client, each) for each in answers)) == [*answers.values()]
