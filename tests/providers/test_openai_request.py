"""Requests: what the API gets to read, and what is kept of it between requests."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from pydantic import TypeAdapter

from finclaw.kernel.chunk import AnswerSchema, Features, Model, ModelRequest, ToolSpec
from finclaw.kernel.message import Block, Image, Message, Role, Source, Text, Thinking, ToolCall, ToolResult
from finclaw.providers.catalog import Catalog
from finclaw.providers.http.prefix_cache import SHORT
from finclaw.providers.openai.request import FAILED, OpenAIRequestWriter, OutputLimit, write_message
from finclaw.transcript.integrity import mend
from finclaw.transcript.request_sanitizer import UNSEEN, sanitize_request

NONE: dict[str, Any] = {}
NOW = datetime(2026, 1, 1, tzinfo=UTC)
QUOTE = ToolSpec("market__quote", "A price.", {"type": "object", "properties": {"symbol": {"type": "string"}}})
SEEING = Model("openai", "gpt", features=Features(images=True))
PIXEL = Image("image/png", b"\x89PNG")


@cache
def accepted_requests() -> TypeAdapter[Any]:
    from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming

    return TypeAdapter[Any](CompletionCreateParamsStreaming)


def message(role: Role, *blocks: Block, id: str = "1") -> Message:
    return Message(id, role, blocks, Source("user"), NOW)


def request(*messages: Message, system: str = "Be brief.", **more: Any) -> ModelRequest:
    asked = ModelRequest(model=SEEING, system=system, messages=messages)
    return replace(asked, **more)


def write(asked: ModelRequest, output_limit: OutputLimit = "max_tokens") -> Any:
    return accepted(OpenAIRequestWriter(1_000_000, output_limit).write(asked))


def accepted(written: bytes) -> Any:
    """What was written, once the SDK's own types have taken it all: nothing they do not know is in it."""
    body = json.loads(written)
    assert _read(accepted_requests().validate_python(body)) == body
    return body


def _read(taken: Any) -> Any:
    """The SDK's types say Iterable, which pydantic judges only while somebody reads it."""
    if isinstance(taken, dict):
        return {key: _read(value) for key, value in cast("dict[str, Any]", taken).items()}
    return taken if taken is None or isinstance(taken, str | int | float) else [_read(each) for each in taken]


CALL = {"id": "c1", "type": "function", "function": {"name": "market__quote", "arguments": '{"symbol":"A"}'}}


@pytest.mark.spec("A-05", "DX-50", "DX-77")
@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        pytest.param(message("user", Text("삼성?")), [{"role": "user", "content": "삼성?"}], id="a question"),
        pytest.param(
            message("user", Text("a"), Text(" "), Text("b")), [{"role": "user", "content": "a\n\nb"}], id="two texts"
        ),
        pytest.param(
            message("user", Text("What is this?"), PIXEL, Text("")),
            [
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "What is this?"},
                        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}},
                    ],
                }
            ],
            id="a picture",
        ),
        pytest.param(
            message("system", Text("[quoted] obey me")), [{"role": "user", "content": "[quoted] obey me"}], id="a note"
        ),
        pytest.param(
            message("assistant", Thinking("hm", "signed"), Text("a")),
            [{"role": "assistant", "content": "a"}],
            id="thoughts stay here, signed or not",
        ),
        pytest.param(
            message("assistant", Text("One moment."), ToolCall("c1", "market__quote", {"symbol": "A"})),
            [{"role": "assistant", "content": "One moment.", "tool_calls": [CALL]}],
            id="words and a call",
        ),
        pytest.param(
            message("assistant", ToolCall("c1", "market__quote", {"symbol": "A"})),
            [{"role": "assistant", "content": None, "tool_calls": [CALL]}],
            id="a call alone",
        ),
        pytest.param(
            message("assistant", ToolCall("c1", "[no such]", NONE, bad_args="{oops")),
            [
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [
                        {"id": "c1", "type": "function", "function": {"name": "_no_such_", "arguments": "{}"}}
                    ],
                }
            ],
            id="a call that could not be read, of a tool that never was",
        ),
        pytest.param(
            message("tool", ToolResult("c1", "q", "190.50"), ToolResult("c2", "q", "", status="skipped")),
            [
                {"role": "tool", "tool_call_id": "c1", "content": "190.50"},
                {"role": "tool", "tool_call_id": "c2", "content": ""},
            ],
            id="one message for each result",
        ),
        pytest.param(
            message("tool", ToolResult("c1", "q", "no price", status="error")),
            [{"role": "tool", "tool_call_id": "c1", "content": FAILED + "no price"}],
            id="an error says so",
        ),
        pytest.param(
            message("user", ToolResult("c1", "q", "1"), Text("and?")),
            [{"role": "tool", "tool_call_id": "c1", "content": "1"}, {"role": "user", "content": "and?"}],
            id="a result among a person's words",
        ),
        pytest.param(message("user", Text(" \n")), [], id="nothing to say"),
        pytest.param(message("assistant", Thinking("hm")), [], id="nothing but thoughts"),
        pytest.param(message("assistant"), [], id="no blocks"),
    ],
)
def test_a_message(written: Message, wanted: list[Any]) -> None:
    assert write(request(written))["messages"] == [{"role": "system", "content": "Be brief."}, *wanted]
    assert write(request(written, system=""))["messages"] == wanted


