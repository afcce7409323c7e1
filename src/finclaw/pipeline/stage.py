"""What surrounds the stages of one message: the journal, the deadline and the way to stop it.

The journal notes each stage's result, where the message stopped, why, and how long it took.
"""

import asyncio
from collections.abc import Callable

from finclaw.errors import TurnStopped
from finclaw.kernel.envelope import Outbound
from finclaw.kernel.event import Emit, StageEnded
from finclaw.kernel.port import Clock
from finclaw.kernel.record import StopMark
from finclaw.kernel.scope import Ids, OutcomeKind, StageEntry, StageResult
from finclaw.redaction.redact import describe_error

STAGES = ("normalize", "gate", "command", "ack", "context", "dispatch", "execute", "deliver")


class Halt(Exception):
    """A request of a stage to end the pipeline: a failure if the outcome is `failed`, else a skip with a reason."""

    def __init__(self, reason: str, *, outcome: OutcomeKind, reply: Outbound | None = None) -> None:
        super().__init__(reason)
        self.kind: StageResult = "abort" if outcome == "failed" else "skip"
        self.reason = reason
        self.outcome: OutcomeKind = outcome
        self.reply = reply


def skip(reason: str) -> Halt:
    return Halt(reason, outcome="skipped")


class Journal:
    """The journal of one message: leaving `with journal.stage(...)` notes a result.

    If `last` is given, the pipeline ends after that stage.
    """

    def __init__(self, clock: Clock, emit: Emit, ids: Ids, last: str | None = None) -> None:
        self._clock = clock
        self._emit = emit
        self._ids = ids
        self._last = last
        self._started = self._stage_started = clock.monotonic()
        self._entries: list[StageEntry] = []
        self.running = ""  # the stage that runs; empty between two
        self._skipped = self._noted = ""

    def stage(self, name: str) -> "Journal":
        """Note one stage, whatever becomes of it. A stage that was begun is always in the journal."""
        self.running = name
        self._stage_started = self._clock.monotonic()
        return self

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, trace: object) -> None:
        name = self.running
        self.running = ""
        ms = self._since(self._stage_started)
        result: StageResult = "continue"
        reason = self._noted
        self._noted = ""
        if error is not None:
            result = "abort"
            if isinstance(error, Halt):
                result = error.kind
                reason = error.reason
            elif isinstance(error, asyncio.CancelledError):
                reason = "cancelled"
            else:
                reason = describe_error(error)
        elif self._skipped:
            result = "skip"
            reason = self._skipped
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
        if not self.running:
            return tuple(self._entries)
        result: StageResult = "continue"
        if self._skipped:
            result = "skip"
        running = StageEntry(self.running, result, self._since(self._stage_started), self._skipped)
        return (*self._entries, running)

    @property
    def duration_ms(self) -> float:
        return self._since(self._started)

    def _since(self, moment: float) -> float:
        return round((self._clock.monotonic() - moment) * 1000, 3)


class Deadline:
    """A timeout as `asyncio.timeout`, with a clock that can be stopped. It runs from now on, not from its entry.

    One timer looks at it, and is set again only when it looked too early, so that stopping and going on costs nothing.
    One deadline may lie `within` a longer one, which stands still with it.
    """

    def __init__(self, seconds: float, within: "Deadline | None" = None) -> None:
        self._within = within
        self._loop = asyncio.get_running_loop()
        self.time = self._loop.time
        self._ends = self.time() + seconds
        """A time of the event loop's, put off by every pause."""
        self._pauses = 0
        self._paused_at = 0.0
        self._task: asyncio.Task[object] | None = None
        self._cancelled_before = 0
        self._timer: asyncio.TimerHandle | None = None
        self.expired = False

    async def __aenter__(self) -> "Deadline":
        self._task = asyncio.current_task(self._loop)
        if self._task is None:
            raise RuntimeError("a deadline needs a task to stop")
        self._cancelled_before = self._task.cancelling()
        self._look()
        return self

    async def __aexit__(self, _: object, error: BaseException | None, trace: object) -> None:
        task = self._task
        self._task = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self.expired or task is None:
            return
        wanted_by_others = task.uncancel() > self._cancelled_before
        if isinstance(error, asyncio.CancelledError) and not wanted_by_others:
            raise TimeoutError from error

    def pause(self) -> "Pause":
        """Time stands still in this block. After the deadline there is none to stop, and no harm in it."""
        return Pause(self)

    def stop(self, now: float) -> None:
        if self._within is not None:
            self._within.stop(now)
        if not self._pauses:
            self._paused_at = now
        self._pauses += 1

    def go_on(self, now: float) -> None:
        if self._within is not None:
            self._within.go_on(now)
        self._pauses -= 1
        if self._pauses:
            return
        self._ends += now - self._paused_at
        if self._timer is None:  # it looked while the clock stood still
            self._look()

    def _look(self) -> None:
        self._timer = None
        if self._task is None or self._pauses or self.expired:
            return
        if self.time() < self._ends:
            self._timer = self._loop.call_at(self._ends, self._look)
        else:
            self.expired = True
            self._task.cancel()


class Pause:
    __slots__ = ("_deadline",)

    def __init__(self, deadline: Deadline) -> None:
        self._deadline = deadline

    def __enter__(self) -> None:
        self._deadline.stop(self._deadline.time())

    def __exit__(self, *_: object) -> None:
        self._deadline.go_on(self._deadline.time())


class Stoppable:
    """A block that can be stopped, and entered again: `stop` cancels what is awaited, and TurnStopped comes out."""

    def __init__(self) -> None:
        self._task: asyncio.Task[object] | None = None
        self._cancelling = 0
        self._reason: str | None = None
        self.by_person = False
        self.is_told = False  # somebody else tells the sender that it was stopped
        self.stop_sending: Callable[[], None] | None = None
        """Of a turn whose answer is shown while it is being written: shows no more of it, at once."""

    @property
    def mark(self) -> StopMark | None:
        if self._reason is None:
            return None
        return StopMark(self._reason, told=self.is_told)

    def stop(self, reason: str, *, by_person: bool = False, told: bool = False) -> bool:
        """False: it is stopped already. One that is not inside is stopped when it next enters."""
        if self._reason is not None:
            return False
        self._reason = reason
        self.by_person = by_person
        self.is_told = told
        if self.stop_sending is not None:  # whoever ignores the cancellation shows nothing more either
            self.stop_sending()
        # Not at once: whoever asks may be an observer in that very task, and nothing there awaits at this moment.
        asyncio.get_running_loop().call_soon(self._cancel)
        return True

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def __enter__(self) -> None:
        if self._reason is not None:  # asked between two blocks
            raise TurnStopped(self._reason)
        self._task = asyncio.current_task()
        if self._task is not None:
            self._cancelling = self._task.cancelling()

    def __exit__(self, _: object, error: BaseException | None, trace: object) -> None:
        task = self._task
        self._task = None
        if self._reason is None or task is None:
            return
        if task.cancelling() > self._cancelling:
            task.uncancel()
        if (
            isinstance(error, asyncio.CancelledError) and task.cancelling() > self._cancelling
        ):  # others want this task to end too
            return
        # Also when all went well: a layer may have swallowed the cancellation, or it came in the last moment.
        if error is None or isinstance(error, Exception | asyncio.CancelledError):
            raise TurnStopped(self._reason) from error
