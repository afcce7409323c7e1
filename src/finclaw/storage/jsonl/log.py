"""events.jsonl: the logs of a session's running turns. Lines that were written together count together."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from finclaw.errors import SessionError, StoreFailed
from finclaw.kernel.message import ToolStarted, TurnEvent
from finclaw.kernel.record import IntegrityFinding
from finclaw.storage.jsonl.base import describe_bad_line
from finclaw.storage.jsonl.files import FileChanged, Files
from finclaw.storage.jsonl.lines import BadLine, read_lines, write_line
from finclaw.storage.sqlite.codec import write

log = logging.getLogger(__name__)


class EventLine(Struct, frozen=True, tag="event", omit_defaults=True):
    """One event of a turn. `until` is the `seq` of the last line that was written together with this one.

    `ending` lines came with the end of the turn: they count only once the database says that it has ended.
    """

    turn: str
    seq: int
    until: int
    event: TurnEvent
    ending: bool = False


_read: Final = msgspec.json.Decoder(EventLine).decode

Turns = Mapping[str, tuple[EventLine, ...]]


class LogScan(Struct, frozen=True):
    """The lines that count. Up to `end` the file holds only them, unless it is `mixed` with damage."""

    turns: Turns
    end: int
    bad: tuple[BadLine, ...]
    mixed: bool


def read_log(raw: bytes) -> LogScan:
    """An incomplete last group of lines belongs to a write that never returned, so it does not count."""
    lines = read_lines(raw, _read)
    whole = list(lines.records)
    if whole and whole[-1].seq < whole[-1].until:
        torn = whole[-1]
        while whole and (whole[-1].turn, whole[-1].until) == (torn.turn, torn.until):
            whole.pop()
    end = (0, *lines.ends)[len(whole)]
    bad = tuple(line for line in lines.bad if line.offset < end)
    names = dict.fromkeys(line.turn for line in whole)
    turns = {name: tuple(line for line in whole if line.turn == name) for name in names}
    return LogScan(turns, end, bad, mixed=bool(bad) or lines.unended)


def group(turn: str, seq: int, events: Sequence[TurnEvent], *, ending: bool = False) -> tuple[EventLine, ...]:
    """Return the lines of events that are written together."""
    until = seq + len(events) - 1
    return tuple(EventLine(turn, number, until, event, ending) for number, event in enumerate(events, seq))


def write_lines(lines: Sequence[EventLine]) -> bytes:
    return b"".join(write_line(write(line).encode()) for line in lines)


def unbroken_prefix(lines: Sequence[EventLine]) -> tuple[EventLine, ...]:
    """Return the log that a resumed turn may build upon: the lines up to the first lost one.

    Of the lines behind that only the starts of tools are kept: it must not be forgotten that these may have run.
    """
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
        """Forget the log of a turn that has ended."""
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
