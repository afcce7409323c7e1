"""Conversations that are kept in memory are bounded by the memory they take, and none is weighed twice."""

import tracemalloc

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.machine import examples
from tests.ports.nouns import AT, said

from finclaw.kernel.message import Image, Message, Source, Text, Thinking, ToolCall, ToolResult
from finclaw.transcript import conversation
from finclaw.transcript.conversation import RecentConversations, weigh


def large(message_id: str, size: int = 1_000_000) -> Message:
    return Message(message_id, "tool", (ToolResult("call", "read", "x" * size),), Source("tool"), AT)


def test_a_few_large_results_are_not_kept_as_if_they_were_small():
    recent = RecentConversations()
    for number in range(200):
        recent.keep(f"s-{number}", 1, (said("a"), large("b")))
    kept = [number for number in range(200) if recent.get(f"s-{number}") is not None]
    assert kept == list(range(200 - len(kept), 200)), "those of long ago have gone"
    assert 60 <= len(kept) <= 64


def test_what_is_new_is_weighed_and_what_was_taken_away_no_longer_counts():
    recent = RecentConversations(weight=3_500_000)
    recent.keep("b", 1, (said("small"),))
    messages = (large("m0"), large("m1"), large("m2"))
    for version in range(3):
        recent.keep("a", version, messages[: version + 1])
    assert recent.get("b") is not None
    cleared = (large("m0", 10), large("m1", 10), messages[-1])  # in the midst of it: as many, and the last is the same
    recent.keep("a", 4, cleared)
    recent.keep("c", 1, (large("x"), large("y")))
    assert all(recent.get(name) is not None for name in "abc")
    recent.forget("c")
    recent.clear()
    recent.keep("d", 1, messages)
    assert recent.get("d") is not None


HEAVY = st.lists(
    st.tuples(st.sampled_from("abcd"), st.sampled_from(["grow", "anew", "clear", "forget"]), st.integers(0, 40_000)),
    max_size=40,
)


@given(HEAVY)
@settings(max_examples=examples(100), deadline=None)
def test_never_heavier_than_the_limit_but_for_the_one_that_is_spoken_in(steps: list[tuple[str, str, int]]):
    recent, talks = RecentConversations(weight=100_000), dict[str, tuple[Message, ...]]()
    for version, (session, what, size) in enumerate(steps):
        before = talks.get(session, ())
        match what:
            case "grow":
                talks[session] = (*before, large(f"m{version}", size))
            case "anew":
                talks[session] = (large(f"m{version}", size),)
            case "clear":
                talks[session] = (*(large(each.id, 1) for each in before[:-1]), *before[-1:])
            case _:
                recent.forget(session)
                continue
        recent.keep(session, version, talks[session])
        kept = {name: found for name in "abcd" if (found := recent.get(name)) is not None}
        assert kept[session] == (version, talks[session])
        total = sum(weigh(message) for _, messages in kept.values() for message in messages)
        assert total <= 100_000 or list(kept) == [session]


def test_a_weight_is_near_the_memory_that_is_taken():
    deep: dict[str, object] = {}
    for _ in range(50_000):
        deep = {"x": deep}
    made = (
        large("a"),
        Message("b", "user", (Text("가" * 100_000), Image("image/png", bytes(50_000))), Source("user"), AT),
        Message("c", "assistant", (Thinking("t" * 9_000, "s" * 9_000), Text("")), Source("assistant"), AT),
        Message("d", "assistant", (ToolCall("i", "w", {"text": ["y" * 70_000]}),), Source("assistant"), AT),
    )
    assert [round(weigh(each), -4) for each in made] == [1_000_000, 250_000, 20_000, 140_000]
    nested = Message("e", "assistant", (ToolCall("i", "w", deep),), Source("assistant"), AT)
    assert weigh(nested) > 50_000 * 64
    data = msgspec.json.encode([said(f"m{number}", "hello " * 20) for number in range(500)])
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    read = msgspec.json.decode(data, type=tuple[Message, ...])
    taken = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert 0.5 < sum(map(weigh, read)) / taken < 2


def test_a_turn_weighs_only_what_it_brought(monkeypatch: pytest.MonkeyPatch):
    weighed: list[str] = []

    def counting(message: Message) -> int:
        weighed.append(message.id)
        return weigh(message)

    monkeypatch.setattr(conversation, "weigh", counting)
    recent = RecentConversations()
    history = tuple(said(f"m{number}") for number in range(5_000))
    recent.keep("a", 1, history)
    weighed.clear()
    recent.keep("a", 2, (*history, said("new"), said("newer")))
    assert weighed == ["new", "newer"]
