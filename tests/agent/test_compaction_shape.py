"""What of a conversation hangs together, and its facts: found fast, and no others than by looking at each message."""

from datetime import UTC, datetime
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from finclaw.agent.window.compaction.draft import CompactionDraft, Shape
from finclaw.agent.window.compaction.options import PINNED, is_pinned
from finclaw.kernel.message import Block, Message, Role, Source, Text, ToolCall, ToolResult
from finclaw.transcript.integrity import calls_of, match_results

AT = datetime(2026, 1, 1, tzinfo=UTC)
IDS = st.sampled_from(["a", "b", "c", "d"])
BLOCKS = st.one_of(
    st.builds(Text, st.just("hm")),
    st.builds(ToolCall, IDS, st.just("quote")),
    st.builds(ToolResult, IDS, st.just("quote"), st.just("1")),
)


@st.composite
def talks(draw: st.DrawFn) -> list[Message]:
    """Calls and results as they should not be: doubled, lost, out of place, in anybody's mouth."""
    made: list[Message] = []
    for place in range(draw(st.integers(1, 12))):
        role: Role = draw(st.sampled_from(["user", "assistant", "assistant", "tool"]))
        blocks: list[Block] = draw(st.lists(BLOCKS, min_size=1, max_size=2))
        passing = draw(st.sampled_from(["", "", "", f"note {place}"]))
        metadata = {PINNED: True} if draw(st.integers(0, 9)) == 0 else {}
        made.append(Message(str(place), role, tuple(blocks), Source("user"), AT, metadata, passing))
    return made


def parted(messages: list[Message], units: list[range]) -> bool:
    unit_of = {place: unit.start for unit in units for place in unit}
    found = match_results(messages, calls_of(messages))
    return any(one.call is not None and unit_of[one.call.place] != unit_of[one.place] for one in found)


@pytest.mark.spec("CP-10", "DX-38", "DX-40")
@given(talks(), st.integers(0, 6), st.integers(0, 12))
def test_units_are_whole_and_in_order_and_what_may_go_is_what_was_said(
    messages: list[Message], recent: int, asked: int
) -> None:
    shape = Shape(messages, input_id=str(asked), recent=recent)
    assert [*chain.from_iterable(shape.units)] == [*range(len(messages))]
    assert not parted(messages, shape.units)
    for unit in [None, *shape.recent()]:
        if unit is not None:
            shape.expose(unit)
        removable = shape.removable()
        assert not {shape.input, *(at for at, each in enumerate(messages) if is_pinned(each))} & {
            *chain.from_iterable(removable)
        }
        assert sorted(removable + shape.recent(), key=lambda each: each.start) == removable + shape.recent()
        before_and_since = [*chain.from_iterable(shape.stretches())]
        assert before_and_since == removable
        assert all((part[0].start < shape.input) == (part[-1].start < shape.input) for part in shape.stretches())
        gone = shape.places(removable)
        assert sorted([*gone, *shape.protected()]) == [*range(len(messages))]
        assert not any(messages[place].passing for place in gone)


@given(talks(), st.data())
def test_what_is_cleared_is_gone_from_the_sizes_too(messages: list[Message], data: st.DataObject) -> None:
    draft, one_by_one = (CompactionDraft(messages, lambda each: 3 + len(each.blocks)) for _ in range(2))
    places = data.draw(st.lists(st.sampled_from(range(len(messages))), unique=True))
    for place in places:
        draft.put(place, None)
    for place in places:
        one_by_one.put(place, None)
    assert (draft.total, draft.sizes, draft.messages) == (one_by_one.total, one_by_one.sizes, one_by_one.messages)
    assert draft.size(range(len(messages))) == draft.total
