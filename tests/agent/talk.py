"""Conversations for the tests of window and compaction, whole ones of every kind, and a counter easy to check."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from hypothesis import strategies as st
from tests.support.api_rules import violations

from finclaw.agent.window.tokens import CorrectionFactor
from finclaw.kernel.chunk import Model
from finclaw.kernel.message import Block, Image, Message, Role, Source, Text, Thinking, ToolCall, ToolResult
from finclaw.testing.clock import EPOCH
from finclaw.transcript.request_sanitizer import sanitize_request

AT = datetime(2025, 1, 6, tzinfo=UTC)
FRAME = 4


def new_correction(model: Model) -> CorrectionFactor:
    """Of a model of which nothing is known yet."""
    return CorrectionFactor()


def count_text(text: str) -> int:
    """Four plain characters are a token, and each of the others is one."""
    return -(-len(text) // 4) if text.isascii() else -(-sum(1 if sign < "\x80" else 4 for sign in text) // 4)


def count(message: Message) -> int:
    return FRAME + sum(_size(block) for block in message.blocks)


def _size(block: Block) -> int:
    match block:
        case Text(text) | Thinking(text):
            return count_text(text)
        case ToolCall():
            return count_text(block.name) + count_text(msgspec.json.encode(block.args).decode())
        case ToolResult():
            return count_text(block.content)
        case Image():
            return 1_000


def entry(id: str, role: Role, *blocks: Block | str, passing: str = "", **metadata: Any) -> Message:
    made = tuple(Text(each) if isinstance(each, str) else each for each in blocks)
    return Message(id, role, made, Source("user" if role == "user" else "system"), AT, metadata, passing)


def asks(id: str, *calls: str, **args: Any) -> Message:
    return entry(id, "assistant", *(ToolCall(call, "market__quote", args) for call in calls))


def tells(id: str, *results: tuple[str, str]) -> Message:
    return entry(id, "tool", *(ToolResult(call, "market__quote", content) for call, content in results))


def exchange(number: int, *, words: int = 200, result: int = 400) -> list[Message]:
    """A question, a call, its result and an answer."""
    return [
        entry(f"u{number}", "user", f"question {number}: " + "word " * (words // 5)),
        asks(f"a{number}", f"c{number}", symbol="AAPL"),
        tells(f"t{number}", (f"c{number}", f"row {number}\n" * (result // 8))),
        entry(f"s{number}", "assistant", f"answer {number}: " + "word " * (words // 5)),
    ]


def talk(exchanges: int, **sizes: int) -> tuple[Message, ...]:
    return tuple(message for number in range(exchanges) for message in exchange(number, **sizes))


def judge(messages: Sequence[Message]) -> None:
    """Every API takes it, and ids are unique."""
    assert len({message.id for message in messages}) == len(messages)
    if messages:
        sent = sanitize_request(messages)
        assert violations(sent, "anthropic") == ()
        assert violations(sent, "openai") == ()


# ── random ones ─────────────────────────────────────────────────────────────────────────────────────────────

LENGTHS = st.one_of(st.integers(0, 300), st.integers(0, 5_000), st.sampled_from([20_000, 400_000]))
ALPHABETS = st.sampled_from(
    ["word ", "삼성전자 ", "₩1,234,500원 2025-01-06\n", "{'a': 1}, ", "x", "👩‍👩‍👧", "ORD-7731 "]
)
KINDS = st.sampled_from(["user", "assistant", "tools", "tools", "note", "pinned", "passing", "summary"])


@st.composite
def pieces(draw: st.DrawFn) -> tuple[str, str, int]:
    unit = draw(ALPHABETS)
    text = unit * (draw(LENGTHS) // len(unit)) or "."
    return draw(KINDS), text, draw(st.integers(1, 3))


@st.composite
def conversations(draw: st.DrawFn, kinds: frozenset[str] | None = None) -> tuple[Message, ...]:
    drawn = draw(st.lists(pieces(), min_size=1, max_size=25))
    messages: list[Message] = []
    for number, (kind, text, calls) in enumerate(drawn):
        if kinds is None or kind in kinds:
            messages += _piece(number, kind, text, calls)
    return tuple(messages) or tuple(_piece(0, "tools", "row", 1))


def _piece(number: int, kind: str, text: str, calls: int) -> list[Message]:
    id = f"m{number}"
    if kind == "tools":
        names = [f"c{number}-{call}" for call in range(calls)]
        return [asks(id, *names, query=text[:50]), tells(f"{id}-t", *((name, text) for name in names))]
    single = {
        "pinned": entry(id, "user", text[:200], pinned=True),
        "passing": entry(id, "system", text[:80], passing=f"key {number}"),
        "summary": entry(id, "user", f"[Previous conversation summary]\n{text[:4000]}", summary={"messages": 3}),
        "note": entry(id, "system", text),
        "assistant": entry(id, "assistant", text),
        "user": entry(id, "user", text),
    }
    return [single[kind]]


def message(message_id: str, role: Role, *blocks: Any, model: str = "scripted/one", passing: str = "") -> Message:
    metadata = {"model": model} if role == "assistant" else {}
    return Message(message_id, role, blocks, Source("user"), EPOCH, metadata, passing)
