"""Whatever a server sends: the same chunks wherever reads end, and never anything but chunks or a typed error."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.machine import examples
from tests.providers.anthropic_streams import RECORDED, begin, block, call, delta, end, event, say, stop, why
from tests.providers.anthropic_streams import given as input_of
from tests.providers.model_server import ASKED, as_one, provider, streams
from tests.providers.reading import Read, chunks_of, collected, read

from finclaw.agent.model.answer import collect
from finclaw.errors import ProviderError
from finclaw.kernel.chunk import Chunk, Done, TextDelta, ThinkingDelta, ToolInputDelta, ToolUseStart
from finclaw.kernel.message import Message, Source, Text, Thinking, ToolCall
from finclaw.providers.anthropic.message import write_blocks


@pytest.mark.spec("DX-48")
@pytest.mark.parametrize("name", RECORDED)
@pytest.mark.parametrize("ends", [b"\n", b"\r\n", b"\r"])
def test_one_cut_anywhere_changes_nothing(name: str, ends: bytes) -> None:
    stream = RECORDED[name].replace(b"\n", ends) + b"\n"
    whole = chunks_of([stream])
    assert isinstance(whole[-1], Done)
    for at in range(len(stream) + 1):
        assert chunks_of([stream[:at], stream[at:]]) == whole
    assert chunks_of(stream[at : at + 1] for at in range(len(stream))) == whole


@pytest.mark.spec("DX-48")
@given(st.sampled_from(list(RECORDED.values())), st.lists(st.integers(0, 3_000), max_size=30))
def test_any_cuts_change_nothing(stream: bytes, cuts: list[int]) -> None:
    borders = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    assert chunks_of(stream[a:b] for a, b in pairwise(borders)) == chunks_of([stream])


@pytest.mark.spec("A-01")
@pytest.mark.parametrize("name", RECORDED)
async def test_the_collected_form_agrees_with_the_stream(name: str) -> None:
    """Over the network, too: a whole answer is the stream, collected, and nothing else."""
    spoken: list[str] = []
    async with provider(streams([RECORDED[name]])) as client:
        answer = await collect(client.stream(ASKED), spoken.append)
        chunks = [chunk async for chunk in client.stream(ASKED)]
    assert as_one(chunks) == as_one(chunks_of([RECORDED[name]]))
    whole = await asyncio.to_thread(collected, chunks)
    assert Read(answer.blocks, answer.usage, answer.stop) == whole
    assert "".join(spoken) == "".join(block.text for block in answer.blocks if isinstance(block, Text))


def test_signatures_return_with_the_next_request() -> None:
    blocks = read(RECORDED["signed thinking"]).blocks
    answer = Message("1", "assistant", blocks, Source("assistant"), datetime(2026, 1, 1, tzinfo=UTC))
    first, second, third = msgspec.json.decode(b"[" + write_blocks(answer) + b"]")
    assert first["signature"] == "EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pki"
    assert first["thinking"] == "Let me solve this:\n\n1. 453 = 3 · 151"
    assert second == {"type": "redacted_thinking", "data": "EmwKAhgBEgy3va3pzix/LafPsn4aDFIT2Xlxh0L5L8rLVyIw"}
    assert third == {"type": "text", "text": "The answer is 3."}


# ── whatever a server may send ──────────────────────────────────────────────────────────────────────────────

INDEX = st.integers(-1, 3)
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
KINDS = st.sampled_from(
    ["message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "error", "x"]
)
FIELDS = st.sampled_from(["index", "delta", "content_block", "message", "usage", "error"])
STRANGE = st.tuples(KINDS, st.dictionaries(FIELDS, ANY, max_size=3)).map(lambda drawn: event(drawn[0], **drawn[1]))
SOUP = st.lists(
    st.one_of(
        STRANGE,
        st.builds(say, st.text(max_size=5), INDEX),
        st.builds(input_of, st.sampled_from(['{"a":', "1}", "{}", "NaN", '{"a":1,"a":2}', "[" * 3_000]), INDEX),
        st.builds(call, INDEX, st.sampled_from(["a", "a", ""]), st.sampled_from(["q", ""])),
        INDEX.map(lambda index: delta(index, type="thinking_delta", thinking="hm")),
        INDEX.map(lambda index: delta(index, type="signature_delta", signature="s")),
        INDEX.map(lambda index: block(index, type="redacted_thinking", data="sealed")),
        st.builds(stop, INDEX),
        st.sampled_from([begin(), end(), end("tool_use"), why(None), event("ping"), b": comment\r\r", b"data:\n\n"]),
        st.binary(max_size=8),
        st.sampled_from([b'data: {"type":"message_stop","x":NaN}\n\n', b"data: " + b"[" * 50_000 + b"\n\n"]),
    ),
    max_size=12,
)


def outcome(pieces: list[bytes]) -> Read | type[ProviderError]:
    try:
        return collected(chunks_of(pieces))
    except ProviderError as error:
        return type(error)


@pytest.mark.spec("DX-48")
@settings(max_examples=examples(400))
@given(SOUP)
@example([begin(), say("a", 0), call(0, "c"), input_of("{}", 0), stop(0), end("tool_use")])
def test_a_soup_is_read_or_refused_and_nothing_else(pieces: list[bytes]) -> None:
    found = outcome(pieces)
    assert found == outcome([b"".join(pieces)])
    if isinstance(found, Read):
        for each in found.blocks:
            assert isinstance(each, Text | Thinking | ToolCall)
            json.dumps(msgspec.to_builtins(each)).encode()  # no half characters, nothing that cannot be stored


SPOKEN = st.lists(
    st.one_of(
        st.builds(TextDelta, st.text(max_size=4), INDEX),
        st.builds(ThinkingDelta, st.text(max_size=4), INDEX, st.sampled_from(["", "s"])),
        st.builds(ToolUseStart, st.just("c"), st.just("q"), INDEX),
        st.builds(ToolInputDelta, st.text(max_size=4), INDEX),
    ),
    max_size=15,
)


@given(SPOKEN)
def test_what_was_shown_is_what_is_kept_even_if_kinds_share_a_place(chunks: list[Chunk]) -> None:
    async def stream() -> AsyncIterator[Chunk]:
        for chunk in [*chunks, Done("end")]:
            yield chunk

    shown: list[str] = []
    answer: Any = asyncio.run(collect(stream(), shown.append))
    kept = "".join(block.text for block in answer.blocks if isinstance(block, Text))
    thought = "".join(block.text for block in answer.blocks if isinstance(block, Thinking))
    assert sorted(kept) == sorted("".join(shown))
    assert sorted(thought) == sorted("".join(each.text for each in chunks if isinstance(each, ThinkingDelta)))
