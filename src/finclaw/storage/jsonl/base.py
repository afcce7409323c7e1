"""base.jsonl: the messages of folded turns, each turn with a mark behind its last message; reading and repair.

A repair keeps every message that can be read and makes the conversation whole; the damaged file is kept beside it.

A line is one JSON object whose last field is the CRC-32 of the bytes before that field:

    {"type":"folded","turn":"t-1","seq":4,"version":2,"crc":"5f1d3a90"}

So the file stays JSON Lines, for every editor and for `jq`. A line without the field, as a person writes it, is kept
when it can be read. A line with a wrong one counts as damaged: a person who changes a line by hand removes its `crc`.
"""

import re
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Generic, TypeVar
from zlib import crc32

import msgspec
from msgspec import MsgspecError, Struct

from finclaw.errors import StoreFailed
from finclaw.kernel.message import Message, TurnEvent
from finclaw.kernel.record import IntegrityFinding
from finclaw.storage.files import Files
from finclaw.storage.sqlite.codec import write
from finclaw.transcript.fold import fold_items
from finclaw.transcript.integrity import Report, mend

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


class MessageLine(Struct, frozen=True, gc=False, tag="message"):
    """`turn` is the turn that added the message; empty for one that was imported or written by hand."""

    turn: str
    message: Message


class FoldedLine(Struct, frozen=True, gc=False, tag="folded"):
    """The mark of a complete fold, written last. `seq` is the number of the turn's events that it contains."""

    turn: str
    seq: int
    version: int


BaseLine = MessageLine | FoldedLine

read_base_line: Final = msgspec.json.Decoder(BaseLine).decode


class Base(Struct, frozen=True):
    """`unfinished` messages stand behind the last mark; their turn's events hold them too, unless those are lost."""

    folded: tuple[MessageLine, ...]
    unfinished: tuple[MessageLine, ...]
    mark: FoldedLine
    marked_end: int
    """The offset behind the last mark; 0 without one."""
    read: Lines[BaseLine]

    @property
    def lines(self) -> tuple[MessageLine, ...]:
        return self.folded + self.unfinished

    @property
    def ends_with_mark(self) -> bool:
        """Whether nothing follows the last mark, not even a damaged line."""
        is_damaged = any(bad.offset >= self.marked_end for bad in self.read.bad)
        return not (self.unfinished or self.read.unended or is_damaged)


def read_base(raw: bytes) -> Base:
    read = read_lines(raw, read_base_line)
    mark = FoldedLine("", 0, 0)
    marked_end = 0
    folded: list[MessageLine] = []
    unfinished: list[MessageLine] = []
    for line, end in zip(read.records, read.ends, strict=True):
        if isinstance(line, MessageLine):
            unfinished.append(line)
            continue
        mark = line
        marked_end = end
        folded += unfinished
        unfinished.clear()
    return Base(tuple(folded), tuple(unfinished), mark, marked_end, read)


def write_base(lines: Iterable[MessageLine], mark: FoldedLine) -> bytes:
    return b"".join(map(write_base_line, (*lines, mark)))


def write_base_line(line: BaseLine) -> bytes:
    return write_line(write(line).encode())


def fold_lines(lines: Sequence[MessageLine], turn: str, events: Iterable[TurnEvent]) -> list[MessageLine]:
    """Return the lines after the turn. A changed message stays a line of the turn that added it."""
    return fold_items(
        lines,
        events,
        lambda line: line.message,
        lambda message, former: MessageLine(turn if former is None else former.turn, message),
    )


class Repaired(Struct, frozen=True):
    """`raw` is the given object when nothing was wrong, or when nothing could be read."""

    messages: tuple[Message, ...]
    report: Report
    raw: bytes


def repair_file(files: Files, path: Path, *, keep_unfinished: bool = True) -> Report:
    """Rewrite the file, after a backup beside it, unless it has no damage. The caller holds the session's lock."""
    raw = files.read(path)
    repaired = repair_transcript(raw, keep_unfinished=keep_unfinished)
    if repaired.raw is not raw:
        files.back_up(path, raw)
        files.replace(path, repaired.raw)
    return repaired.report


def repair_transcript(raw: bytes, *, keep_unfinished: bool = True) -> Repaired:
    """Messages of an incomplete fold are kept, unless the events of that turn can be replayed."""
    base = read_base(raw)
    findings = [describe_bad_line(bad) for bad in base.read.bad]
    if len(findings) > 1 and not base.read.records:
        return Repaired((), Report(tuple(findings), is_recoverable=False), raw)
    if base.unfinished:
        fate = "they are kept" if keep_unfinished else "they come back from the events"
        first = base.unfinished[0]
        left = f"it left {len(base.unfinished)} messages here: {fate}"
        text = f"turn {first.turn!r} was not written to its end; {left}"
        findings.append(IntegrityFinding("truncated-json", first.message.id, text))
    lines = base.lines if keep_unfinished else base.folded
    mended = mend([line.message for line in lines], records_lost=bool(findings))
    report = Report((*findings, *mended.findings))
    if not report.findings:
        return Repaired(mended.messages, report, raw)
    if not mended.messages and not base.marked_end:
        return Repaired((), report, b"")
    return Repaired(mended.messages, report, write_base(_with_turns(mended.messages, lines), base.mark))


def describe_bad_line(bad: BadLine, file: str = "") -> IntegrityFinding:
    return IntegrityFinding("truncated-json", "", f"{file}line {bad.line} (byte {bad.offset}): {bad.why}")


def _with_turns(messages: Iterable[Message], old: Iterable[MessageLine]) -> Iterator[MessageLine]:
    turns: dict[str, str] = {}
    for line in old:
        turns.setdefault(line.message.id, line.turn)  # of a duplicate, the first place counts
    turn = ""
    for message in messages:
        turn = turns.get(message.id, turn)  # a stand-in belongs to the turn of the call before it
        yield MessageLine(turn, message)


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
        why = f"it cannot be read: {error}"
        if b"\0" in json:
            why = "it has NUL bytes: it was never written to the end"
        elif not json.endswith(b"}"):
            why = "it was cut off"
        raise _Damaged(why) from error


def _rescue(line: bytes, decode: Callable[[bytes], T]) -> Generator[T]:
    """Find records with a right checksum inside a damaged line: behind a lost newline, or behind a torn write. A
    record nested in another object does not count: a model could have written it there, with its checksum."""
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
