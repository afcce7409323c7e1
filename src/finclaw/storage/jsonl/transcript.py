"""One conversation as two plain files: base.jsonl, what was folded, and events.jsonl, the logs of running turns.

The database decides what has happened. A log is on disk before the commit that refers to it, and the base is brought
up to that commit afterwards; `settle` does the same for whatever a crash has left. The session's write lock lets one
caller in at a time.
"""

import logging
from collections.abc import Mapping, Sequence
from operator import is_
from pathlib import Path

import msgspec
from msgspec import Struct

from finclaw.diagnostics.crash_points import crash_point
from finclaw.errors import SessionError, StoreFailed
from finclaw.kernel.message import Message, ToolStarted, TurnEvent
from finclaw.kernel.record import IntegrityFinding
from finclaw.storage.files import FileChanged, Files
from finclaw.storage.jsonl.base import (
    BadLine,
    Base,
    FoldedLine,
    MessageLine,
    describe_bad_line,
    fold_lines,
    read_base,
    read_lines,
    repair_file,
    repair_transcript,
    write_base,
    write_line,
)
from finclaw.storage.jsonl.directory import MESSAGES, NAMES, Identity, prepare_directory
from finclaw.storage.sqlite.codec import write
from finclaw.transcript.fold import touches_only_own

log = logging.getLogger(__name__)


class ConversationState(Struct, frozen=True, kw_only=True):
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
        self._base, events = (directory / MESSAGES / name for name in NAMES)
        self.logs = TurnLogs(files, events)
        self.version = 0
        self.settled = False
        """Whether this object, the files and the database agree."""
        self.findings: list[IntegrityFinding] = []
        """Repairs that were not reported yet."""

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
        if base.mark.version < state.cleared:
            return ()
        pending = self._pending_turn(state)
        if pending is not None and base.mark.version < state.version:
            return fold_lines(base.folded, pending, self.logs.events(pending))
        return base.lines

    def messages(self) -> tuple[Message, ...]:
        return tuple(line.message for line in self.lines())

    def fold(self, turn: str, version: int) -> None:
        """Bring the base up to the commit that ended this turn, and drop its log."""
        events = self.logs.events(turn)
        crash_point("fold:before_append")
        mark = FoldedLine(turn, len(events), version)
        old = () if touches_only_own(events) else self.lines()
        new = fold_lines(old, turn, events)
        if len(new) >= len(old) and all(map(is_, new, old)):  # the earlier lines are unchanged
            self._files.append(self._base, self._files.size(self._base), write_base(new[len(old) :], mark))
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
        return repair_transcript(self._files.read(self._base)).report.findings

    def repair(self, *, keep_unfinished: bool = True) -> None:
        report = repair_file(self._files, self._base, keep_unfinished=keep_unfinished)
        for finding in report.findings:
            log.error("%s: %s", self._base, finding.text)
        self.findings += report.findings
        if not report.is_recoverable:
            self._files.put_away(self._base, "unreadable")
            self.rewrite((), self.version)

    def load(self) -> tuple[str, ...]:
        """Read the logs, and return the turns in them, whose state the database knows."""
        self.findings += self.logs.load()
        return tuple(self.logs.turns)

    def settle(self, state: ConversationState, identity: Identity) -> None:
        """Make the files say what the database has committed, and nothing else."""
        if not prepare_directory(self._files, self._directory, identity):
            self.load()
        pending = self._pending_turn(state)
        base = self._read_unmarked(pending, state.version)
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
        live = {turn: lines for turn, lines in self.logs.turns.items() if turn in state.live}
        self.logs.keep({turn: unbroken_prefix(lines) for turn, lines in live.items()})
        self.settled = True

    def _pending_turn(self, state: ConversationState) -> str | None:
        """Return the turn that the database has ended and the base may not know of. There is at most one."""
        ended = (*state.ended, copy_name(state.version))
        return next((turn for turn in self.logs.turns if turn in ended), None)

    def _read_unmarked(self, pending: str | None, version: int) -> Base | None:
        """Read the base's version. Return the base if it does not end with a mark. An interrupted fold is taken off
        if its events are still there; everything else is kept and repaired."""
        base = self._read()
        self.version = base.mark.version
        if base.ends_with_mark:
            return None
        turns = {line.turn for line in base.unfinished}
        is_torn = pending is not None and self.version < version and turns <= {pending}
        if is_torn and not any(bad.offset < base.marked_end for bad in base.read.bad):
            self._files.cut(self._base, base.marked_end)
            return None
        self.repair(keep_unfinished=not is_torn)
        return None if is_torn else self._read()

    def _adopt(self, base: Base | None, version: int) -> None:
        """Take a base of another version than the database knows: a copy was put back, or a last mark was lost."""
        lines = self.lines() if base is None else base.lines
        versions = f"it is of version {self.version} and the database of {version}"
        self._find(f"{versions}; its {len(lines)} messages are taken")
        self.rewrite(lines, version)

    def _find(self, text: str) -> None:
        log.error("%s: %s", self._base, text)
        self.findings.append(IntegrityFinding("truncated-json", "", text))


def copy_name(version: int) -> str:
    """Return the name of a turn that did not run, by the version that it makes: imported messages are its log."""
    return f"copy-{version}"


