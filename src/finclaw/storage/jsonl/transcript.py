"""One conversation as two plain files: base.jsonl, what was folded, and events.jsonl, the logs of running turns.

The database decides what has happened. A log is on disk before the commit that refers to it, and the base is brought
up to that commit afterwards; `settle` does the same for whatever a crash has left. The session's write lock lets one
caller in at a time.
"""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from finclaw.diagnostics.crash_points import crash_point
from finclaw.kernel.message import Message
from finclaw.kernel.record import IntegrityFinding
from finclaw.storage.jsonl.base import (
    Base,
    FoldedLine,
    MessageLine,
    fold_lines,
    read_base,
    read_base_line,
    repair_file,
    repair_transcript,
    write_base,
)
from finclaw.storage.jsonl.directory import MESSAGES, NAMES, Identity, prepare_directory
from finclaw.storage.jsonl.files import Files
from finclaw.storage.jsonl.lines import read_lines
from finclaw.storage.jsonl.log import TurnLogs, unbroken_prefix
from finclaw.transcript.fold import touches_only_own

log = logging.getLogger(__name__)

_TAIL: Final = 512
"""Bytes at the end of a base that surely hold its last mark."""


class ConversationState(Struct, frozen=True, kw_only=True):
    """The database's state of a conversation that is kept in files."""

    version: int
    cleared: int
    """The version that its last reset made; older messages are forgotten."""
    began: int
    live: frozenset[str]
    """The turns in the files that have not ended."""
    ended: Mapping[str, int]
    """The turns in the files that were folded, with the number of their events."""