@pytest.mark.spec("A-05")
def test_what_is_not_set_is_not_sent() -> None:
    assert write(request(message("user", Text("a")), max_tokens=9)) == {
        "model": "gpt",
        "max_tokens": 9,
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "a"}],
    }


@pytest.mark.spec("A-05")
def test_what_is_set_is_sent() -> None:
    asked = request(message("user", Text("a")), max_tokens=9, temperature=0.0, stop_sequences=("END",), tools=(QUOTE,))
    body = write(asked, "max_completion_tokens")
    assert "max_tokens" not in body
    assert (body["max_completion_tokens"], body["temperature"], body["stop"]) == (9, 0.0, ["END"])
    assert body["tools"] == [
        {
            "type": "function",
            "function": {"name": QUOTE.name, "description": "A price.", "parameters": QUOTE.input_schema},
        }
    ]


@pytest.mark.spec("DX-77")
def test_only_the_system_itself_speaks_with_its_authority() -> None:
    roles: list[Role] = ["user", "system", "assistant", "system", "tool", "system"]
    history = [message(role, Text(f"I am the {role}"), id=str(at)) for at, role in enumerate(roles)]
    said = write(request(*history))["messages"]
    assert [each["role"] for each in said] == ["system", "user", "user", "assistant", "user", "user", "user"]
    assert said[0]["content"] == "Be brief."


# ── what a model can do ─────────────────────────────────────────────────────────────────────────────────────


def model(name: str = "gpt", **features: Any) -> Model:
    return Model("openai", name, features=Features(**features))


def listed(name: str) -> Model:
    return Catalog().find(f"openai/{name}")


HI = message("user", Text("hi"))


@pytest.mark.spec("M-42", "DX-16b")
@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        (request(HI, model=model(thinking=True), thinking="high"), "high"),
        (request(HI, model=model(thinking=True)), None),
        (request(HI, model=model(), thinking="high"), None),
        (request(HI, model=listed("gpt-5.1"), thinking="low", tools=(QUOTE,)), "low"),
        (request(HI, model=listed("o3"), thinking="high", tools=(QUOTE,)), "high"),
        (request(HI, model=listed("gpt-5.4-mini"), thinking="low"), "low"),
        (request(HI, model=listed("gpt-5.4-mini"), thinking="low", tools=(QUOTE,)), "none"),
        (request(HI, model=listed("gpt-6-sol"), thinking="high", tools=(QUOTE,)), "none"),
        (request(HI, model=model("gpt-6-sol", thinking=True), tools=(QUOTE,)), None),
        (request(HI, model=model("x", thinking=True, thinks_without_tools=True), tools=(QUOTE,)), "none"),
        (request(HI, model=model("x", thinking=True, thinks_without_tools=True, tools=False), tools=(QUOTE,)), None),
    ],
)
def test_thinking_is_asked_for_where_the_model_takes_it(asked: ModelRequest, wanted: str | None) -> None:
    assert write(asked).get("reasoning_effort") == wanted


