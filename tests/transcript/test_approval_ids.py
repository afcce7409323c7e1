"""The quick look for approval ids: what it lets pass holds none."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.ports.nouns import said

from finclaw.kernel.message import Block, Text, Thinking, ToolCall, ToolFailure, ToolResult
from finclaw.transcript.approval_ids import ID_IN_TEXT, holds_no_id, without_ids_in_message

ID = "ap-01hq3v5x7k9m2n4p6r8t0w1y3z"
WORDS = st.sampled_from(["", "hello", "a-b", "ap-plied", "AP-", ID, f"see {ID.upper()}.", f"x{ID[:14]} and {ID[:14]}"])
VALUES = st.recursive(WORDS | st.integers() | st.none() | st.booleans(), lambda inner: st.lists(inner, max_size=2))
BLOCKS = st.one_of(
    st.builds(Text, WORDS),
    st.builds(Thinking, WORDS),
    st.builds(ToolCall, st.just("c"), st.just("t"), st.dictionaries(WORDS, VALUES, max_size=2)),
    st.builds(ToolResult, st.just("c"), st.just("t"), WORDS, error=st.none() | st.builds(ToolFailure, WORDS, WORDS)),
)


@given(st.lists(BLOCKS, min_size=1, max_size=3))
def test_a_message_that_passes_the_quick_look_holds_no_id(blocks: list[Block]) -> None:
    message = replace(said("m"), blocks=tuple(blocks))
    if holds_no_id(message):
        assert not ID_IN_TEXT.search(repr(message.blocks))
        assert without_ids_in_message(message) is message
