"""What the API may cache: the same bytes in every request of a session, and at most four marks."""

from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.machine import examples

from finclaw.kernel.chunk import Model, ModelRequest, ToolSpec
from finclaw.kernel.message import Block, Image, Message, Role, Source, Text, Thinking, ToolCall, ToolResult
from finclaw.providers.anthropic.request import MARK, AnthropicRequestWriter

NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
TOOLS: Final = tuple(ToolSpec(name, "A tool.", {"type": "object"}) for name in ("b__two", "a__one", "c__three"))


def message(id: str, role: Role, *blocks: Block, passing: str = "") -> Message:
    return Message(id, role, blocks, Source("user"), NOW, passing=passing)


def request(messages: list[Message], tools: tuple[ToolSpec, ...] = TOOLS) -> ModelRequest:
    return ModelRequest(model=Model("anthropic", "claude"), system="Be brief.", messages=tuple(messages), tools=tools)


def decoded(written: bytes) -> Any:
    return msgspec.json.decode(written)


def marked(written: bytes) -> list[str]:
    """The text or id of each block that bears a mark, in the order of the API's prefix."""
    said = decoded(written)
    blocks = [*said.get("tools", []), *said.get("system", [])]
    blocks += [block for each in said["messages"] for block in each["content"]]
    names = [block.get("text") or block.get("tool_use_id") or block.get("name") for block in blocks]
    return [name for name, block in zip(names, blocks, strict=True) if "cache_control" in block]


HELLO = message("1", "user", Text("hello"))
NOTE = message("n", "system", Text("it is noon"), passing="context")
ASKS = message("2", "assistant", ToolCall("c1", "a__one"))
RESULT = message("3", "tool", ToolResult("c1", "a__one", "1"))


@pytest.mark.spec("PC-02", "DX-51b")
@pytest.mark.parametrize(
    ("messages", "places"),
    [
        pytest.param([HELLO], ["hello"], id="the last message"),
        pytest.param([HELLO, ASKS, RESULT], ["c1"], id="the last results"),
        pytest.param([HELLO, NOTE], ["hello"], id="never a passing message"),
        pytest.param([HELLO, NOTE, ASKS, RESULT], ["hello", "c1"], id="before the passing one, and the end"),
        pytest.param([NOTE, HELLO], ["hello"], id="a passing one first"),
        pytest.param([NOTE], [], id="nothing that lasts"),
        pytest.param([HELLO, message("4", "user", Text(" "))], ["hello"], id="what is not sent bears no mark"),
        pytest.param([], [], id="nothing"),
    ],
)
def test_where_the_marks_stand(messages: list[Message], places: list[str]) -> None:
    assert marked(AnthropicRequestWriter(10_000).write(request(messages))) == ["c__three", "Be brief.", *places]


@pytest.mark.spec("PC-02", "DX-51b")
def test_tools_are_sorted_whoever_registered_first() -> None:
    one = AnthropicRequestWriter(10_000).write(request([HELLO]))
    other = AnthropicRequestWriter(10_000).write(request([HELLO], tuple(reversed(TOOLS))))
    assert one == other
    assert [tool["name"] for tool in decoded(one)["tools"]] == ["a__one", "b__two", "c__three"]


def test_a_server_that_knows_no_marks_gets_none() -> None:
    assert MARK not in AnthropicRequestWriter(10_000, caching=False).write(request([HELLO, NOTE, ASKS, RESULT]))


def test_a_text_that_looks_like_a_mark_is_text() -> None:
    said = decoded(
        AnthropicRequestWriter(10_000).write(request([message("1", "user", Text(MARK.decode() + '}]},{"role'))]))
    )
    assert said["messages"][0]["content"][0]["text"] == MARK.decode() + '}]},{"role'


# ── a whole session ─────────────────────────────────────────────────────────────────────────────────────────

WORDS = st.text(min_size=1, max_size=20).filter(lambda text: text.strip() != "")
STEPS = st.lists(st.tuples(WORDS, st.integers(1, 3), st.booleans()), max_size=3)
TURNS = st.lists(st.tuples(WORDS, STEPS, st.booleans(), st.booleans()), min_size=50, max_size=50)


def requests_of(turns: list[Any]) -> list[tuple[list[Message], list[Message]]]:
    """For every model call of the session, what lasts of its messages and all of them."""
    lasting: list[Message] = []
    calls: list[tuple[list[Message], list[Message]]] = []
    for turn, (question, steps, has_note, has_image) in enumerate(turns):
        picture = (Image("image/png", b"x"),) if has_image else ()
        lasting.append(message(f"{turn}", "user", Text(question), *picture))
        everything = list(lasting)
        if has_note:
            everything.append(message(f"{turn}n", "system", Text(f"note {turn}"), passing="note"))
        calls.append((list(lasting), list(everything)))
        for step, (words, count, thinks) in enumerate(steps):
            ids = [f"call_{turn}_{step}_{each}" for each in range(count)]
            thought = (Thinking("hm", "signed"),) if thinks else ()
            asked = message(f"{turn}.{step}a", "assistant", *thought, Text(words), *(ToolCall(id, "q") for id in ids))
            results = message(f"{turn}.{step}t", "tool", *(ToolResult(id, "q", words) for id in ids))
            lasting += [asked, results]
            everything += [asked, results]
            calls.append((list(lasting), list(everything)))
        lasting.append(message(f"{turn}e", "assistant", Text("done")))
    return calls


def before_the_note(written: bytes, turn_note: bool) -> bytes:
    """All up to the first passing message, without marks."""
    plain = written.replace(MARK, b"")
    return plain.split(b',{"type":"text","text":"note ')[0] if turn_note else plain.removesuffix(b"]}]}")


@pytest.mark.spec("PC-01", "PC-02", "DX-51b")
@settings(max_examples=examples(25))
@given(TURNS)
def test_fifty_turns_have_one_prefix(turns: list[Any]) -> None:
    """Without the marks, every request begins with the one before it, up to that one's first passing message."""
    writer = AnthropicRequestWriter(1_000_000)
    written = [(writer.write(request(everything)), everything) for _, everything in requests_of(turns)]
    for (earlier, messages), (later, _) in pairwise(written):
        stable = before_the_note(earlier, any(each.passing for each in messages))
        assert later.replace(MARK, b"").startswith(stable)
    assert all(1 <= body.count(MARK) <= 4 for body, _ in written)


@settings(max_examples=examples(10))
@given(TURNS)
def test_marks_are_never_kept(turns: list[Any]) -> None:
    """A writer that wrote the whole session gives the same bytes as one that sees its last request only."""
    writer = AnthropicRequestWriter(1_000_000)
    asked = [request(everything) for _, everything in requests_of(turns)]
    written = [writer.write(each) for each in asked]
    assert written[-1] == AnthropicRequestWriter(1_000_000).write(asked[-1])