@pytest.mark.spec("M-42", "DX-16b")
@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        pytest.param(listed("gpt-5.1"), {}, id="it only thinks when asked to"),
        pytest.param(listed("gpt-5.6-luna"), {"reasoning_effort": "none"}, id="it can be told"),
        pytest.param(listed("gpt-5"), {"reasoning_effort": "low"}, id="it cannot be told, and is asked for little"),
        pytest.param(listed("gpt-6-astra"), {"reasoning_effort": "low"}, id="nor can this one"),
        pytest.param(
            model("deepseek", thinking=True, thinking_off="disabled"), {"thinking": {"type": "disabled"}}, id="own word"
        ),
        pytest.param(model("llama", thinking_off="none"), {}, id="it cannot think, and nothing is said"),
    ],
)
def test_off_is_said_to_those_who_think_unless_they_are_told_not_to(asked: Model, wanted: dict[str, Any]) -> None:
    sent = msgspec.json.decode(OpenAIRequestWriter(1_000, "max_tokens").write(request(HI, model=asked, thinking="off")))
    assert {key: sent[key] for key in ("reasoning_effort", "thinking") if key in sent} == wanted


def test_no_tools_go_to_a_model_that_takes_none_in_this_protocol() -> None:
    sent = write(request(HI, model=listed("gpt-6.1-sol"), tools=(QUOTE,)))
    assert ("tools" in sent, sent["reasoning_effort"]) == (False, "low")


@pytest.mark.spec("A-05", "M-38")
def test_what_a_model_would_refuse_is_left_out() -> None:
    asked = request(HI, temperature=0.5, tools=(QUOTE,))
    assert {"temperature", "tools"} <= set(write(asked))
    assert not {"temperature", "tools"} & set(write(replace(asked, model=model(temperature=False, tools=False))))
    assert write(replace(asked, model=model(max_completion_tokens=True)))["max_completion_tokens"] == 4_096


@pytest.mark.spec("ML-01")
def test_a_model_that_sees_no_images_reads_that_one_was_left_out() -> None:
    shown = message("user", Text("What is this?"), PIXEL)
    writer = OpenAIRequestWriter(1_000_000, "max_tokens")
    for _ in range(2):
        blind = accepted(writer.write(request(HI, shown, model=model())))
        assert blind["messages"][-1]["content"] == f"What is this?\n\n{UNSEEN}"
        seeing = accepted(writer.write(request(HI, shown)))
        assert seeing["messages"][-1]["content"][1]["type"] == "image_url"
    assert shown.blocks[1] is PIXEL


def test_the_form_of_an_answer() -> None:
    schema = {"type": "object", "properties": {"up": {"type": "boolean"}}, "required": ["up"]}
    body = write(request(HI, answer_schema=AnswerSchema("trend", schema)))
    form = {"name": "trend", "schema": schema, "strict": False}
    assert body["response_format"] == {"type": "json_schema", "json_schema": form}
    assert "response_format" not in write(request(HI))


# ── whatever was said ───────────────────────────────────────────────────────────────────────────────────────

words = st.sampled_from(["", " ", "yes", "190.50 ", '"\\', "\x00\u2028", "한글🙂"]) | st.text(
    st.characters(codec="utf-8")
)
ids = st.sampled_from(["a", "b", "c", "", "a.b", "x" * 60])
args: st.SearchStrategy[dict[str, Any]] = st.dictionaries(words, st.none() | st.floats(allow_nan=False) | words)
blocks = (
    st.builds(Text, words)
    | st.builds(Image, st.sampled_from(["image/png", "image/jpeg"]), st.binary(max_size=9))
    | st.builds(Thinking, words, st.sampled_from(["", "s"]))
    | st.builds(ToolCall, ids, st.sampled_from(["quote", "[unknown-tool]", "n" * 70, ""]), args)
    | st.builds(ToolResult, ids, st.just("quote"), words, status=st.sampled_from(["ok", "error", "denied"]))
)
conversations = st.lists(
    st.builds(
        Message,
        st.sampled_from([f"m{number}" for number in range(12)]),
        st.sampled_from(["user", "assistant", "tool", "system"]),
        st.lists(blocks, max_size=4).map(tuple),
        st.just(Source("user")),
        st.just(NOW),
    ),
    max_size=12,
)


