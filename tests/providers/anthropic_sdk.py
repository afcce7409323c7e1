"""The vendor's SDK as the oracle for streams of events."""

import json
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from tests.providers.anthropic_streams import begin, block, call, delta, end, event, say, stop, why
from tests.providers.anthropic_streams import given as input_of

if TYPE_CHECKING:
    from anthropic.types import Message as TheirMessage


def read_by_the_sdk(stream: bytes) -> "TheirMessage":
    import anthropic  # with httpx2 seconds of imports: not while tests are collected
    import httpx2

    def answer(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=stream)

    http = httpx2.Client(transport=httpx2.MockTransport(answer))
    with anthropic.Anthropic(api_key="x", base_url="http://127.0.0.1:9", max_retries=0, http_client=http) as client:
        asked: Any = [{"role": "user", "content": "?"}]
        with client.messages.stream(model="claude", max_tokens=1, messages=asked) as answered:
            return answered.get_final_message()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**12), 10**12) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
INPUTS = st.dictionaries(st.text(max_size=6), JSON, max_size=4)
PIECES = st.lists(st.text(min_size=1, max_size=12), min_size=1, max_size=5)
NOISE = st.sampled_from([event("ping"), b": keep-alive\n\n", b":\n\n", event("something_new", news=[1, {"type": "x"}])])


@st.composite
def blocks_of_events(draw: st.DrawFn, index: int) -> list[bytes]:
    kind = draw(st.sampled_from(["text", "thinking", "redacted", "tool"]))
    if kind == "text":
        return [block(index, type="text", text=""), *(say(each, index) for each in draw(PIECES)), stop(index)]
    if kind == "thinking":
        thoughts = [delta(index, type="thinking_delta", thinking=each) for each in draw(PIECES)]
        signed = delta(index, type="signature_delta", signature=draw(st.text("abcXYZ+/=", min_size=1, max_size=30)))
        return [block(index, type="thinking", thinking="", signature=""), *thoughts, signed, stop(index)]
    if kind == "redacted":
        return [block(index, type="redacted_thinking", data=draw(st.text("abcXYZ+/=", min_size=1))), stop(index)]
    text = json.dumps(draw(INPUTS), ensure_ascii=draw(st.booleans()))
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=4)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    return [call(index, f"toolu_{index}", f"tool_{index}"), *(input_of(each, index) for each in pieces), stop(index)]


@st.composite
def streams_of_events(draw: st.DrawFn) -> bytes:
    """Blocks that begin in order and may run side by side, noise anywhere, line ends as they come, one end or two."""
    queues = [draw(blocks_of_events(index)) for index in range(draw(st.integers(0, 4)))]
    counts = st.integers(0, 10_000)
    events = [begin(cache_read_input_tokens=draw(counts), cache_creation_input_tokens=draw(counts))]
    begun = 0
    while any(queues):
        ready = [place for place in range(begun) if queues[place]]
        if begun < len(queues) and (not ready or draw(st.booleans())):
            ready, begun = [begun], begun + 1
        events.append(queues[draw(st.sampled_from(ready))].pop(0))
        if draw(st.integers(0, 3)) == 0:
            events.append(draw(NOISE))
    reason = draw(st.sampled_from(["end_turn", "tool_use", "max_tokens", "stop_sequence", "refusal"]))
    finals = draw(st.sampled_from([why(reason, output_tokens=7), end(reason), end(reason) + event("message_stop")]))
    ends = st.sampled_from([b"\n", b"\r\n", b"\r"])
    return b"".join(each.replace(b"\n", draw(ends)) for each in [*events, finals]) + b"\n"