class EventLine(Struct, frozen=True, tag="event", omit_defaults=True):
    """One event of a turn. `until` is the `seq` of the last line that was written together with this one. `ending`
    lines came with the end of the turn: they count only once the database says that it has ended."""

    turn: str
    seq: int
    until: int
    event: TurnEvent
    ending: bool = False


Turns = Mapping[str, tuple[EventLine, ...]]


class LogScan(Struct, frozen=True):
    """The lines that count. Up to `end` the file holds only them, unless it is `mixed` with damage."""

    turns: Turns
    end: int
    bad: tuple[BadLine, ...]
    mixed: bool


def read_log(raw: bytes) -> LogScan:
    """An incomplete last group of lines belongs to a write that never returned, so it does not count."""
    lines = read_lines(raw, msgspec.json.Decoder(EventLine).decode)
    whole = list(lines.records)
    if whole and whole[-1].seq < whole[-1].until:
        torn = whole[-1]
        while whole and (whole[-1].turn, whole[-1].until) == (torn.turn, torn.until):
            whole.pop()
    end = (0, *lines.ends)[len(whole)]
    bad = tuple(line for line in lines.bad if line.offset < end)
    turns: dict[str, list[EventLine]] = {}
    for line in whole:
        turns.setdefault(line.turn, []).append(line)
    return LogScan({turn: tuple(own) for turn, own in turns.items()}, end, bad, mixed=bool(bad) or lines.unended)


def group(turn: str, seq: int, events: Sequence[TurnEvent], *, ending: bool = False) -> tuple[EventLine, ...]:
    until = seq + len(events) - 1
    return tuple(EventLine(turn, number, until, event, ending) for number, event in enumerate(events, seq))


def write_lines(lines: Sequence[EventLine]) -> bytes:
    return b"".join(write_line(write(line).encode()) for line in lines)


def unbroken_prefix(lines: Sequence[EventLine]) -> tuple[EventLine, ...]:
    """Return the log that a resumed turn may build upon: the lines up to the first lost one. Of the lines behind that
    only the starts of tools are kept: it must not be forgotten that these may have run."""
    counted = [line for line in lines if not line.ending]
    whole = next((index for index, line in enumerate(counted) if line.seq != index), len(counted))
    started = (line for line in counted[whole:] if isinstance(line.event, ToolStarted))
    return (*counted[:whole], *started)


class TurnLogs:
    def __init__(self, files: Files, path: Path) -> None:
        self._files = files
        self._path = path
        self._end = 0
        self._mixed = False
        self.turns: Turns = {}
        self.dirty = False
        """The file may hold lines that do not count, and only memory knows which; the next append cuts them off."""

    def load(self) -> tuple[IntegrityFinding, ...]:
        """Read the file. A damaged file is kept in a copy, and its damage is reported."""
        if self.dirty:
            self._files.cut(self._path, self._end)
            self.dirty = False
            return ()
        raw = self._files.read(self._path)
        found = read_log(raw)
        self._take(found)
        if found.bad:
            self._files.back_up(self._path, raw)
        findings = tuple(describe_bad_line(line, "events, ") for line in found.bad)
        for finding in findings:
            log.error("%s: %s", self._path, finding.text)
        return findings

    def events(self, turn: str) -> tuple[TurnEvent, ...]:
        return tuple(line.event for line in self.turns.get(turn, ()))

    def append(self, turn: str, seq: int, events: Sequence[TurnEvent], *, ending: bool = False) -> None:
        """Write the events to disk, all of them or none."""
        known = self.turns.get(turn, ())
        if seq != len(known):
            raise SessionError(f"the log of turn {turn!r} has {len(known)} events; event {seq} cannot be appended")
        if not events:
            return
        lines = group(turn, seq, events, ending=ending)
        data = write_lines(lines)
        self.dirty = True
        try:
            self._files.append(self._path, self._end, data)
        except FileChanged:
            self.dirty = False
            raise
        self.dirty = False
        self.turns = {**self.turns, turn: (*known, *lines)}
        self._end += len(data)

    def undo(self, turn: str, events: Sequence[TurnEvent]) -> None:
        """Take back the last append: the commit that was to follow it did not happen."""
        if not events:
            return
        lines = self.turns[turn]
        self._end -= len(write_lines(lines[-len(events) :]))
        turns = {**self.turns, turn: lines[: -len(events)]}
        self.turns = {name: rest for name, rest in turns.items() if rest}
        self._cut()

    def drop(self, turn: str) -> None:
        self.keep({name: lines for name, lines in self.turns.items() if name != turn})

    def keep(self, turns: Turns) -> None:
        """Keep only these lines, and number them again where some were lost."""
        if turns == self.turns and not self._mixed:
            return
        events = {turn: [line.event for line in lines] for turn, lines in turns.items()}
        data = b"".join(write_lines(group(turn, 0, own)) for turn, own in events.items())
        if data:
            self._files.replace(self._path, data)
        self._take(read_log(data))
        if not data:
            self._cut()

    def _take(self, found: LogScan) -> None:
        self.turns = found.turns
        self._end = found.end
        self._mixed = found.mixed

    def _cut(self) -> None:
        try:
            self._files.cut(self._path, self._end)
        except StoreFailed as error:  # the next append cuts it; after a crash the database decides what counts
            self.dirty = True
            log.warning("%s", error)
