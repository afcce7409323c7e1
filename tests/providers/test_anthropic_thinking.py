"""Thinking, images and the form of an answer: what each model is asked for, and what it would refuse."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace
from tests.machine import examples
from tests.support.api_rules import violations

from finclaw.kernel.chunk import AnswerSchema, Features, Model, ModelRequest, ToolSpec
from finclaw.kernel.envelope import THOUGHTS
from finclaw.kernel.message import Block, Image, Message, Role, Source, Text, Thinking, ToolCall, ToolResult
from finclaw.providers.anthropic.request import AnthropicRequestWriter, narrow_schema
from finclaw.providers.catalog import Catalog
from finclaw.transcript.request_sanitizer import UNSEEN

NOW = datetime(2026, 1, 1, tzinfo=UTC)
QUOTE = ToolSpec("market__quote", "A price.", {"type": "object"})
HAIKU = Model("anthropic", "haiku", max_output=64_000, features=Features(thinking=True, images=True))
OPUS = Model(
    "anthropic", "opus", max_output=64_000, features=Features(thinking=True, adaptive_thinking=True, temperature=False)
)
PLAIN = Model("anthropic", "plain")


def message(role: Role, *blocks: Block | str, id: str = "1", model: str = "") -> Message:
    made = tuple(Text(each) if isinstance(each, str) else each for each in blocks)
    return Message(id, role, made, Source("user"), NOW, {"model": model} if model else {})


def request(*messages: Message, model: Model = HAIKU, **more: Any) -> ModelRequest:
    asked = ModelRequest(model=model, system="", messages=messages or (message("user", "hi"),), max_tokens=30_000)
    return replace(asked, **more)


def body(asked: ModelRequest) -> Any:
    return msgspec.json.decode(AnthropicRequestWriter(100_000, caching=False).write(asked))


@pytest.mark.spec("M-42", "DX-16b")
def test_a_budget_of_thoughts_below_the_limit_and_no_temperature() -> None:
    sent = body(request(thinking="low", temperature=0.5))
    assert sent["thinking"] == {"type": "enabled", "budget_tokens": THOUGHTS["low"]}
    assert "temperature" not in sent
    tight = body(request(thinking="high", max_tokens=5_000))
    assert tight["thinking"]["budget_tokens"] == 5_000 - 1_024
    assert body(request(thinking="low", max_tokens=2_048))["thinking"]["budget_tokens"] == 1_024


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(request(temperature=0.5), id="off"),
        pytest.param(request(temperature=0.5, thinking="high", model=PLAIN), id="a model that cannot"),
        pytest.param(request(temperature=0.5, thinking="high", max_tokens=2_047), id="no room for it"),
    ],
)
def test_no_thinking_and_so_the_temperature(asked: ModelRequest) -> None:
    sent = body(asked)
    assert not {"thinking", "output_config"} & set(sent)
    assert sent["temperature"] == 0.5


def test_newer_models_find_out_themselves_and_are_told_how_hard_to_try() -> None:
    sent = body(request(thinking="medium", temperature=0.5, model=OPUS, max_tokens=100))
    assert (sent["thinking"], sent["output_config"]) == ({"type": "adaptive"}, {"effort": "medium"})
    assert "temperature" not in sent
    assert not {"thinking", "output_config"} & set(body(request(model=OPUS)))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("claude-haiku-4-5", "enabled"),
        ("claude-opus-4-6", "enabled"),
        ("claude-opus-4-7", "adaptive"),
        ("claude-sonnet-5-5", "adaptive"),
        ("claude-fable-5", "adaptive"),
    ],
)
def test_the_catalog_knows_which_are_newer(name: str, kind: str) -> None:
    assert body(request(thinking="low", model=Catalog().find(f"anthropic/{name}")))["thinking"]["type"] == kind


@pytest.mark.spec("M-42", "DX-16b")
@pytest.mark.parametrize(
    ("name", "thinking", "effort"),
    [
        ("claude-sonnet-4-6", None, None),
        ("claude-opus-4-8", None, None),
        ("claude-opus-5", {"type": "disabled"}, None),
        ("claude-haiku-5-5", {"type": "disabled"}, None),
        ("claude-sonnet-5-5", {"type": "between_tools"}, None),
        ("claude-opus-5-5", {"type": "adaptive"}, "low"),
        ("claude-fable-5", {"type": "adaptive"}, "low"),
    ],
)
def test_off_is_said_to_those_who_think_unless_they_are_told_not_to(
    name: str, thinking: dict[str, str] | None, effort: str | None
) -> None:
    sent = body(request(thinking="off", model=Catalog().find(f"anthropic/{name}"), tools=(QUOTE,)))
    assert sent.get("thinking") == thinking
    assert sent.get("output_config", {}).get("effort") == effort


def test_a_temperature_goes_with_thinking_that_is_off() -> None:
    model = replace(HAIKU, features=Features(thinking=True, thinking_off="disabled"))
    assert body(request(model=model, temperature=0.5))["temperature"] == 0.5
    assert "temperature" not in body(request(model=model, temperature=0.5, thinking="low"))


def test_a_budget_is_a_matter_of_its_own_whatever_is_said_of_the_temperature() -> None:
    cold = replace(HAIKU, features=Features(thinking=True, temperature=False))
    assert body(request(model=cold, thinking="low"))["thinking"]["type"] == "enabled"
    warm = replace(HAIKU, features=Features(thinking=True, adaptive_thinking=True))
    assert body(request(model=warm, thinking="low"))["thinking"]["type"] == "adaptive"


def test_the_same_writer_for_one_request_and_another() -> None:
    writer = AnthropicRequestWriter(100_000)
    asked = request(thinking="low")
    for each in (asked, replace(asked, thinking="off"), replace(asked, thinking="high"), replace(asked, model=OPUS)):
        assert writer.write(each) == AnthropicRequestWriter(100_000).write(each)


# ── switched in the middle ──────────────────────────────────────────────────────────────────────────────────

CALL = ToolCall("c1", "market__quote")
RESULT = message("tool", ToolResult("c1", "market__quote", "190"), id="3")
QUESTION = message("user", "price?", id="1")
NOTE = message("system", "[be brief]", id="n")


def calls(*thoughts: Thinking, model: str = "") -> Message:
    return message("assistant", *thoughts, CALL, id="2", model=model)


SIGNED = Thinking("hm", "signed")


@pytest.mark.parametrize(
    ("talk", "thinks"),
    [
        pytest.param([QUESTION, calls(SIGNED), RESULT], True, id="it thought before it called"),
        pytest.param([QUESTION, calls(), RESULT], False, id="it did not"),
        pytest.param([QUESTION, calls(Thinking("hm")), RESULT], False, id="unsigned, as other protocols give it"),
        pytest.param([QUESTION, calls(SIGNED, model="house/x"), RESULT], False, id="another API signed it"),
        pytest.param([QUESTION, calls(SIGNED, model="anthropic/x"), RESULT], True, id="this one did"),
        pytest.param([QUESTION, calls(), RESULT, NOTE], False, id="a note behind the result"),
        pytest.param(
            [
                QUESTION,
                calls(SIGNED),
                RESULT,
                message("assistant", ToolCall("c2", "market__quote"), id="4"),
                message("tool", ToolResult("c2", "market__quote", "191"), id="5"),
            ],
            True,
            id="once for two calls in a row",
        ),
        pytest.param(
            [QUESTION, calls(), RESULT, message("assistant", "190", id="4"), message("user", "and?", id="5")],
            True,
            id="the calls were those of an earlier question",
        ),
    ],
)
def test_thinking_is_not_turned_on_in_the_midst_of_calls(talk: list[Message], thinks: bool) -> None:
    assert ("thinking" in body(request(*talk, thinking="low", tools=(QUOTE,)))) is thinks


@pytest.mark.spec("A-04")
def test_thoughts_go_back_to_the_api_that_gave_them_and_to_no_other() -> None:
    talk = [QUESTION, calls(SIGNED, model="anthropic/haiku"), RESULT]
    assert not violations(talk, "anthropic")
    writer = AnthropicRequestWriter(100_000)
    for provider, kinds in (("anthropic", ["thinking", "tool_use"]), ("house", ["tool_use"])) * 2:
        asked = request(*talk, model=Model(provider, "haiku", features=HAIKU.features), tools=(QUOTE,))
        said = msgspec.json.decode(writer.write(asked))["messages"][1]["content"]
        assert [each["type"] for each in said] == kinds


# ── images ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("ML-01")
@pytest.mark.parametrize("limit", [0, 500, 100_000])
def test_a_model_that_sees_no_images_reads_that_one_was_left_out(limit: int) -> None:
    shown = message("user", "look", Image("image/png", b"\x89PNG"))
    writer = AnthropicRequestWriter(limit, caching=False)
    for _ in range(2):
        for model, wanted in ((PLAIN, {"type": "text", "text": UNSEEN}), (HAIKU, None)):
            last = msgspec.json.decode(writer.write(request(shown, model=model)))["messages"][0]["content"][-1]
            assert last == wanted if wanted else last["type"] == "image"
    assert isinstance(shown.blocks[1], Image)


def test_a_model_without_tools_gets_none() -> None:
    blunt = Model("anthropic", "old", features=Features(tools=False))
    assert "tools" not in body(request(model=blunt, tools=(QUOTE,)))


# ── the form of an answer ───────────────────────────────────────────────────────────────────────────────────


class Leg(Struct):
    symbol: str
    shares: int | None = None


class Order(Struct):
    legs: list[Leg]
    note: str = ""


SIMPLE: dict[str, Any] = {"type": "object", "properties": {"up": {"type": "boolean"}}, "required": ["up"]}


def test_an_answer_is_held_to_its_form_while_it_thinks() -> None:
    asked = request(thinking="high", model=OPUS, answer_schema=AnswerSchema("trend", SIMPLE))
    form = {"type": "json_schema", "schema": {**SIMPLE, "additionalProperties": False}}
    assert body(asked)["output_config"] == {"effort": "high", "format": form}
    assert body(replace(asked, thinking="off"))["output_config"] == {"format": form}


@pytest.mark.parametrize(
    "schema",
    [
        SIMPLE,
        {"type": "object", "properties": {"at": {"type": "string", "format": "date"}, "of": {"enum": ["a", "b"]}}},
        {"type": "object", "properties": {"n": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}},
        {"type": "object", "properties": {"rows": {"type": "array", "items": SIMPLE}}, "description": "Rows."},
    ],
)
def test_the_sdk_makes_the_same_of_a_schema(schema: dict[str, Any]) -> None:
    from anthropic import transform_schema

    assert narrow_schema(schema) == transform_schema(schema)


def test_what_the_api_does_not_take_is_left_to_whoever_checks() -> None:
    number = {"type": "number", "minimum": 0, "description": "Won.", "default": 1}
    assert narrow_schema({"type": "object", "properties": {"n": number, "t": {"type": ["string", "null"]}}}) == {
        "type": "object",
        "properties": {
            "n": {"type": "number", "description": "Won."},
            "t": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        },
        "additionalProperties": False,
    }


def test_references_are_written_out() -> None:
    found = narrow_schema(msgspec.json.schema(Order))
    assert found is not None
    assert found["properties"]["legs"]["items"]["properties"]["symbol"] == {"type": "string"}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": "object", "additionalProperties": {"type": "number"}},
        {"type": "object", "properties": {"any": True}},
        {"type": "object", "properties": {"any": {}}},
        {"type": "object", "properties": {"rows": {"type": "array"}}},
        {"type": "object", "properties": {"x": {"$ref": "#/$defs/none"}}},
        {
            "$ref": "#/$defs/tree",
            "$defs": {
                "tree": {
                    "type": "object",
                    "properties": {"one": {"$ref": "#/$defs/tree"}, "other": {"$ref": "#/$defs/tree"}},
                }
            },
        },
    ],
)
def test_where_the_api_would_hold_it_to_something_else_it_is_not_held(schema: dict[str, Any]) -> None:
    assert narrow_schema(schema) is None
    assert "output_config" not in body(request(answer_schema=AnswerSchema("x", schema)))


# ── whatever model, whoever answered before ─────────────────────────────────────────────────────────────────

WRITERS = st.sampled_from(["", "anthropic/haiku", "anthropic/opus", "house/x", "openai/gpt"])
MINDS = st.lists(st.sampled_from([SIGNED, Thinking("hm"), Thinking("", "sealed", redacted=True)]), max_size=2)


@st.composite
def sessions(draw: st.DrawFn) -> list[Message]:
    """Questions, each with calls and their results and perhaps an answer, by models that come and go."""
    talk: list[Message] = []
    for turn in range(draw(st.integers(1, 3))):
        talk.append(message("user", "?", id=f"u{turn}"))
        for step in range(draw(st.integers(0, 3))):
            id = f"{turn}-{step}"
            called = (*draw(MINDS), ToolCall(id, "market__quote"))
            talk.append(message("assistant", *called, id=f"a{id}", model=draw(WRITERS)))
            talk.append(message("tool", ToolResult(id, "market__quote", "1"), id=f"t{id}"))
        if draw(st.booleans()):
            talk.append(message("assistant", *draw(MINDS), "well", id=f"e{turn}", model=draw(WRITERS)))
            talk.append(message("user", "go on", id=f"g{turn}"))
    return talk


def as_ours(said: list[Any]) -> list[Message]:
    return [message(each["role"], *map(_block, each["content"]), id=str(at)) for at, each in enumerate(said)]


def _block(fields: dict[str, Any]) -> Block:
    match fields["type"]:
        case "text":
            return Text(fields["text"])
        case "thinking":
            return Thinking(fields["thinking"], fields["signature"])
        case "redacted_thinking":
            return Thinking("", fields["data"], redacted=True)
        case "tool_use":
            return ToolCall(fields["id"], fields["name"], fields["input"])
        case _:
            return ToolResult(fields["tool_use_id"], "market__quote", fields["content"])


@pytest.mark.spec("A-04", "TR-08")
@settings(max_examples=examples(300))
@given(sessions(), st.lists(st.sampled_from([("off", HAIKU), ("low", HAIKU), ("high", OPUS)]), min_size=1, max_size=3))
def test_however_thinking_and_models_change_the_api_takes_it(talk: list[Message], asked: list[Any]) -> None:
    writer = AnthropicRequestWriter(1_000, caching=False)
    for thinking, model in asked:
        written = msgspec.json.decode(writer.write(request(*talk, model=model, thinking=thinking, tools=(QUOTE,))))
        sent = as_ours(written["messages"])
        assert violations(sent, "anthropic") == ()
        if written.get("thinking", {}).get("type") == "enabled":
            asked_last = max(at for at, each in enumerate(sent) if each.role == "user" and not each.tool_results)
            assert all(isinstance(each.blocks[0], Thinking) for each in sent[asked_last + 1 : asked_last + 2])
        theirs = [each for each in talk if each.metadata.get("model", "anthropic/").startswith("anthropic/")]
        signed = sum(isinstance(block, Thinking) and bool(block.signature) for each in theirs for block in each.blocks)
        assert sum(isinstance(block, Thinking) for each in sent for block in each.blocks) == signed