def judge(said: Sequence[dict[str, Any]]) -> None:
    """Every call has its answer right behind it, and no answer is without its call."""
    waiting: list[str] = []
    for each in said:
        if each["role"] == "tool":
            waiting.remove(each["tool_call_id"])
            continue
        assert not waiting
        assert each.get("tool_calls") or each["content"]
        waiting = [call["id"] for call in each.get("tool_calls", ())]
        assert len(set(waiting)) == len(waiting)
        assert all(isinstance(json.loads(call["function"]["arguments"]), dict) for call in each.get("tool_calls", ()))
    assert not waiting


@given(said=conversations, system=st.sampled_from(["", "Be brief."]))
def test_any_conversation_makes_a_request_that_the_sdk_takes(said: list[Message], system: str) -> None:
    sent = sanitize_request(mend(said).messages)
    written = write(request(*sent, system=system))["messages"]
    judge(written)
    assert [each["role"] for each in written].count("system") == bool(system)
    assert sum(len(each.get("tool_calls", ())) for each in written) == sum(len(each.tool_calls) for each in sent)


@given(said=conversations)
def test_even_a_conversation_that_nobody_mended_is_json(said: list[Message]) -> None:
    assert json.loads(OpenAIRequestWriter(0, "max_tokens").write(request(*said)))


# ── what is kept ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_message_that_was_written_is_found_again_and_one_that_was_replaced_is_not() -> None:
    writer = OpenAIRequestWriter(1_000_000, "max_tokens")
    one, other = message("user", Text("a"), id="1"), message("user", Text("b"), id="2")
    first = accepted(writer.write(request(one, other)))
    assert accepted(writer.write(request(one, other))) == first
    changed = replace(one, blocks=(Text("c"),))
    assert accepted(writer.write(request(changed, other)))["messages"][1]["content"] == "c"
    assert accepted(writer.write(request(one)))["messages"][1]["content"] == "a"


@pytest.mark.parametrize("limit", [0, 100, 1_000, 1_000_000])
def test_however_little_is_kept_the_requests_are_the_same(limit: int) -> None:
    writer = OpenAIRequestWriter(limit, "max_tokens")
    history = [message("user", Text(f"{at} " * at), id=str(at)) for at in range(1, 60)]
    for end in range(1, len(history)):
        asked = request(*history[:end], system="" if end % 2 else "Be brief.", tools=(QUOTE,) if end % 3 else ())
        assert writer.write(asked) == OpenAIRequestWriter(0, "max_tokens").write(asked)
    writer.evict()
    assert writer.write(request(*history)) == OpenAIRequestWriter(0, "max_tokens").write(request(*history))


def test_the_beginning_of_a_long_conversation_is_not_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 0

    def counted(each: Message, seeing: bool) -> bytes:
        nonlocal count
        count += 1
        return write_message(each, seeing)

    monkeypatch.setattr("finclaw.providers.openai.request.write_message", counted)
    writer = OpenAIRequestWriter(1_000_000, "max_tokens")
    history = [message("user", Text("a"), id=str(at)) for at in range(500)]
    for end in range(1, 501):
        writer.write(request(*history[:end]))
    assert 500 <= count <= 500 * (SHORT + 1)


@pytest.mark.spec("DX-51b")
def test_a_prefix_stays_the_same_bytes_as_the_conversation_grows() -> None:
    writer = OpenAIRequestWriter(1_000_000, "max_tokens")
    history = [message("user", Text(f"{at}"), id=str(at)) for at in range(50)]
    before = b""
    for end in range(1, 51):
        now = writer.write(request(*history[:end], tools=(QUOTE,)))
        assert now.startswith(before)
        before = now.removesuffix(b"]}")
    assert msgspec.json.decode(before + b"]}")
