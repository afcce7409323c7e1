"""Requests: what the API gets to read, and what is kept of it between requests."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from finclaw.kernel.chunk import Model, ModelRequest, ToolSpec
from finclaw.kernel.message import Block, Message, Role, Source, Text, Thinking, ToolCall, ToolResult
from finclaw.providers.anthropic.request import RequestWriter, write_message

NONE: dict[str, Any] = {}
NOW = datetime(2026, 1, 1, tzinfo=UTC)
QUOTE = ToolSpec("market__quote", "A price.", {"type": "object"})


def message(role: Role, *blocks: Block, id: str = "1") -> Message:
    return Message(id, role, blocks, Source("user"), NOW)


def request(*messages: Message, **more: Any) -> ModelRequest:
    return ModelRequest(model=Model("anthropic", "claude"), system="Be brief.", messages=messages, **more)


def sent(written: bytes) -> Any:
    return msgspec.json.decode(written)


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        pytest.param(message("user", Text("삼성?")), {"role": "user", "content": "삼성?"}, id="a question"),
        pytest.param(
            message("user", Text("a"), Text("b")),
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
            id="two texts",
        ),
        pytest.param(
            message("assistant", Thinking("hm"), Text("One moment."), ToolCall("c1", "market__quote", {"symbol": "A"})),
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "One moment."},
                    {"type": "tool_use", "id": "c1", "name": "market__quote", "input": {"symbol": "A"}},
                ],
            },
            id="a call; thoughts without a signature stay here",
        ),
        pytest.param(
            message("assistant", Thinking("hm", "signed")),
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "signed"}]},
            id="signed thoughts",
        ),
        pytest.param(
            message("assistant", ToolCall("c1", "market__quote", NONE, bad_args="{oops")),
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "c1", "name": "market__quote", "input": NONE}],
            },
            id="a call that could not be read",
        ),
        pytest.param(
            message("tool", ToolResult("c1", "q", "190.5"), ToolResult("c2", "q", "no", status="error")),
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "c1", "content": "190.5"},
                    {"type": "tool_result", "tool_use_id": "c2", "content": "no", "is_error": True},
                ],
            },
            id="results",
        ),
        pytest.param(message("system", Text("Summary.")), {"role": "user", "content": "Summary."}, id="the system"),
    ],
)
def test_a_message_as_the_api_wants_it(written: Message, wanted: dict[str, Any]) -> None:
    assert sent(write_message(written).removeprefix(b",")) == wanted


@pytest.mark.parametrize("empty", [message("user", Text(" ")), message("assistant", Text("")), message("assistant")])
def test_a_message_of_nothing_is_not_sent(empty: Message) -> None:
    asked = request(empty, message("user", Text("hi"), id="2"))
    assert sent(RequestWriter(1_000).write(asked))["messages"] == [{"role": "user", "content": "hi"}]


def test_a_whole_request() -> None:
    asked = request(message("user", Text("hi")), tools=(QUOTE,), max_tokens=7, temperature=0.5, stop_sequences=("END",))
    assert sent(RequestWriter(1_000).write(asked)) == {
        "model": "claude",
        "max_tokens": 7,
        "stream": True,
        "temperature": 0.5,
        "stop_sequences": ["END"],
        "system": "Be brief.",
        "tools": [{"name": "market__quote", "description": "A price.", "input_schema": {"type": "object"}}],
        "messages": [{"role": "user", "content": "hi"}],
    }


def test_what_is_not_set_is_not_sent() -> None:
    asked = replace(request(message("user", Text("hi"))), system="")
    assert set(sent(RequestWriter(1_000).write(asked))) == {"model", "max_tokens", "stream", "messages"}


def test_a_changed_opening_is_seen() -> None:
    writer = RequestWriter(1_000)
    asked = request(message("user", Text("hi")), tools=(QUOTE,))
    writer.write(asked)
    assert "tools" not in sent(writer.write(replace(asked, tools=())))
    assert sent(writer.write(replace(asked, system="Be long.")))["system"] == "Be long."


def test_a_message_replaced_under_its_id_is_written_anew() -> None:
    writer = RequestWriter(1_000)
    first = message("user", Text("first"))
    writer.write(request(first))
    assert sent(writer.write(request(replace(first, blocks=(Text("second"),)))))["messages"][0]["content"] == "second"


def test_the_same_bytes_whatever_was_kept() -> None:
    talk = [message("user", Text(f"message {number}"), id=str(number)) for number in range(50)]
    whole = RequestWriter(1_000_000).write(request(*talk))
    for limit in (0, 1, 100, 1_000, 3_000):
        writer = RequestWriter(limit)
        for length in range(1, 51):
            writer.write(request(*talk[:length]))
        assert writer.write(request(*talk)) == whole
        writer.evict()
        assert writer.write(request(*talk)) == whole
