"""Streams that nobody wrote by hand: whatever an answer is and however it is cut up, it is read as it was meant."""

import contextlib
import json
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.machine import examples
from tests.providers.openai_streams import DONE, SAMPLES, call, choice, data, event, our_answer, ours, theirs

from finclaw.errors import ProviderError
from finclaw.kernel.message import Text, Thinking, ToolCall

words = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
names = st.text("abcdefghij_", min_size=1, max_size=12)
numbers = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | numbers | words
anything = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3))
arguments = st.dictionaries(words, anything, max_size=3)


@dataclass(frozen=True)
class Meant:
    """An answer, and a stream that says it."""

    text: str
    thinking: str
    calls: list[tuple[str, str, dict[str, Any]]]
    stop: str
    stream: bytes


def _in_pieces(draw: st.DrawFn, text: str) -> list[str]:
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=4)))
    return [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def _call_pieces(draw: st.DrawFn, index: int, id: str, name: str, args: dict[str, Any]) -> list[dict[str, Any]]:
    first, *rest = _in_pieces(draw, json.dumps(args, ensure_ascii=draw(st.booleans())))
    return [call(index, id=id, name=name, args=first), *(call(index, args=each) for each in rest)]


def _shuffled(draw: st.DrawFn, queues: list[list[Any]]) -> list[Any]:
    """One list of them all: the order within each is kept, and none overtakes the first piece of one before it."""
    merged: list[Any] = []
    begun = 0
    while any(queues):
        ready = [at for at, queue in enumerate(queues) if queue and at <= begun]
        at = draw(st.sampled_from(ready or [next(at for at, queue in enumerate(queues) if queue)]))
        begun = max(begun, at + 1)
        merged.append(queues[at].pop(0))
    return merged


@st.composite
def answers(draw: st.DrawFn) -> Meant:
    text, thinking = "".join(draw(st.lists(words, max_size=3))), draw(st.just("") | words)
    calls = [(f"call_{at}", draw(names), draw(arguments)) for at in range(draw(st.integers(0, 3)))]
    asked = _shuffled(draw, [_call_pieces(draw, at, *each) for at, each in enumerate(calls)])
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": draw(st.sampled_from([None, ""]))}]
    deltas += [{"reasoning_content": each} for each in _in_pieces(draw, thinking)]
    deltas += [{"content": each} for each in _in_pieces(draw, text)]
    deltas += [{"tool_calls": [each]} for each in asked]
    strange = draw(st.dictionaries(st.text("xyz", min_size=1, max_size=3), anything, max_size=2))
    events = [event(choice(None, **delta), **strange) for delta in deltas]
    events.append(event(choice("tool_calls" if calls else "stop")))
    events.append(event(usage={"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}))
    events.append(DONE)
    noise = draw(st.sampled_from([b"", b": keep-alive\n\n", b":\n", b"id: 7\n", b"event: message\n"]))
    end = draw(st.sampled_from([b"\n", b"\r\n", b"\r"]))
    stream = b"".join(noise + each for each in events).replace(b"\n", end)
    return Meant(text, thinking, calls, "tool_use" if calls else "end", stream)


@pytest.mark.spec("A-07", "A-08", "DX-48", "DX-50")
@given(meant=answers())
async def test_an_answer_is_read_as_it_was_meant_and_as_the_sdk_reads_it(meant: Meant) -> None:
    answer = await our_answer(meant.stream)
    asked = [(each.id, each.name, each.args) for each in answer.blocks if isinstance(each, ToolCall)]
    assert "".join(each.text for each in answer.blocks if isinstance(each, Text)) == meant.text
    assert "".join(each.text for each in answer.blocks if isinstance(each, Thinking)) == meant.thinking
    assert asked == meant.calls
    assert answer.stop == meant.stop
    told = theirs(meant.stream)
    message = told.choices[0].message
    assert (message.content or "") == meant.text
    assert asked == [
        (each.id, each.function.name, json.loads(each.function.arguments)) for each in message.tool_calls or ()
    ]
    assert (answer.usage.input, answer.usage.output) == (told.usage.prompt_tokens, told.usage.completion_tokens)


@st.composite
def loose_calls(draw: st.DrawFn) -> tuple[list[Any], list[bytes]]:
    """Calls, and how servers send them that are loose about what makes a call."""
    meant = [(f"call_{at}", draw(names), draw(arguments)) for at in range(draw(st.integers(1, 4)))]
    numbered = draw(st.booleans())
    with_id = numbered or draw(st.booleans())
    pieces: list[dict[str, Any]] = []
    for at, (id, name, args) in enumerate(meant):
        index = at if numbered else draw(st.sampled_from([None, 0]))
        first, *rest = _in_pieces(draw, json.dumps(args)) if with_id else [json.dumps(args)]
        pieces.append(call(index, id=id if with_id else draw(st.sampled_from([None, ""])), name=name, args=first))
        pieces += [call(index, id=draw(st.sampled_from([None, "", id])), args=each) for each in rest]
    sent = [[each] for each in pieces] if draw(st.booleans()) else [pieces]
    return [(id if with_id else "", name, args) for id, name, args in meant], [
        event(choice(tool_calls=each)) for each in sent
    ]


@pytest.mark.spec("DX-48", "DX-50")
@given(told=loose_calls())
async def test_calls_are_told_apart_however_loosely_they_are_sent(told: tuple[list[Any], list[bytes]]) -> None:
    meant, events = told
    answer = await our_answer(b"".join([*events, event(choice("stop")), DONE]))
    assert [(each.id, each.name, each.args) for each in answer.blocks if isinstance(each, ToolCall)] == meant


@given(meant=answers(), cuts=st.lists(st.integers(0, 4000), max_size=30))
def test_reads_may_end_anywhere(meant: Meant, cuts: list[int]) -> None:
    places = sorted({0, *(cut % (len(meant.stream) + 1) for cut in cuts), len(meant.stream)})
    pieces = [meant.stream[start:end] for start, end in pairwise(places)]
    assert ours(pieces) == ours([meant.stream])


@pytest.mark.parametrize("stream", SAMPLES.values(), ids=SAMPLES)
def test_a_sample_may_be_cut_at_any_byte(stream: bytes) -> None:
    whole = ours([stream])
    assert ours([stream[at : at + 1] for at in range(len(stream))]) == whole
    for at in range(len(stream)):
        assert ours([stream[:at], stream[at:]]) == whole


@pytest.mark.parametrize("stream", SAMPLES.values(), ids=SAMPLES)
def test_a_sample_that_stops_at_any_byte_is_whole_or_cut(stream: bytes) -> None:
    """A beginning of the chunks, and then either its end or an error; never something else."""
    whole = ours([stream])
    for at in range(len(stream)):
        try:
            got = ours([stream[:at]])
        except ProviderError:
            continue
        assert got[-1] == whole[-1]
        assert [each for each in got if each in whole] == got


fields = st.sampled_from(["index", "id", "name", "arguments", "content", "tool_calls", "function", "delta"])
odd = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(fields, inner, max_size=4))
deltas = st.fixed_dictionaries(
    {}, optional={"content": odd, "tool_calls": odd | st.lists(st.dictionaries(fields, odd)), "reasoning": odd}
)
choices = st.fixed_dictionaries({}, optional={"index": odd, "delta": deltas | odd, "finish_reason": odd})
events = st.fixed_dictionaries({}, optional={"choices": st.lists(choices) | odd, "usage": odd, "error": odd})


@settings(max_examples=examples(200))
@given(told=st.lists(events, max_size=5))
def test_whatever_a_server_says_is_chunks_or_one_of_our_errors(told: list[Any]) -> None:
    try:
        chunks = ours([*map(data, told), DONE])
    except ProviderError:
        return
    assert [type(each).__name__ for each in chunks].count("Done") == 1


@settings(max_examples=examples(300))
@given(noise=st.lists(st.binary(max_size=40) | st.sampled_from([b"data: ", b"\n\n", b"{}", DONE, b"\xef\xbb\xbf"])))
def test_so_are_bytes_that_are_no_stream(noise: list[bytes]) -> None:
    with contextlib.suppress(ProviderError):
        ours(noise)
