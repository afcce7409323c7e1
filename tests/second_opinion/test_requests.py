"""What we ask is understood by somebody who never saw our code, and alike in both protocols."""

import json
from typing import Any, Final

import pytest
from tests.providers.protocols import WIRES, Wire
from tests.second_opinion.aimock import Aimock, Json
from tests.second_opinion.asking import answer, asks, chunks, message, user

from finclaw.kernel.message import Text, ToolCall, ToolResult

pytestmark = pytest.mark.aimock

SPOKEN: Final = (
    user("두 가지 알려 줘"),
    message(2, "assistant", Text("봅니다."), ToolCall("call_1", "market__quote", {"symbol": "AAPL"}),
            ToolCall("call_2", "fx__convert", {"amount": 1})),
    message(3, "tool", ToolResult("call_1", "market__quote", "AAPL 231.40 USD"),
            ToolResult("call_2", "fx__convert", "unknown currency", status="error")),
)  # fmt: skip


@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)
async def test_a_turn_with_results_is_understood(aimock: Aimock, wire: Wire) -> None:
    aimock.expect(
        {"match": {"hasToolResult": False}, "response": {"content": "no result came"}},
        {"match": {"toolCallId": "call_2", "toolResultContains": "unknown currency"}, "response": {"content": "both"}},
    )
    assert (await answer(wire, aimock, asks(*SPOKEN))).blocks == (Text("both"),)
    understood = aimock.journal()[-1]["body"]
    roles = [each["role"] for each in understood["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "tool"]
    calls = [(each["id"], each["function"]["name"]) for each in understood["messages"][2]["tool_calls"]]
    assert calls == [("call_1", "market__quote"), ("call_2", "fx__convert")]
    assert [each["tool_call_id"] for each in understood["messages"][3:]] == ["call_1", "call_2"]
    assert sorted(each["function"]["name"] for each in understood["tools"]) == ["fx__convert", "market__quote"]


async def test_a_question_is_understood_alike_in_both_protocols(aimock: Aimock) -> None:
    """The mock puts every protocol into one form; what we ask in one must be what we ask in the other."""
    aimock.say({"content": "Yes."})
    for each in WIRES:
        await chunks(each, aimock, asks(*SPOKEN))
    one, other = (_plain(entry["body"]) for entry in aimock.journal()[-2:])
    assert one == other


def _plain(body: Json) -> Any:
    """White space between the names of a JSON text, and the order of tools, are nobody's business."""
    for each in body["messages"]:
        each["content"] = _words(each["content"])
        for call in each.get("tool_calls", ()):
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    return body["messages"], sorted(body["tools"], key=lambda tool: tool["function"]["name"]), body["max_tokens"]


def _words(content: Any) -> str:
    """Only one of the two has a field for a tool's failure; the other is told in words."""
    text = content if isinstance(content, str) else "".join(part.get("text", "") for part in content or ())
    return text.removeprefix("[this tool call failed] ")
