"""The journal of one message: each stage's result, where it stopped, why, and how long it took."""

import asyncio
from types import TracebackType
from typing import Literal

from finclaw.kernel.envelope import Outbound
from finclaw.kernel.event import Emit, StageEnded
from finclaw.kernel.port import Clock
from finclaw.kernel.scope import Ids, OutcomeKind, StageEntry, StageResult
from finclaw.redaction.redact import describe_error

STAGES = ("normalize", "gate", "command", "ack", "context", "dispatch", "execute", "deliver")


class Halt(Exception):
    """An end of the pipeline that a stage wants. `skip` is a quiet success, `abort` a failure; both have a reason."""

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
    """A journal. `with journal.stage(...)`: leaving the block notes what became of the stage. There is one at a time.

    With `last`, the pipeline ends after that stage: so one stage can be looked at alone.
    """

    def __init__(self, clock: Clock, emit: Emit, ids: Ids, last: str | None = None) -> None:
        self._clock = clock
        self._emit = emit
        self._ids = ids
        self._last = last
        self._started = self._stage_started = clock.monotonic()
        self._entries: list[StageEntry] = []
        self._running = ""
        self._skipped = self._noted = ""

    def stage(self, name: str) -> "Journal":
        """Note one stage, whatever becomes of it. A stage that was begun is always in the journal."""
        self._running = name
        self._stage_started = self._clock.monotonic()
        return self

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        name, self._running = self._running, ""
        ms = round((self._clock.monotonic() - self._stage_started) * 1000, 3)
        result: StageResult = "continue"
        reason, self._noted = self._noted, ""
        if error is not None:
            result, reason = _end_of(error)
        elif self._skipped:
            result, reason = "skip", self._skipped
        self._entries.append(StageEntry(name, result, ms, reason))
        self._emit(StageEnded(stage=name, result=result, duration_ms=ms, **self._ids))
        if error is None and name == self._last:
            raise skip(f"only {self._last} was asked for")

    def skip(self, reason: str) -> None:
        """The running stage ends the pipeline quietly; said before its end, so that its outcome can say so."""
        self._skipped = reason

    def note(self, what: str) -> None:
        """Write something down about the running stage, which goes on."""
        self._noted = what

    @property
    def entries(self) -> tuple[StageEntry, ...]:
        """All stages so far; one still running stands there as it will end, for `deliver` writes its own outcome."""
        if not self._running:
            return tuple(self._entries)
        result: StageResult = "skip" if self._skipped else "continue"
        running = StageEntry(self._running, result, self._since(self._stage_started), self._skipped)
        return (*self._entries, running)

    @property
    def running(self) -> str:
        """The stage that runs; empty between two."""
        return self._running

    @property
    def duration_ms(self) -> float:
        return self._since(self._started)

    def _since(self, moment: float) -> float:
        return round((self._clock.monotonic() - moment) * 1000, 3)


def _end_of(error: BaseException) -> tuple[StageResult, str]:
    """What became of a stage that raised, and why."""
    match error:
        case Halt():
            return error.kind, error.reason
        case asyncio.CancelledError():
            return "abort", "cancelled"
        case _:
            return "abort", describe_error(error)
