"""What the road writes down about itself: each stage's result, where it stopped, why, and how long it took."""

import asyncio
from types import TracebackType
from typing import Literal

from finclaw.kernel.envelope import Outbound
from finclaw.kernel.event import Emit, StageEnded
from finclaw.kernel.port import Clock
from finclaw.kernel.scope import Ids, OutcomeKind, StageEntry, StageResult
from finclaw.tools.guard.told import reason_of

STAGES = ("normalize", "gate", "command", "ack", "context", "dispatch", "execute", "deliver")


class Halt(Exception):
    """A stage ended the road on purpose. `skip` is a quiet success, `abort` a failure; both have a reason."""

    def __init__(
        self,
        kind: Literal["skip", "abort"],
        reason: str,
        *,
        outcome: OutcomeKind,
        reply: Outbound | None = None,
    ) -> None:
        super().__init__(reason)
        self.kind: Literal["skip", "abort"] = kind
        self.reason = reason
        self.outcome: OutcomeKind = outcome
        self.reply = reply


def skip(reason: str) -> Halt:
    return Halt("skip", reason, outcome="skipped")


class Journal:
    """With `last`, the road ends after that stage: so one stage can be looked at alone."""

    def __init__(self, clock: Clock, emit: Emit, ids: Ids, last: str | None = None) -> None:
        self._clock = clock
        self._emit = emit
        self._ids = ids
        self._last = last
        self._started = clock.monotonic()
        self._entries: list[StageEntry] = []
        self._running: tuple[str, float] | None = None
        self._skipped = ""

    def stage(self, name: str) -> "StageNote":
        """Note one stage, whatever becomes of it. A stage that was entered is always in the journal."""
        return StageNote(self, name)

    def begin(self, name: str) -> None:
        self._running = (name, self._clock.monotonic())

    def end(self, name: str, error: BaseException | None) -> None:
        _, started = self._running or (name, self._clock.monotonic())
        match error:
            case None:
                self._note(name, "skip" if self._skipped else "continue", started, self._skipped)
                if name == self._last:
                    raise skip(f"only {name} was asked for")
            case Halt():
                self._note(name, error.kind, started, error.reason)
            case asyncio.CancelledError():
                self._note(name, "abort", started, "cancelled")
            case _:
                self._note(name, "abort", started, reason_of(error))

    def skip(self, reason: str) -> None:
        """The running stage ends the road quietly; told before its end, so that the outcome it writes can say so."""
        self._skipped = reason

    def _note(self, name: str, result: StageResult, started: float, reason: str = "") -> None:
        ms = self._since(started)
        self._running = None
        self._entries.append(StageEntry(name, result, ms, reason))
        self._emit(StageEnded(stage=name, result=result, duration_ms=ms, **self._ids))

    @property
    def entries(self) -> tuple[StageEntry, ...]:
        """All stages so far; one still running stands there as it will end, for `deliver` writes its own outcome."""
        if self._running is None:
            return tuple(self._entries)
        name, started = self._running
        result: StageResult = "skip" if self._skipped else "continue"
        return (*self._entries, StageEntry(name, result, self._since(started), self._skipped))

    @property
    def duration_ms(self) -> float:
        return self._since(self._started)

    def _since(self, moment: float) -> float:
        return round((self._clock.monotonic() - moment) * 1000, 3)


class StageNote:
    """One stage while it runs. A class and not a generator: every message has eight of them."""

    __slots__ = ("_journal", "_name")

    def __init__(self, journal: Journal, name: str) -> None:
        self._journal = journal
        self._name = name

    def __enter__(self) -> None:
        self._journal.begin(self._name)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._journal.end(self._name, error)
