"""One conversation as two plain files: base.jsonl, what was folded, and events.jsonl, the logs of turns that run.

The database decides what has happened. A log is on disk before the commit that speaks of it, and the base is brought
up to that commit afterwards; `settle` does the same for whatever a crash has left. Nothing here knows of threads: the
session's write lock lets one caller in at a time.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from finclaw.diagnostics.crash_points import crash_point
from finclaw.kernel.message import Message
from finclaw.kernel.record import IntegrityFinding
from finclaw.storage.jsonl.database_state import ConversationState
from finclaw.storage.jsonl.files import Files
from finclaw.storage.jsonl.identity import MESSAGES, NAMES, Identity, introduce
from finclaw.storage.jsonl.lines import read_lines
from finclaw.storage.jsonl.log import TurnLogs, unbroken_prefix
from finclaw.storage.jsonl.record import (
    Base,
    FoldedLine,
    MessageLine,
    base_of,
    fold_lines,
    read_base_line,
    write_base_line,
)
from finclaw.storage.jsonl.repair import repair_file, repair_transcript
from finclaw.transcript.fold import touches_only_own

log = logging.getLogger(__name__)

_TAIL: Final = 512
"""Bytes at the end of a base that surely hold its last mark."""


class SessionFiles:
    def __init__(self, files: Files, directory: Path) -> None:
        self._files = files
        self._directory = directory
        base, events = (directory / MESSAGES / name for name in NAMES)
        self._base = base
        self.logs = TurnLogs(files, events)
        self.version = 0
        """Of the base."""
        self.settled = False
        """What is said here is what the files and the database say."""
        self.findings: list[IntegrityFinding] = []
        """What was mended since somebody last asked."""

    # ── the base ────────────────────────────────────────────────────────────────────────────────────────────

    def lines(self) -> tuple[MessageLine, ...]:
        """Every message, whatever happened to the file; what is damaged is mended first."""
        read = read_lines(self._files.read(self._base), read_base_line)
        base = base_of(read.records)
        if not read.bad and not read.unended and not base.unfinished:
            return base.folded
        if read.bad or base.unfinished:
            self.repair()
            base = base_of(read_lines(self._files.read(self._base), read_base_line).records)
        lines = (*base.folded, *base.unfinished)
        self.rewrite(lines, self.version)
        return lines

    def lines_as_of(self, standing: ConversationState) -> Sequence[MessageLine]:
        """What `settle` would make of the files, computed and not written: for a disk that takes no writes."""
        base = base_of(read_lines(self._files.read(self._base), read_base_line).records)
        version = 0 if base.last is None else base.last.version
        if version < standing.cleared:
            return ()
        pending = self._pending_turn(standing)
        if pending is not None and version < standing.version:
            return fold_lines(base.folded, pending, self.logs.events(pending))
        return (*base.folded, *base.unfinished)

    def messages(self) -> tuple[Message, ...]:
        return tuple(line.message for line in self.lines())

    def fold(self, turn: str, version: int) -> None:
        """Bring the base up to the commit that ended this turn, and drop its log."""
        events = self.logs.events(turn)
        crash_point("fold:before_append")
        mark = FoldedLine(turn, len(events), version)
        old = () if touches_only_own(events) else self.lines()
        new = fold_lines(old, turn, events)
        if _begins_with(new, old):
            _, size = self._files.tail(self._base, 0)
            self._files.append(self._base, size, _encode_lines(new[len(old) :], mark))
        else:
            self._files.replace(self._base, _encode_lines(new, mark))
        self.version = version
        crash_point("fold:after_append")
        self.logs.drop(turn)
        crash_point("fold:after_clear")

    def rewrite(self, lines: Sequence[MessageLine], version: int) -> None:
        self._files.replace(self._base, _encode_lines(lines, FoldedLine("", 0, version)))
        self.version = version

    def erase(self, version: int) -> None:
        """Empty the conversation, overwriting what it held; backups of earlier repairs go with it."""
        for path in sorted((self._directory / MESSAGES).iterdir()):
            self._files.erase(path)
        self.rewrite((), version)
        self.settled = False

    def look(self) -> tuple[IntegrityFinding, ...]:
        """What a repair would find."""
        return repair_transcript(self._files.read(self._base)).report.findings

    def repair(self, *, keep_unfinished: bool = True) -> None:
        report = repair_file(self._base, keep_unfinished=keep_unfinished)
        for finding in report.findings:
            log.error("%s: %s", self._base, finding.text)
        self.findings += report.findings
        if not report.is_recoverable:
            self._put_away()

    def _put_away(self) -> None:
        """Nothing of it can be read: it stays beside the new one, for whoever can do more with it."""
        self._files.move(self._base, self._files.free_name(self._base, "unreadable"))
        self.rewrite((), self.version)

    # ── after whatever happened ─────────────────────────────────────────────────────────────────────────────

    def load(self) -> tuple[str, ...]:
        """Read the logs; the turns in them, of which the database must be asked."""
        self.findings += self.logs.load()
        return tuple(self.logs.turns)

    def settle(self, standing: ConversationState, identity: Identity) -> None:
        """Make the files say what the database has committed, and nothing else."""
        if not introduce(self._files, self._directory, identity):
            self.load()
        pending = self._pending_turn(standing)
        base = self._read_marked(pending, standing.version)
        if self.version < standing.cleared:  # a reset did not get here
            self.rewrite((), standing.version)
        elif pending is not None and self.version < standing.version:
            lost = standing.ended.get(pending, 0) - len(self.logs.turns[pending])
            self.fold(pending, standing.version)
            if lost > 0:
                self._find(f"{lost} events of turn {pending!r} are lost")
                self.repair()
        elif base is not None or self.version != standing.version:
            self._adopt(base, standing.version)
        self._keep_live(standing)
        self.settled = True

    def _keep_live(self, standing: ConversationState) -> None:
        live = {turn: lines for turn, lines in self.logs.turns.items() if turn in standing.live}
        self.logs.keep({turn: unbroken_prefix(lines) for turn, lines in live.items()})

    def _pending_turn(self, standing: ConversationState) -> str | None:
        """The turn that the database has ended and the base may not know of. There is at most one."""
        return next((turn for turn in self.logs.turns if turn in standing.ended or _is_copied(turn, standing)), None)

    def _read_marked(self, pending: str | None, version: int) -> Base | None:
        """Learn the base's version from its last line, if that is a mark; else all of it is read, and given."""
        raw, size = self._files.tail(self._base, _TAIL)
        last = read_lines(raw[raw.rfind(b"\n", 0, -1) + 1 :], read_base_line)
        mark = last.records[-1] if last.records and not last.bad and not last.unended else None
        if not size or isinstance(mark, FoldedLine):
            self.version = mark.version if isinstance(mark, FoldedLine) else 0
            return None
        return self._read_unmarked(pending, version)

    def _read_unmarked(self, pending: str | None, version: int) -> Base | None:
        """A fold that was cut off is taken off again when its events are still there; all else is kept and mended."""
        read = read_lines(self._files.read(self._base), read_base_line)
        base = base_of(read.records)
        self.version = 0 if base.last is None else base.last.version
        torn = pending is not None and self.version < version and {line.turn for line in base.unfinished} <= {pending}
        end = read.ends[len(read.records) - len(base.unfinished) - 1] if base.last else 0
        if torn and not any(bad.offset < end for bad in read.bad):
            self._files.cut(self._base, end)
            return None
        self.repair(keep_unfinished=not torn)
        return None if torn else base_of(read_lines(self._files.read(self._base), read_base_line).records)

    def _adopt(self, base: Base | None, version: int) -> None:
        """The base is of another version than the database knows: a copy was put back, or a last mark lost."""
        lines = self.lines() if base is None else (*base.folded, *base.unfinished)
        text = f"it is of version {self.version} and the database of {version}; its {len(lines)} messages are taken"
        self._find(text)
        self.rewrite(lines, version)

    def _find(self, text: str) -> None:
        log.error("%s: %s", self._base, text)
        self.findings.append(IntegrityFinding("truncated-json", "", text))


def _begins_with(lines: Sequence[MessageLine], before: Sequence[MessageLine]) -> bool:
    """Whether nothing happened to what was there before."""
    return len(lines) >= len(before) and all(one is other for one, other in zip(before, lines, strict=False))


def _encode_lines(lines: Sequence[MessageLine], mark: FoldedLine) -> bytes:
    return b"".join((*map(write_base_line, lines), write_base_line(mark)))


# ── copies ──────────────────────────────────────────────────────────────────────────────────────────────────
# Messages that are given to a session come as the log of a turn that nobody ran, named by the version it makes.


def copy_name(version: int) -> str:
    return f"copy-{version}"


def _is_copied(turn: str, standing: ConversationState) -> bool:
    name, _, version = turn.partition("-")
    return name == "copy" and version.isdigit() and int(version) == standing.version
