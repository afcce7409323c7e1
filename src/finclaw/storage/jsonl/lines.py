"""Lines of a file that may have been torn, damaged or edited: every good record is read, every bad one is reported.

A line is one JSON object whose last field is the CRC-32 of the bytes before that field:

    {"type":"folded","turn":"t-1","seq":4,"version":2,"crc":"5f1d3a90"}

So the file stays JSON Lines, for every editor and for `jq`. A line without the field, as a person writes it, is kept
when it can be read. A line with a wrong one counts as damaged: a person who changes a line by hand removes its `crc`.
"""

import re
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Final, Generic, TypeVar
from zlib import crc32

from msgspec import MsgspecError, Struct

from finclaw.errors import StoreFailed

T = TypeVar("T")

_SEAL: Final = re.compile(rb',"crc":"([0-9a-f]{8})"\}')
_SEAL_LENGTH: Final = 18
_BOM: Final = b"\xef\xbb\xbf"
_MOST_STARTS: Final = 32
"""How many positions of a damaged line are tried as the start of a record: bounds the time for hostile files."""


class BadLine(Struct, frozen=True):
    """Lines count from 1, as editors do; the offset is that of the line's first byte."""

    line: int
    offset: int
    why: str


class Lines(Struct, Generic[T], frozen=True):
    """`ends` are the offsets behind each record. `unended`: the last record is good but lacks its newline."""

    records: tuple[T, ...]
    ends: tuple[int, ...]
    bad: tuple[BadLine, ...]
    unended: bool


def write_line(json: bytes) -> bytes:
    """Return the line of one record, which must be a JSON object with at least one field and no line break."""
    if not json.endswith(b"}") or len(json) < 3 or b"\n" in json:
        raise StoreFailed(f"a line holds one JSON object, not {json[:40]!r}; encode a record of this store")
    body = json[:-1]
    return b'%b,"crc":"%08x"}\n' % (body, crc32(body))


def read_lines(raw: bytes, decode: Callable[[bytes], T]) -> Lines[T]:
    """Read every record that can be read. `decode` receives what `write_line` was given."""
    records: list[T] = []
    ends: list[int] = []
    bad: list[BadLine] = []
    end = 0
    number = 0
    for number, line in enumerate(raw.split(b"\n"), 1):
        offset = end
        end = min(end + len(line) + 1, len(raw))
        try:
            record = _read(line, decode)
            if record is not None:
                records.append(record)
                ends.append(end)
        except _Damaged as damage:
            bad.append(BadLine(number, offset, str(damage)))
            rescued = list(_rescue(line, decode))
            records.extend(rescued)
            ends.extend([end] * len(rescued))
    torn = bool(bad) and bad[-1].line == number
    unended = bool(raw) and not torn and not raw.endswith(b"\n")
    return Lines(tuple(records), tuple(ends), tuple(bad), unended)


class _Damaged(Exception):
    """The reason why a line is not a record."""


def _read(line: bytes, decode: Callable[[bytes], T]) -> T | None:
    """Return the record of a line, or None for an empty line."""
    text = line
    if text[-1:] != b"}" or text[:1] != b"{":  # edited: other line ends, a byte order mark
        text = line.removeprefix(_BOM).strip(b" \t\r")
        if not text:
            return None
    seal = _SEAL.fullmatch(text, max(0, len(text) - _SEAL_LENGTH))
    if seal is None:
        return _decode_json(text, decode)
    body = text[:-_SEAL_LENGTH]
    if crc32(body) != int(seal[1], 16):
        raise _Damaged("its checksum is wrong: it is damaged, or was changed by hand and its crc not removed")
    return _decode_json(body + b"}", decode)


def _decode_json(json: bytes, decode: Callable[[bytes], T]) -> T:
    try:
        return decode(json)
    except (MsgspecError, ValueError, RecursionError) as error:
        raise _Damaged(_why(json, error)) from error


def _why(json: bytes, error: Exception) -> str:
    if b"\0" in json:
        return "it has NUL bytes: it was never written to the end"
    if not json.endswith(b"}"):
        return "it was cut off"
    return f"it cannot be read: {error}"


def _rescue(line: bytes, decode: Callable[[bytes], T]) -> Generator[T]:
    """Find records with a right checksum inside a damaged line: behind a lost newline, or behind a torn write.

    A record nested in another object does not count: a model could have written it there, with its checksum.
    """
    begin = 0
    for seal in _SEAL.finditer(line):
        if line[seal.end() : seal.end() + 1] in (b",", b"]", b"}"):
            continue
        for start in _starts(line, begin, seal.start()):
            body = line[start : seal.start()]
            if crc32(body) == int(seal[1], 16):
                with suppress(_Damaged):  # whole, but not a record of this store
                    yield _decode_json(body + b"}", decode)
                break
        begin = seal.end()


def _starts(line: bytes, begin: int, end: int) -> Generator[int]:
    for _ in range(_MOST_STARTS):
        begin = line.find(b'{"', begin, end)
        if begin < 0:
            return
        if line[max(0, begin - 1) : begin] not in (b":", b",", b"["):
            yield begin
        begin += 1
