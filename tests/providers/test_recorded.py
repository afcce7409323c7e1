"""Streams recorded from a mock server that others wrote: however the line cuts them up, they are read alike."""

from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.providers import openai_streams
from tests.providers.reading import Read, chunks_of, collected

from finclaw.kernel.chunk import Chunk, Usage
from finclaw.kernel.message import Text, Thinking, ToolCall

Reads = Callable[[Iterable[bytes]], list[Chunk]]

RECORDED: Final = sorted((Path(__file__).parent / "recorded").glob("*.sse"))
READERS: Final[dict[str, Reads]] = {"anthropic": chunks_of, "openai": openai_streams.ours}
SIGNATURES: Final = {"anthropic": "aimock-placeholder-signature", "openai": ""}

pytestmark = pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)


def of(path: Path) -> tuple[Reads, bytes]:
    return READERS[path.stem.split("_")[0]], path.read_bytes()


@pytest.mark.spec("A-02", "A-07", "DX-48")
def test_a_recording_means_what_was_meant(path: Path) -> None:
    reads, stream = of(path)
    protocol, name = path.stem.split("_")
    read = collected(reads([stream]))
    if name == "halves":
        assert read == Read((Text("값은 🙂🌱 입니다"),), Usage(123, 45), "end")
        return
    quote = ToolCall("call_1", "market__quote", {"symbol": "005930.KS", "note": "🙂"})
    convert = ToolCall("call_2", "fx__convert", {"amount": "100", "from": "USD", "to": "KRW"})
    thinking = Thinking("Prices first.", SIGNATURES[protocol])
    assert read == Read((thinking, Text("두 가지를 봅니다. "), quote, convert), Usage(123, 45), "tool_use")


@pytest.mark.spec("DX-48")
@pytest.mark.parametrize("ends", [b"\n", b"\r\n", b"\r"], ids=["lf", "crlf", "cr"])
def test_one_cut_at_any_byte_changes_nothing(path: Path, ends: bytes) -> None:
    reads, stream = of(path)
    stream = stream.replace(b"\n", ends)
    whole = reads([stream])
    # Inside a line its end makes no difference, so only one of them is cut there too.
    for at in range(len(stream)):
        if ends == b"\n" or b"\r" in stream[max(at - 2, 0) : at + 2]:
            assert reads([stream[:at], stream[at:]]) == whole, at
    assert reads(stream[at : at + 1] for at in range(len(stream))) == whole


@pytest.mark.spec("DX-48")
@given(cuts=st.lists(st.integers(0, 5_000), max_size=30))
def test_any_cuts_change_nothing(path: Path, cuts: list[int]) -> None:
    reads, stream = of(path)
    borders = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    assert reads(stream[a:b] for a, b in pairwise(borders)) == reads([stream])
