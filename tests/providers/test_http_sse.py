"""Server-sent events: whatever the line ends and wherever a read stops, the same data comes out."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from finclaw.errors import StreamCut
from finclaw.providers.http.sse import Event, EventReader


def events(*pieces: bytes, longest: int = 1_000_000) -> list[Event]:
    reader = EventReader(longest)
    return [event for piece in pieces for event in reader.feed(piece)]


def read(*pieces: bytes) -> list[bytes]:
    return [data for _, data in events(*pieces)]


def byte_by_byte(stream: bytes) -> list[bytes]:
    return [stream[at : at + 1] for at in range(len(stream))]


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
        pytest.param(b"\xef\xbb\xbfdata: 1\n\n", [b"1"], id="a byte order mark"),
        pytest.param(b"\xef\xbb\xbf\xef\xbb\xbfdata: 1\n\ndata: 2\n\n", [b"2"], id="only the first mark is one"),
        pytest.param(b"\xefdata: 1\n\ndata: 2\n\n", [b"2"], id="what only begins like a mark"),
        pytest.param("data: 삼성전자 🙂\n\n".encode(), ["삼성전자 🙂".encode()], id="characters of many bytes"),
    ],
)
def test_events_are_read_whole_and_byte_by_byte(stream: bytes, payloads: list[bytes]) -> None:
    assert read(stream) == payloads
    assert read(*byte_by_byte(stream)) == payloads


@pytest.mark.parametrize(
    ("stream", "name"),
    [
        (b"event: ping\ndata: 1\n\n", b"ping"),
        (b"data: 1\n\n", b""),
        (b"data: 1\nevent:ping\n\n", b"ping"),
        (b"event: ping\nevent: pong\ndata: 1\n\n", b"pong"),
        (b"event: ping\n\ndata: 1\n\n", b""),
        (b"event\ndata: 1\n\n", b""),
    ],
)
def test_the_name_of_an_event(stream: bytes, name: bytes) -> None:
    assert events(stream) == [(name, b"1")]
    assert events(*byte_by_byte(stream)) == [(name, b"1")]


LINES = st.sampled_from(
    [b"event: x", b"data: 1", b"data:", b"data: \xed\x95\x9c", b": c", b"id: 3", b"", b"\xef\xbb\xbf", b"data"]
)
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])
STREAMS = st.lists(st.tuples(LINES, ENDS), max_size=30).map(lambda lines: b"".join(line + end for line, end in lines))


def cut_at(stream: bytes, cuts: list[int]) -> list[bytes]:
    borders = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    return [stream[begin:end] for begin, end in pairwise(borders)]


@given(STREAMS, st.lists(st.integers(0, 200), max_size=10))
def test_where_reads_end_changes_nothing(stream: bytes, cuts: list[int]) -> None:
    assert events(*cut_at(stream + b":\n", cuts)) == events(stream + b":\n")


def outcome(pieces: list[bytes], longest: int) -> tuple[list[Event], bool]:
    """The events, and whether one was too long."""
    reader, found = EventReader(longest), list[Event]()
    try:
        for piece in [*pieces, b":\n", b":\n", b"\n"]:  # after the last one too long, somebody must come to see it
            found += reader.feed(piece)
    except StreamCut:
        return found, True
    return found, False


@given(STREAMS, st.lists(st.integers(0, 200), max_size=10), st.integers(4, 40))
def test_an_event_is_too_long_wherever_reads_end(stream: bytes, cuts: list[int], longest: int) -> None:
    assert outcome(cut_at(stream, cuts), longest) == outcome([stream], longest)


def test_what_came_before_an_event_that_is_too_long_counts() -> None:
    reader = EventReader(10)
    assert reader.feed(b"data: 1\n\ndata: 22222222\n\ndata: 3\n\n") == [(b"", b"1")]
    with pytest.raises(StreamCut):
        reader.feed(b"data: 4\n\n")
    with pytest.raises(StreamCut):
        EventReader(10).feed(b"data: 22222222\n\ndata: 3\n\n")


def test_an_event_of_megabytes_costs_no_more_than_its_bytes() -> None:
    piece = b"x" * 10_000
    assert EventReader().feed(b"data: ") == []
    assert events(b"data: ", *[piece] * 500, b"\n\n", longest=8_000_000) == [(b"", piece * 500)]


def test_an_event_without_end_is_given_up() -> None:
    reader = EventReader()
    assert reader.feed(b"data: 1\n\ndata: ") == [(b"", b"1")]
    for _ in range(799):
        assert reader.feed(b"x" * 10_000) == []
    with pytest.raises(StreamCut, match="more than 8,000,000 bytes"):
        reader.feed(b"x" * 10_000)
