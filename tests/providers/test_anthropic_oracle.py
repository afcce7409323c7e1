"""The vendor's own client as the oracle: it and ours read every stream alike, and it takes what we write."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter
from tests.machine import examples
from tests.providers.anthropic_sdk import INPUTS, read_by_the_sdk, streams_of_events
from tests.providers.anthropic_streams import RECORDED
from tests.providers.reading import Read, read

from finclaw.kernel.chunk import AnswerSchema, Features, Model, ModelRequest, StopReason, ToolSpec, Usage
from finclaw.kernel.message import Block, Image, Message, Role, Source, Text, Thinking, ToolCall, ToolResult
from finclaw.providers.anthropic.request import AnthropicRequestWriter

if TYPE_CHECKING:
    from anthropic.types import Message as TheirMessage

NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
FORM: Final = AnswerSchema("trend", {"type": "object", "properties": {"up": {"type": "boolean"}}})
_STOPS: Final[dict[str, StopReason]] = {"end_turn": "end", "model_context_window_exceeded": "max_tokens"}


# ── answers ─────────────────────────────────────────────────────────────────────────────────────────────────


def as_ours(message: "TheirMessage") -> Read:
    stop = str(message.stop_reason)
    usage = message.usage
    return Read(
        tuple(found for each in message.content if (found := _block(each.to_dict())) is not None),
        Usage(
            usage.input_tokens,
            usage.output_tokens,
            usage.cache_read_input_tokens or 0,
            usage.cache_creation_input_tokens or 0,
        ),
        _STOPS.get(stop, cast(StopReason, stop)),
    )


def _block(fields: Mapping[str, Any]) -> Block | None:
    match fields["type"]:
        case "text":
            return Text(fields["text"]) if fields["text"] else None
        case "thinking":
            return Thinking(fields["thinking"], fields["signature"])
        case "redacted_thinking":
            return Thinking("", fields["data"], redacted=True)
        case _:
            return ToolCall(fields["id"], fields["name"], fields["input"])


def comparable(ours: Read) -> Read:
    """Ours never runs a call that was cut or cannot be read; the SDK shows what it could make of it."""
    blocks = tuple(each for each in ours.blocks if not isinstance(each, ToolCall) or each.bad_args is None)
    return Read(blocks, ours.usage, ours.stop)


@pytest.mark.spec("A-02", "A-07", "DX-48")
@pytest.mark.parametrize("name", [name for name in RECORDED if name != "a call cut by the limit"])
def test_recorded_streams(name: str) -> None:
    assert read(RECORDED[name]) == as_ours(read_by_the_sdk(RECORDED[name]))


def test_a_cut_call_is_shown_by_the_sdk_and_unreadable_to_us() -> None:
    cut = RECORDED["a call cut by the limit"]
    [ours] = read(cut).blocks
    assert ours == ToolCall("toolu_01", "market__quote", {}, bad_args='{"symbol": "00')
    assert [each.type for each in read_by_the_sdk(cut).content] == ["tool_use"]


@pytest.mark.spec("A-02", "DX-48")
@settings(max_examples=examples(150))
@given(streams_of_events())
def test_generated_streams(stream: bytes) -> None:
    ours = read(stream)
    assert comparable(ours) == ours  # every call in them is whole
    assert ours == as_ours(read_by_the_sdk(stream))


# ── requests ────────────────────────────────────────────────────────────────────────────────────────────────


@cache
def accepted_requests() -> TypeAdapter[Any]:
    from anthropic.types.message_create_params import MessageCreateParamsStreaming

    return TypeAdapter[Any](MessageCreateParamsStreaming)


def _as_lists(value: Any) -> Any:
    """What the SDK's types leave lazy is looked at here, and so judged."""
    if isinstance(value, Mapping):
        return {key: _as_lists(each) for key, each in cast(Mapping[str, Any], value).items()}
    if isinstance(value, str | int | float) or value is None:
        return value
    return [_as_lists(each) for each in cast(Iterable[Any], value)]


TEXTS = st.text(max_size=12).map(Text)
BLOCKS: Final[dict[Role, st.SearchStrategy[Block]]] = {
    "user": TEXTS | st.sampled_from([Image("image/png", b"x"), Image("image/bmp", b"x")]),
    "system": TEXTS,
    "assistant": TEXTS
    | st.builds(Thinking, st.text(max_size=5), st.text("ab", max_size=3), st.booleans())
    | st.builds(ToolCall, st.text(max_size=5), st.text(max_size=5), INPUTS),
    "tool": st.builds(
        ToolResult,
        st.text(max_size=5),
        st.text(max_size=5),
        st.text(max_size=9),
        st.sampled_from(["ok", "error", "skipped"]),
    ),
}
ROLES: Final = st.sampled_from(list(BLOCKS))


@st.composite
def requests(draw: st.DrawFn) -> ModelRequest:
    messages: list[Message] = []
    for number, role in enumerate(draw(st.lists(ROLES, max_size=8))):
        blocks = tuple(draw(st.lists(BLOCKS[role], max_size=3)))
        passing = draw(st.sampled_from(["", "", "note"]))
        messages.append(Message(str(number), role, blocks, Source("user"), NOW, passing=passing))
    tools = [ToolSpec(name, "A tool.", {"type": "object"}) for name in draw(st.sets(st.sampled_from("abc")))]
    features = st.builds(Features, st.booleans(), st.booleans(), st.booleans(), temperature=st.booleans())
    return ModelRequest(
        model=Model("anthropic", "claude", features=draw(features)),
        system=draw(st.text(max_size=9)),
        messages=tuple(messages),
        tools=tuple(tools),
        temperature=draw(st.sampled_from([None, 0.5])),
        thinking=draw(st.sampled_from(["off", "low", "high"])),
        answer_schema=draw(st.sampled_from([None, FORM])),
        max_tokens=draw(st.sampled_from([1, 2_048, 30_000])),
        stop_sequences=draw(st.sampled_from([(), ("END",)])),
    )


@pytest.mark.spec("A-04")
@settings(max_examples=examples(200))
@given(requests(), st.booleans())
def test_the_sdk_takes_every_request_as_it_is(asked: ModelRequest, caching: bool) -> None:
    """Fields unknown to the SDK would be dropped, and so be missed in what comes back."""
    body = msgspec.json.decode(AnthropicRequestWriter(10_000, caching=caching).write(asked))
    body.pop("temperature", None)  # older models take it, but the SDK of today has it no more
    assert _as_lists(accepted_requests().validate_python(body)) == body
    assert all(each["content"] for each in body["messages"])
    assert body.get("thinking", {}).get("budget_tokens", 0) < body["max_tokens"]
    roles = [each["role"] for each in body["messages"]]
    assert all(one != other for one, other in pairwise(roles))
    assert roles[:1] in ([], ["user"])
