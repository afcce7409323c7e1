"""What the road writes down about itself: each stage's result, where it stopped, why, and how long it took."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from types import TracebackType
from typing import Literal

from finclaw.kernel.envelope import Outbound
from finclaw.kernel.event import Emit, StageEnded
from finclaw.kernel.port import Clock
from finclaw.kernel.scope import Ids, OutcomeKind, StageEntry, StageResult

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

    @contextmanager
    def stage(self, name: str) -> Generator[None]:
        """Note one stage, whatever becomes of it. A stage that was entered is always in the journal."""
        started = self._clock.monotonic()
        self._running = (name, started)
        try:
            yield
        except Halt as halt:
            self._note(name, halt.kind, started, halt.reason)
            raise
        except asyncio.CancelledError:
            self._note(name, "abort", started, "cancelled")
            raise
        except Exception as error:
            self._note(name, "abort", started, f"{type(error).__name__}: {error}")
            raise
        self._note(name, "skip" if self._skipped else "continue", started, self._skipped)
        if name == self._last:
            raise skip(f"only {name} was asked for")

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


class Deadline:
    """The time a message may take on the road. Its clock stands still while the message waits in the lane.

    One deadline may lie `within` a longer one, which stands still with it.
    """

    def __init__(self, seconds: float, within: "Deadline | None" = None) -> None:
        self._timeout = asyncio.timeout(seconds)
        self._within = within
        self._running = False

    async def __aenter__(self) -> "Deadline":
        await self._timeout.__aenter__()
        self._running = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        self._running = False
        return await self._timeout.__aexit__(kind, error, trace)

    @property
    def expired(self) -> bool:
        return self._timeout.expired()

    @contextmanager
    def paused(self) -> Generator[None]:
        """Inside the deadline: time stands still in this block. Before or after it there is none to stop."""
        with nullcontext() if self._within is None else self._within.paused(), self._stopped():
            yield

    @contextmanager
    def _stopped(self) -> Generator[None]:
        loop = asyncio.get_running_loop()
        ends = self._timeout.when()
        if not self._running or self.expired or ends is None:
            yield
            return
        left = ends - loop.time()
        self._timeout.reschedule(None)
        try:
            yield
        finally:
            if self._running and not self._timeout.expired():
                self._timeout.reschedule(loop.time() + left)
