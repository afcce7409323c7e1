"""Server-sent events: whatever the line ends and wherever a read stops, the same data comes out."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from finclaw.providers.anthropic.sse import EventReader


def read(*pieces: bytes) -> list[bytes]:
    reader = EventReader()
    return [payload for piece in pieces for payload in reader.feed(piece)]


@pytest.mark.parametrize(
    ("stream", "payloads"),
    [
        pytest.param(b"event: ping\ndata: {}\n\n", [b"{}"], id="as every server writes it"),
        pytest.param(b"data: {}\n\n", [b"{}"], id="no name"),
        pytest.param(b"data:{}\n\n", [b"{}"], id="no space"),
        pytest.param(b"data:  {}\n\n", [b" {}"], id="only one space is left out"),
        pytest.param(b"event: ping\r\ndata: {}\r\n\r\n", [b"{}"], id="CRLF"),
        pytest.param(b"event: ping\rdata: {}\r\r\n", [b"{}"], id="CR"),
        pytest.param(b"event: a\r\ndata: 1\n\rdata: 2\r\n\n", [b"1", b"2"], id="a mix"),
        pytest.param(b"data: {\ndata: }\n\n", [b"{\n}"], id="many lines of data"),
        pytest.param(b"event: a\ndata: 1\ndata: 2\n\n", [b"1\n2"], id="a name and many lines"),
        pytest.param(b"event: a\nid: 7\ndata: 1\nretry: 5\n\n", [b"1"], id="other fields"),
        pytest.param(b": hello\n\n:\n\ndata: 1\n\n", [b"1"], id="comments"),
        pytest.param(b"event: a\n: hello\ndata: 1\n\n", [b"1"], id="a comment inside"),
        pytest.param(b"event: ping\n\ndata: 1\n\n", [b"1"], id="an event without data"),
        pytest.param(b"event: a\ndatas: 1\n\n", [], id="a field that only begins like data"),
        pytest.param(b"data\n\n", [b""], id="data without a value"),
        pytest.param(b"\n\n\n\ndata: 1\n\n\n\n\n", [b"1"], id="empty lines"),
        pytest.param(b"data: 1\n\ndata: 2", [b"1"], id="what has not ended is not an event"),
        pytest.param("data: 삼성전자 🙂\n\n".encode(), ["삼성전자 🙂".encode()], id="characters of many bytes"),
    ],
)
def test_events_are_read_whole_and_byte_by_byte(stream: bytes, payloads: list[bytes]) -> None:
    assert read(stream) == payloads
    assert read(*(stream[at : at + 1] for at in range(len(stream)))) == payloads


LINES = st.sampled_from([b"event: x", b"data: 1", b"data:", b"data: \xed\x95\x9c", b": c", b"id: 3", b""])
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])


@given(st.lists(st.tuples(LINES, ENDS), max_size=30), st.lists(st.integers(0, 200), max_size=10))
def test_where_reads_end_changes_nothing(lines: list[tuple[bytes, bytes]], cuts: list[int]) -> None:
    stream = b"".join(line + end for line, end in lines) + b":\n"
    borders = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    pieces = [stream[begin:end] for begin, end in pairwise(borders)]
    assert read(*pieces) == read(stream)


def test_an_event_of_ten_megabytes_costs_no_more_than_its_bytes() -> None:
    piece = b"x" * 10_000
    assert read(b"data: ", *[piece] * 1_000, b"\n\n") == [piece * 1_000]
