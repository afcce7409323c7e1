"""Generated conversations and event streams."""

from hypothesis import strategies as st
from tests.ports.nouns import AT

from finclaw.kernel.message import (
    Append,
    Message,
    Patch,
    Remove,
    Replace,
    Source,
    Text,
    Thinking,
    ToolCall,
    ToolEnded,
    ToolResult,
    ToolStarted,
    Truncate,
)

IDS = st.sampled_from([f"m{number}" for number in range(12)])
"""Few, so that events often meet a message, and often miss."""
WORDS = st.text(max_size=12)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=5,
)
METADATA = st.dictionaries(WORDS, PLAIN, max_size=3)
BLOCKS = (
    st.builds(Text, WORDS)
    | st.builds(Thinking, WORDS, WORDS)
    | st.builds(ToolCall, WORDS, WORDS, METADATA)
    | st.builds(ToolResult, WORDS, WORDS, WORDS)
)
MESSAGES = st.builds(
    Message,
    IDS,
    st.sampled_from(["user", "assistant", "tool", "system"]),
    st.lists(BLOCKS, max_size=3).map(tuple),
    st.just(Source("user", "u")),
    st.just(AT),
    METADATA,
    st.sampled_from(["", "", "", "skill", "clock"]),
)
EVENTS = st.one_of(
    st.builds(Append, MESSAGES),
    st.builds(Append, MESSAGES),
    st.builds(Replace, IDS, MESSAGES),
    st.builds(Remove, IDS),
    st.builds(Truncate, st.integers(-1, 8)),
    st.builds(Patch, IDS, METADATA),
    st.builds(ToolStarted, WORDS, WORDS, st.booleans()),
    st.builds(ToolEnded, st.builds(ToolResult, WORDS, WORDS, WORDS)),
)
STREAMS = st.lists(EVENTS, max_size=25)
BASES = st.lists(MESSAGES.filter(lambda each: not each.passing), max_size=5, unique_by=lambda message: message.id)