class SessionFiles:
    def __init__(self, files: Files, directory: Path) -> None:
        self._files = files
        self._directory = directory
        base, events = (directory / MESSAGES / name for name in NAMES)
        self._base = base
        self.logs = TurnLogs(files, events)
        self.version = 0
        """The version of the base."""
        self.settled = False
        """Whether this object, the files and the database agree."""
        self.findings: list[IntegrityFinding] = []
        """Repairs that were not reported yet."""

    # ── the base ────────────────────────────────────────────────────────────────────────────────────────────

    def lines(self) -> tuple[MessageLine, ...]:
        """Return every message that can be read; a damaged file is repaired first."""
        base = self._read()
        if base.read.bad or base.unfinished:
            self.repair()
            base = self._read()
        elif not base.read.unended:
            return base.folded
        self.rewrite(base.lines, self.version)
        return base.lines

    def _read(self) -> Base:
        return read_base(self._files.read(self._base))

    def lines_as_of(self, state: ConversationState) -> Sequence[MessageLine]:
        """Return the lines that `settle` would leave, without writing: for a disk that takes no writes."""
        base = self._read()
        if base.version < state.cleared:
            return ()
        pending = self._pending_turn(state)
        if pending is not None and base.version < state.version:
            return fold_lines(base.folded, pending, self.logs.events(pending))
        return base.lines

    def messages(self) -> tuple[Message, ...]:
        return tuple(line.message for line in self.lines())

    def fold(self, turn: str, version: int) -> None:
        """Bring the base up to the commit that ended this turn, and drop its log."""
        events = self.logs.events(turn)
        crash_point("fold:before_append")
        mark = FoldedLine(turn, len(events), version)
        old: tuple[MessageLine, ...] = ()
        if not touches_only_own(events):
            old = self.lines()
        new = fold_lines(old, turn, events)
        if _begins_with(new, old):
            _, size = self._files.tail(self._base, 0)
            self._files.append(self._base, size, write_base(new[len(old) :], mark))
        else:
            self._files.replace(self._base, write_base(new, mark))
        self.version = version
        crash_point("fold:after_append")
        self.logs.drop(turn)
        crash_point("fold:after_clear")

    def rewrite(self, lines: Sequence[MessageLine], version: int) -> None:
        self._files.replace(self._base, write_base(lines, FoldedLine("", 0, version)))
        self.version = version

    def erase(self, version: int) -> None:
        """Empty the conversation, overwriting what it held; backups of earlier repairs are removed with it."""
        for path in sorted((self._directory / MESSAGES).iterdir()):
            self._files.erase(path)
        self.rewrite((), version)
        self.settled = False

    def look(self) -> tuple[IntegrityFinding, ...]:
        """Return what a repair would find."""
        return repair_transcript(self._files.read(self._base)).report.findings

    def repair(self, *, keep_unfinished: bool = True) -> None:
        report = repair_file(self._files, self._base, keep_unfinished=keep_unfinished)
        for finding in report.findings:
            log.error("%s: %s", self._base, finding.text)
        self.findings += report.findings
        if not report.is_recoverable:
            self._files.put_away(self._base, "unreadable")
            self.rewrite((), self.version)

    # ── recovery ────────────────────────────────────────────────────────────────────────────────────────────

    def load(self) -> tuple[str, ...]:
        """Read the logs, and return the turns in them, whose state the database knows."""
        self.findings += self.logs.load()
        return tuple(self.logs.turns)

    def settle(self, state: ConversationState, identity: Identity) -> None:
        """Make the files say what the database has committed, and nothing else."""
        if not prepare_directory(self._files, self._directory, identity):
            self.load()
        pending = self._pending_turn(state)
        base = self._read_marked(pending, state.version)
        if self.version < state.cleared:  # a reset did not get here
            self.rewrite((), state.version)
        elif pending is not None and self.version < state.version:
            lost = state.ended.get(pending, 0) - len(self.logs.turns[pending])
            self.fold(pending, state.version)
            if lost > 0:
                self._find(f"{lost} events of turn {pending!r} are lost")
                self.repair()
        elif base is not None or self.version != state.version:
            self._adopt(base, state.version)
        self._keep_live(state)
        self.settled = True

    def _keep_live(self, state: ConversationState) -> None:
        live = {turn: lines for turn, lines in self.logs.turns.items() if turn in state.live}
        self.logs.keep({turn: unbroken_prefix(lines) for turn, lines in live.items()})

    def _pending_turn(self, state: ConversationState) -> str | None:
        """Return the turn that the database has ended and the base may not know of. There is at most one."""
        return next((turn for turn in self.logs.turns if turn in state.ended or _is_copied(turn, state)), None)

    def _read_marked(self, pending: str | None, version: int) -> Base | None:
        """Read the base's version from its last line. If that is not a mark, the whole base is read and returned."""
        raw, size = self._files.tail(self._base, _TAIL)
        last = read_lines(raw[raw.rfind(b"\n", 0, -1) + 1 :], read_base_line)
        is_whole = bool(last.records) and not last.bad and not last.unended
        if size and not (is_whole and isinstance(last.records[-1], FoldedLine)):
            return self._read_unmarked(pending, version)
        self.version = read_base(raw).version
        return None

    def _read_unmarked(self, pending: str | None, version: int) -> Base | None:
        """Take off an interrupted fold if its events are still there; keep and repair everything else."""
        base = self._read()
        self.version = base.version
        is_torn = (
            pending is not None and self.version < version and {line.turn for line in base.unfinished} <= {pending}
        )
        if is_torn and not any(bad.offset < base.marked_end for bad in base.read.bad):
            self._files.cut(self._base, base.marked_end)
            return None
        self.repair(keep_unfinished=not is_torn)
        return None if is_torn else self._read()

    def _adopt(self, base: Base | None, version: int) -> None:
        """Take a base of another version than the database knows: a copy was put back, or a last mark was lost."""
        lines = base.lines if base is not None else self.lines()
        self._find(
            f"it is of version {self.version} and the database of {version}; its {len(lines)} messages are taken"
        )
        self.rewrite(lines, version)

    def _find(self, text: str) -> None:
        log.error("%s: %s", self._base, text)
        self.findings.append(IntegrityFinding("truncated-json", "", text))


def _begins_with(lines: Sequence[MessageLine], before: Sequence[MessageLine]) -> bool:
    """Whether the earlier lines are unchanged."""
    return len(lines) >= len(before) and all(one is other for one, other in zip(before, lines, strict=False))


# ── imported messages ───────────────────────────────────────────────────────────────────────────────────────
# They come as the log of a turn that did not run, named by the version that it makes.


def copy_name(version: int) -> str:
    return f"copy-{version}"


def _is_copied(turn: str, state: ConversationState) -> bool:
    name, _, version = turn.partition("-")
    return name == "copy" and version.isdigit() and int(version) == state.version
