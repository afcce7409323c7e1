"""events.jsonl: the logs of the turns that run in one session. Lines that were written together count together."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from finclaw.errors import SessionError, StoreFailed
from finclaw.kernel.message import ToolStarted, TurnEvent
from finclaw.kernel.record import IntegrityFinding
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
    """The lines that count. Up to `end` the file holds them and nothing else, unless it is `mixed` with damage."""

    turns: Turns
    end: int
    bad: tuple[BadLine, ...]
    mixed: bool


def read_log(raw: bytes) -> LogScan:
    """A last group of lines that is not whole was never promised to anybody, so it does not count."""
    lines = read_lines(raw, _read)
    kept = list(lines.records)
    if kept and kept[-1].seq < kept[-1].until:
        torn = kept[-1]
        while kept and (kept[-1].turn, kept[-1].until) == (torn.turn, torn.until):
            kept.pop()
    end = lines.ends[len(kept) - 1] if kept else 0
    bad = tuple(each for each in lines.bad if each.offset < end)
    names = dict.fromkeys(line.turn for line in kept)
    turns = {name: tuple(line for line in kept if line.turn == name) for name in names}
    return LogScan(turns, end, bad, mixed=bool(bad) or lines.unended)


def group(turn: str, seq: int, events: Sequence[TurnEvent], *, ending: bool = False) -> tuple[EventLine, ...]:
    """Lines that are to be written together."""
    until = seq + len(events) - 1
    return tuple(EventLine(turn, seq + place, until, event, ending) for place, event in enumerate(events))


def write_lines(lines: Sequence[EventLine]) -> bytes:
    return b"".join(write_line(write(line).encode()) for line in lines)


def unbroken_prefix(lines: Sequence[EventLine]) -> tuple[EventLine, ...]:
    """What a turn that goes on may build upon: its log up to the first line that is lost.

    Of what is behind that only the starts of tools are kept, for nothing may make us forget that they may have run.
    """
    counted = [line for line in lines if not line.ending]
    whole = next((place for place, line in enumerate(counted) if line.seq != place), len(counted))
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
        """The file may hold more than is true, and only memory knows what is; the next append takes it off."""

    def load(self) -> tuple[IntegrityFinding, ...]:
        """Read what is there. What could not be read is kept in a copy, and told."""
        if self.dirty:
            self._files.cut(self._path, self._end)
            self.dirty = False
            return ()
        raw = self._files.read(self._path)
        found = read_log(raw)
        self.turns, self._end, self._mixed = found.turns, found.end, found.mixed
        if found.bad:
            self._files.replace(self._files.free_name(self._path, "bak"), raw)
        return tuple(self._damage(each) for each in found.bad)

    def _damage(self, bad: BadLine) -> IntegrityFinding:
        log.error("%s: line %d (byte %d): %s", self._path, bad.line, bad.offset, bad.why)
        return IntegrityFinding("truncated-json", "", f"events, line {bad.line} (byte {bad.offset}): {bad.why}")

    def events(self, turn: str) -> tuple[TurnEvent, ...]:
        return tuple(line.event for line in self.turns.get(turn, ()))

    def append(self, turn: str, seq: int, events: Sequence[TurnEvent], *, ending: bool = False) -> None:
        """On disk when it returns, all of it or nothing."""
        known = self.turns.get(turn, ())
        if seq != len(known):
            raise SessionError(f"the log of turn {turn!r} has {len(known)} events; one cannot be put at place {seq}")
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
        kept, gone = lines[: -len(events)], lines[-len(events) :]
        self._end -= len(write_lines(gone))
        rest = {name: each for name, each in self.turns.items() if name != turn}
        self.turns = {**rest, turn: kept} if kept else rest
        self._cut()

    def drop(self, turn: str) -> None:
        """Forget the log of a turn that has ended."""
        self.keep({name: lines for name, lines in self.turns.items() if name != turn})

    def keep(self, turns: Turns) -> None:
        """Only these lines, numbered anew where some in between were lost."""
        if turns == self.turns and not self._mixed:
            return
        events = {turn: [line.event for line in lines] for turn, lines in turns.items()}
        data = b"".join(write_lines(group(turn, 0, each)) for turn, each in events.items())
        if data:
            self._files.replace(self._path, data)
        self.turns, self._end, self._mixed = read_log(data).turns, len(data), False
        if not data:
            self._cut()

    def _cut(self) -> None:
        try:
            self._files.cut(self._path, self._end)
        except StoreFailed as error:  # the next append does it; after a crash, what counts is what the database says
            self.dirty = True
            log.warning("%s", error)
