"""Servers that count in UTF-16 may end a piece inside a character: its halves come in two events and mean one."""

import json
from collections.abc import Callable, Iterable
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.providers import anthropic_streams as anthropic
from tests.providers import openai_streams as openai
from tests.providers.reading import chunks_of

from finclaw.errors import StreamCut
from finclaw.kernel.chunk import Chunk, TextDelta, ToolInputDelta
from finclaw.providers.http.sse import LenientJson

Pieces = Iterable[str]
Speaks = Callable[[Pieces], list[Chunk]]


def halved(text: str, cuts: Iterable[int]) -> list[str]:
    """Cut between two units of UTF-16, as JavaScript cuts; JSON writes what is left of a character as an escape."""
    units = text.encode("utf-16-le")
    borders = [0, *sorted(2 * (cut % (len(units) // 2 + 1)) for cut in cuts), len(units)]
    return [units[a:b].decode("utf-16-le", "surrogatepass") for a, b in pairwise(borders)]


def anthropic_text(pieces: Pieces) -> list[Chunk]:
    said = [_data({"type": "content_block_delta", "index": 0, "delta": _delta("text", each)}) for each in pieces]
    return chunks_of([anthropic.begin(), anthropic.block(0, type="text", text=""), *said, anthropic.end()])


def anthropic_input(pieces: Pieces) -> list[Chunk]:
    given = [_data({"type": "content_block_delta", "index": 0, "delta": _delta("input", each)}) for each in pieces]
    return chunks_of([anthropic.begin(), anthropic.call(0, "c1", "q"), *given, anthropic.stop(0), anthropic.end()])


def openai_text(pieces: Pieces) -> list[Chunk]:
    return openai.ours([*(_data({"choices": [openai.choice(content=each)]}) for each in pieces), openai.finish()])


def openai_input(pieces: Pieces) -> list[Chunk]:
    calls = [openai.call(0, id="c1", name="q"), *(openai.call(0, args=each) for each in pieces)]
    return openai.ours([*(_data({"choices": [openai.choice(tool_calls=[each])]}) for each in calls), openai.finish()])


def _delta(kind: str, text: str) -> dict[str, str]:
    return (
        {"type": "text_delta", "text": text} if kind == "text" else {"type": "input_json_delta", "partial_json": text}
    )


def _data(fields: object) -> bytes:
    return f"data: {json.dumps(fields)}\n\n".encode()


def said(chunks: Iterable[Chunk]) -> str:
    return "".join(
        each.text if isinstance(each, TextDelta) else each.delta
        for each in chunks
        if isinstance(each, TextDelta | ToolInputDelta)
    )


SPEAKS: list[Speaks] = [anthropic_text, anthropic_input, openai_text, openai_input]


@pytest.mark.spec("DX-48")
@pytest.mark.parametrize("speaks", SPEAKS)
@given(text=st.text(st.characters(codec="utf-8", min_codepoint=0xFFF0) | st.characters(codec="utf-8")), data=st.data())
def test_a_text_may_be_cut_between_any_two_units(speaks: Speaks, text: str, data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, 60), max_size=8))
    assert said(speaks(halved(text, cuts))) == text


@pytest.mark.parametrize("speaks", SPEAKS)
def test_unit_by_unit(speaks: Speaks) -> None:
    text = '{"symbol": "🙂 삼성전자 𝄞"}'
    assert said(speaks(halved(text, range(60)))) == text


@pytest.mark.parametrize("speaks", SPEAKS)
@given(pieces=st.lists(st.text(st.sampled_from("a\ud83d\ude42"), max_size=4), max_size=6))
@example(pieces=["a\ud83d", "", "\ude42"])
@example(pieces=["\ude42", "\ud83d"])
def test_halves_that_belong_to_nothing_never_get_out(speaks: Speaks, pieces: list[str]) -> None:
    said(speaks(pieces)).encode()


def test_a_half_waits_for_the_next_piece_and_no_longer() -> None:
    reader = LenientJson()
    assert json.loads(reader.to_strict_json(rb'{"a": "x\ud83d", "b": "\ud83d!"}')) == {"a": "x", "b": "\ufffd!"}
    assert json.loads(reader.to_strict_json(rb'{"a": "y", "b": "\ude42"}')) == {"a": "\ufffdy", "b": "\ufffd"}
    assert json.loads(reader.to_strict_json(rb'{"a": "\ude42"}')) == {"a": "\ufffd"}


def test_deep_nesting_is_still_a_cut_stream() -> None:
    with pytest.raises(StreamCut):
        chunks_of([anthropic.begin(), b"data: " + b"[" * 900 + b'"\\ud83d"' + b"]" * 900 + b"\n\n"])
