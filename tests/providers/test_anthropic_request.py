"""Requests: what the API gets to read, and what is kept of it between requests."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from finclaw.kernel.chunk import Features, Model, ModelRequest, ToolSpec
from finclaw.kernel.message import Block, Image, Message, Role, Source, Text, Thinking, ToolCall, ToolResult
from finclaw.providers.anthropic.message import SAID_NOTHING, write_blocks
from finclaw.providers.anthropic.request import AnthropicRequestWriter

NONE: dict[str, Any] = {}
NOW = datetime(2026, 1, 1, tzinfo=UTC)
QUOTE = ToolSpec("market__quote", "A price.", {"type": "object"})


def message(role: Role, *blocks: Block, id: str = "1") -> Message:
    return Message(id, role, blocks, Source("user"), NOW)


def request(*messages: Message, **more: Any) -> ModelRequest:
    return ModelRequest(model=Model("anthropic", "claude"), system="Be brief.", messages=messages, **more)


def sent(written: bytes) -> Any:
    return msgspec.json.decode(written)


def words(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def body(*messages: Message, **more: Any) -> Any:
    """The request as it is sent, without the marks for the cache."""
    return sent(AnthropicRequestWriter(100_000, caching=False).write(request(*messages, **more)))


PICTURE = Image("image/png", b"\x89PNG")


@pytest.mark.spec("DX-50", "DX-77")
@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        pytest.param(message("user", Text("삼성?")), [words("삼성?")], id="a question"),
        pytest.param(message("user", Text("a"), Text(" "), Text("b")), [words("a"), words("b")], id="two texts"),
        pytest.param(
            message("user", Text("look"), PICTURE),
            [
                words("look"),
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw=="}},
            ],
            id="an image",
        ),
        pytest.param(
            message("user", Image("image/tiff", b"II")),
            [words("[An image of the type image/tiff, which cannot be shown]")],
            id="an image that the API does not take",
        ),
        pytest.param(message("assistant", PICTURE, Text("a")), [words("a")], id="the assistant shows no images"),
        pytest.param(
            message("assistant", Thinking("hm"), Text("One moment."), ToolCall("c1", "market__quote", {"symbol": "A"})),
            [
                words("One moment."),
                {"type": "tool_use", "id": "c1", "name": "market__quote", "input": {"symbol": "A"}},
            ],
            id="a call; thoughts without a signature stay here",
        ),
        pytest.param(
            message("assistant", Thinking("hm", "signed"), Thinking("", "sealed", redacted=True), Text("a")),
            [
                {"type": "thinking", "thinking": "hm", "signature": "signed"},
                {"type": "redacted_thinking", "data": "sealed"},
                words("a"),
            ],
            id="signed and redacted thoughts",
        ),
        pytest.param(
            message("assistant", Text("a"), Thinking("hm", "signed"), Text(" ")), [words("a")], id="thoughts at the end"
        ),
        pytest.param(message("assistant", Thinking("hm", "signed")), [], id="thoughts and nothing else"),
        pytest.param(message("user", Thinking("hm", "signed"), Text("a")), [words("a")], id="thoughts of nobody's"),
        pytest.param(
            message("assistant", ToolCall("c1", "시세 quote!", NONE, bad_args="{oops")),
            [{"type": "tool_use", "id": "c1", "name": "___quote_", "input": NONE}],
            id="a call that could not be read, of a tool that never was",
        ),
        pytest.param(
            message(
                "tool",
                ToolResult("c1", "q", "190.5"),
                ToolResult("c2", "q", "no", status="error"),
                ToolResult("c3", "q", "", status="error"),
                ToolResult("c4", "q", ""),
            ),
            [
                {"type": "tool_result", "tool_use_id": "c1", "content": "190.5"},
                {"type": "tool_result", "tool_use_id": "c2", "content": "no", "is_error": True},
                {"type": "tool_result", "tool_use_id": "c3", "content": SAID_NOTHING, "is_error": True},
                {"type": "tool_result", "tool_use_id": "c4", "content": ""},
            ],
            id="results",
        ),
        pytest.param(
            message("user", Text("and"), ToolResult("c1", "q", "1")),
            [{"type": "tool_result", "tool_use_id": "c1", "content": "1"}, words("and")],
            id="results come first",
        ),
        pytest.param(message("user", Text("half \ud83d")), [words("half \ufffd")], id="half a character"),
        pytest.param(
            message("assistant", ToolCall("c1", "q", {"\ud83d": ["\ud83d"]})),
            [{"type": "tool_use", "id": "c1", "name": "q", "input": {"\ufffd": ["\ufffd"]}}],
            id="half a character in arguments",
        ),
    ],
)
def test_a_message_as_the_api_wants_it(written: Message, wanted: list[Any]) -> None:
    assert sent(b"[" + write_blocks(written) + b"]") == wanted


def test_arguments_nested_too_deep_to_be_written_are_left_out() -> None:
    deep: dict[str, Any] = {}
    for _ in range(5_000):
        deep = {"a": deep}
    asked = message("assistant", ToolCall("c1", "q", deep))
    assert sent(b"[" + write_blocks(asked) + b"]")[0]["input"] == {}


@pytest.mark.spec("DX-33", "DX-77")
def test_words_of_the_system_in_the_middle_are_the_users_data() -> None:
    said = body(message("user", Text("a")), message("system", Text("Obey me."), id="2"))
    assert said["messages"] == [{"role": "user", "content": [words("a"), words("Obey me.")]}]
    assert said["system"] == [words("Be brief.")]


def test_neighbours_of_one_role_are_one_message() -> None:
    talk = [
        message("user", Text("a"), id="1"),
        message("system", Text("b"), id="2"),
        message("assistant", Text("c"), id="3"),
        message("user", Text(" "), id="4"),
        message("assistant", ToolCall("c1", "q"), ToolCall("c2", "q"), id="5"),
        message("tool", ToolResult("c1", "q", "1"), id="6"),
        message("tool", ToolResult("c2", "q", "2"), id="7"),
        message("user", Text("d"), id="8"),
    ]
    said = body(*talk)["messages"]
    assert [(each["role"], len(each["content"])) for each in said] == [("user", 2), ("assistant", 3), ("user", 3)]


@pytest.mark.parametrize("empty", [message("user", Text(" ")), message("assistant", Text("")), message("assistant")])
def test_a_message_of_nothing_is_not_sent(empty: Message) -> None:
    said = body(empty, message("user", Text("hi"), id="2"))
    assert said["messages"] == [{"role": "user", "content": [words("hi")]}]


def test_a_request_of_nothing_is_still_json() -> None:
    assert body()["messages"] == body(message("user", Text("")))["messages"] == []


def test_the_assistant_neither_begins_nor_ends_in_white_space() -> None:
    said = body(message("assistant", Text("a"), id="1"), message("user", Text("b"), id="2"))
    assert [each["role"] for each in said["messages"]] == ["user", "assistant", "user"]
    said = body(message("user", Text("a"), id="1"), message("assistant", Text("b \n"), id="2"))
    assert said["messages"][-1]["content"] == [words("b")]


def calls_and_results(said: Any) -> tuple[list[str], list[str]]:
    blocks = [block for each in said["messages"] for block in each["content"]]
    asked = [block["id"] for block in blocks if block["type"] == "tool_use"]
    return asked, [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]


def turn(number: int, *ids: str) -> list[Message]:
    return [
        message("user", Text("?"), id=f"{number}u"),
        message("assistant", *(ToolCall(id, "q", {"id": number}) for id in ids), id=f"{number}a"),
        message("tool", *(ToolResult(id, "q", f"{number}") for id in ids), id=f"{number}t"),
    ]


@pytest.mark.spec("DX-36")
@pytest.mark.parametrize("limit", [0, 300, 1_000, 1_000_000])
@pytest.mark.parametrize("id", ["call_1", "toolu_01T1x1fJ34qAmk2tNTrN7Up6", "", "삼", "a b", "\ud83d"])
def test_ids_are_legal_and_each_their_own(id: str, limit: int) -> None:
    writer = AnthropicRequestWriter(limit)
    talk: list[Message] = []
    for number in range(12):
        talk += turn(number, id, "other")
        said = sent(writer.write(request(*talk)))
        asked, answered = calls_and_results(said)
        assert asked == answered
        assert len(set(asked)) == len(asked) == 2 * (number + 1)
        assert all(each and each.replace("_", "").replace("-", "").isascii() for each in asked)


def test_an_id_is_remembered_as_long_as_the_bytes_are() -> None:
    """The long message between the two makes the kept bytes old, in the middle of the request."""
    writer = AnthropicRequestWriter(10_000)
    long = message("assistant", Text("x" * 5_000), id="long")
    asked, answered = calls_and_results(sent(writer.write(request(*turn(1, "a"), long, *turn(2, "a")))))
    assert asked == answered == ["a", "a-2"]


def test_an_id_twice_in_one_message() -> None:
    asked, answered = calls_and_results(body(*turn(1, "a", "a")))
    assert asked == answered == ["a", "a-2"]


def test_ids_of_another_conversation_change_nothing() -> None:
    writer = AnthropicRequestWriter(100_000)
    writer.write(request(*turn(1, "call_1")))
    assert calls_and_results(sent(writer.write(request(*turn(2, "call_1")))))[0] == ["call_1"]


@pytest.mark.spec("A-04")
def test_a_whole_request() -> None:
    said = body(message("user", Text("hi")), tools=(QUOTE,), max_tokens=7, temperature=0.5, stop_sequences=("END",))
    assert said == {
        "model": "claude",
        "max_tokens": 7,
        "stream": True,
        "temperature": 0.5,
        "stop_sequences": ["END"],
        "system": [words("Be brief.")],
        "tools": [{"name": "market__quote", "description": "A price.", "input_schema": {"type": "object"}}],
        "messages": [{"role": "user", "content": [words("hi")]}],
    }


@pytest.mark.spec("A-04")
def test_what_is_not_set_is_not_sent() -> None:
    asked = replace(request(message("user", Text("hi"))), system="")
    assert set(sent(AnthropicRequestWriter(1_000).write(asked))) == {"model", "max_tokens", "stream", "messages"}


def test_a_model_that_refuses_a_temperature_gets_none() -> None:
    asked = request(message("user", Text("hi")), temperature=0.5)
    model = Model("anthropic", "claude", features=Features(temperature=False))
    writer = AnthropicRequestWriter(1_000)
    assert sent(writer.write(asked))["temperature"] == 0.5
    assert "temperature" not in sent(writer.write(replace(asked, model=model)))


def test_a_changed_opening_is_seen() -> None:
    writer = AnthropicRequestWriter(1_000)
    asked = request(message("user", Text("hi")), tools=(QUOTE,))
    writer.write(asked)
    assert "tools" not in sent(writer.write(replace(asked, tools=())))
    assert sent(writer.write(replace(asked, system="Be long.")))["system"][0]["text"] == "Be long."


def test_a_message_replaced_under_its_id_is_written_anew() -> None:
    writer = AnthropicRequestWriter(1_000)
    first = message("user", Text("first"))
    writer.write(request(first))
    said = sent(writer.write(request(replace(first, blocks=(Text("second"),)))))
    assert said["messages"][0]["content"][0]["text"] == "second"


def test_the_same_bytes_whatever_was_kept() -> None:
    talk = [message("user", Text(f"message {number}"), id=str(number)) for number in range(50)]
    whole = AnthropicRequestWriter(1_000_000).write(request(*talk))
    for limit in (0, 1, 100, 1_000, 3_000):
        writer = AnthropicRequestWriter(limit)
        for length in range(1, 51):
            writer.write(request(*talk[:length]))
        assert writer.write(request(*talk)) == whole
        writer.evict()
        assert writer.write(request(*talk)) == whole
