"""Repair of a damaged base file: what can be read is kept and mended, and the damaged file is kept beside it."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path

from msgspec import Struct

from finclaw.errors import StoreFailed
from finclaw.kernel.message import Message
from finclaw.kernel.record import IntegrityFinding
from finclaw.storage.jsonl.lines import BadLine, read_lines
from finclaw.storage.jsonl.record import BaseLine, FoldedLine, MessageLine, base_of, read_base_line, write_base_line
from finclaw.transcript.integrity import Report, mend


class Repaired(Struct, frozen=True):
    """`raw` is the very object that was given when nothing was wrong, or when nothing can be done."""

    messages: tuple[Message, ...]
    report: Report
    raw: bytes


def repair_transcript(raw: bytes, *, keep_unfinished: bool = True) -> Repaired:
    """Messages of a fold that did not come to its end are kept, unless the events of that turn can be replayed."""
    read = read_lines(raw, read_base_line)
    if len(read.bad) > 1 and not read.records:
        return Repaired((), Report(tuple(map(_unreadable, read.bad)), is_recoverable=False), raw)
    base = base_of(read.records)
    kept = base.folded + base.unfinished if keep_unfinished else base.folded
    findings = [*map(_unreadable, read.bad), *_torn(base.unfinished, keep_unfinished)]
    mended = mend([line.message for line in kept], records_lost=bool(findings))
    report = Report((*findings, *mended.findings))
    if not report.findings:
        return Repaired(mended.messages, report, raw)
    dropped = len(base.unfinished) if not keep_unfinished else 0
    lines = _lines(read.records[: len(read.records) - dropped], mended.messages)
    return Repaired(mended.messages, report, b"".join(map(write_base_line, lines)))


def _unreadable(bad: BadLine) -> IntegrityFinding:
    return IntegrityFinding("truncated-json", "", f"line {bad.line} (byte {bad.offset}): {bad.why}")


def _torn(unfinished: Sequence[MessageLine], keep: bool) -> Iterator[IntegrityFinding]:
    if unfinished:
        fate = "they are kept" if keep else "they come back from the events"
        turn, first = unfinished[0].turn, unfinished[0].message.id
        text = f"turn {turn!r} was not written to its end; it left {len(unfinished)} messages here: {fate}"
        yield IntegrityFinding("truncated-json", first, text)


def _lines(old: Sequence[BaseLine], messages: Sequence[Message]) -> Iterator[BaseLine]:
    """The messages with their turns. A mark comes when all that it speaks for is there, and the last one at the end."""
    if not messages and not old:
        return
    marks = [line for line in old if isinstance(line, FoldedLine)] or [FoldedLine("", 0, 0)]
    turns: dict[str, str] = {}
    marked: dict[str, int] = {}
    mark = 0
    for line in old:
        if isinstance(line, MessageLine):
            turns.setdefault(line.message.id, line.turn)  # where it is there twice, the first place counts
            marked.setdefault(line.message.id, mark)
        else:
            mark += 1
    written, turn = 0, ""
    for message, awaited in zip(messages, _earliest_marks(messages, marked, len(marks) - 1), strict=True):
        yield from marks[written:awaited]
        written = awaited
        turn = turns.get(message.id, turn)  # a stand-in belongs to the turn of the call before it
        yield MessageLine(turn, message)
    yield from marks[written:]


def _earliest_marks(messages: Sequence[Message], marked: dict[str, int], last: int) -> list[int]:
    """For each message, the first mark that may not stand before it: its own, or that of any message behind it."""
    awaited: list[int] = []
    for message in reversed(messages):
        last = min(last, marked.get(message.id, last))
        awaited.append(last)
    return awaited[::-1]


# ── on disk ─────────────────────────────────────────────────────────────────────────────────────────────────


def repair_file(path: Path, *, keep_unfinished: bool = True) -> Report:
    """Rewrites the file at once or not at all, after a backup beside it. Touches nothing when nothing is wrong.

    The caller holds the session's lock: nobody else may be writing the file.
    """
    try:
        raw = path.read_bytes()
        repaired = repair_transcript(raw, keep_unfinished=keep_unfinished)
        if repaired.raw is not raw:
            _back_up(path, raw)
            _sync_directory(path)  # else a power cut could leave the new file without the old one
            _replace(path, repaired.raw)
            _sync_directory(path)
    except OSError as error:
        raise StoreFailed(
            f"cannot repair {str(path)!r}: {error.strerror or error}; what it held is still "
            "in it or in the newest backup beside it. Make room on the disk and its directory writable, then try again"
        ) from error
    return repaired.report


def _back_up(path: Path, raw: bytes) -> None:
    """Under the first free number; an earlier backup is never touched."""
    mode = path.stat().st_mode & 0o777
    for number in count(1):
        backup = path.with_name(f"{path.name}.bak-{number}")
        with suppress(FileExistsError):
            _write(os.open(backup, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), backup, raw)
            return


def _replace(path: Path, raw: bytes) -> None:
    mode = path.stat().st_mode & 0o777
    file, name = tempfile.mkstemp(prefix=f"{path.name}.", suffix=".new", dir=path.parent)
    fresh = Path(name)
    _write(file, fresh, raw)
    try:
        fresh.chmod(mode)
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise


def _sync_directory(path: Path) -> None:
    directory = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _write(file: int, path: Path, raw: bytes) -> None:
    """On the disk when it returns; gone when it raises."""
    try:
        with os.fdopen(file, "wb") as stream:
            stream.write(raw)
            stream.flush()
            os.fsync(stream.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise
