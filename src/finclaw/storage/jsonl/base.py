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
