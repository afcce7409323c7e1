"""base.jsonl: the messages of folded turns, each turn with a mark behind its last message; reading and repair.

A repair keeps every message that can be read and makes the conversation whole; the damaged file is kept beside it.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from finclaw.kernel.message import Message, TurnEvent
from finclaw.kernel.record import IntegrityFinding
from finclaw.storage.files import Files
from finclaw.storage.jsonl.lines import BadLine, Lines, read_lines, write_line
from finclaw.storage.sqlite.codec import write
from finclaw.transcript.fold import fold_items
from finclaw.transcript.integrity import Report, mend


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
    last: FoldedLine | None
    unfinished: tuple[MessageLine, ...]
    read: Lines[BaseLine]

    @property
    def lines(self) -> tuple[MessageLine, ...]:
        return self.folded + self.unfinished

    @property
    def version(self) -> int:
        return 0 if self.last is None else self.last.version

    @property
    def marked_end(self) -> int:
        """The offset behind the last mark."""
        return 0 if self.last is None else self.read.ends[-1 - len(self.unfinished)]

    @property
    def ends_with_mark(self) -> bool:
        """Whether nothing follows the last mark, not even a damaged line."""
        is_damaged = any(bad.offset >= self.marked_end for bad in self.read.bad)
        return not (self.unfinished or self.read.unended or is_damaged)


def read_base(raw: bytes) -> Base:
    read = read_lines(raw, read_base_line)
    marks = [index for index, line in enumerate(read.records) if isinstance(line, FoldedLine)]
    end = marks[-1] + 1 if marks else 0
    last = read.records[end - 1] if marks else None
    folded = tuple(line for line in read.records[:end] if isinstance(line, MessageLine))
    unfinished = tuple(line for line in read.records[end:] if isinstance(line, MessageLine))
    return Base(folded, last if isinstance(last, FoldedLine) else None, unfinished, read)


def write_base(lines: Iterable[MessageLine], mark: FoldedLine) -> bytes:
    return b"".join(map(write_base_line, (*lines, mark)))


def write_base_line(line: BaseLine) -> bytes:
    return write_line(write(line).encode())


def fold_lines(lines: Sequence[MessageLine], turn: str, events: Iterable[TurnEvent]) -> list[MessageLine]:
    """Return the lines after the turn. A changed message stays a line of the turn that added it."""

    def line_with(message: Message, former: MessageLine | None) -> MessageLine:
        return MessageLine(turn if former is None else former.turn, message)

    return fold_items(lines, events, lambda line: line.message, line_with)


# ── repair ──────────────────────────────────────────────────────────────────────────────────────────────────


class Repaired(Struct, frozen=True):
    """`raw` is the given object when nothing was wrong, or when nothing could be read."""

    messages: tuple[Message, ...]
    report: Report
    raw: bytes


def repair_file(files: Files, path: Path, *, keep_unfinished: bool = True) -> Report:
    """Rewrite the file as a whole, after a backup beside it; a file without damage is not touched.

    The caller holds the session's lock.
    """
    raw = files.read(path)
    repaired = repair_transcript(raw, keep_unfinished=keep_unfinished)
    if repaired.raw is not raw:
        files.back_up(path, raw)
        files.replace(path, repaired.raw)
    return repaired.report


def repair_transcript(raw: bytes, *, keep_unfinished: bool = True) -> Repaired:
    """Messages of an incomplete fold are kept, unless the events of that turn can be replayed."""
    base = read_base(raw)
    bad = base.read.bad
    if len(bad) > 1 and not base.read.records:
        return Repaired((), Report(tuple(map(describe_bad_line, bad)), is_recoverable=False), raw)
    lines = base.lines if keep_unfinished else base.folded
    findings = [*map(describe_bad_line, bad), *_describe_unfinished(base.unfinished, keep_unfinished)]
    mended = mend([line.message for line in lines], records_lost=bool(findings))
    report = Report((*findings, *mended.findings))
    if not report.findings:
        return Repaired(mended.messages, report, raw)
    if not mended.messages and base.last is None:
        return Repaired((), report, b"")
    mark = base.last or FoldedLine("", 0, 0)
    return Repaired(mended.messages, report, write_base(_with_turns(mended.messages, lines), mark))


def describe_bad_line(bad: BadLine, file: str = "") -> IntegrityFinding:
    return IntegrityFinding("truncated-json", "", f"{file}line {bad.line} (byte {bad.offset}): {bad.why}")


def _describe_unfinished(unfinished: Sequence[MessageLine], keep: bool) -> Iterator[IntegrityFinding]:
    if unfinished:
        fate = "they are kept" if keep else "they come back from the events"
        turn = unfinished[0].turn
        text = f"turn {turn!r} was not written to its end; it left {len(unfinished)} messages here: {fate}"
        yield IntegrityFinding("truncated-json", unfinished[0].message.id, text)


def _with_turns(messages: Iterable[Message], old: Iterable[MessageLine]) -> Iterator[MessageLine]:
    turns: dict[str, str] = {}
    for line in old:
        turns.setdefault(line.message.id, line.turn)  # of a duplicate, the first place counts
    turn = ""
    for message in messages:
        turn = turns.get(message.id, turn)  # a stand-in belongs to the turn of the call before it
        yield MessageLine(turn, message)
