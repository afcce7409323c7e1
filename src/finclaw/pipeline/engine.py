"""The local engine, which runs every accepted message as a task of this process, and its watchdogs."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextvars import Context
from typing import Final

from msgspec import Struct

from finclaw.diagnostics.log import log_ids
from finclaw.kernel.event import Emit, Event, ExecutionCompleted, ExecutionStarted, MessageAccepted, MessageStalled
from finclaw.kernel.port import Clock
from finclaw.kernel.record import Accepted, StopMark
from finclaw.kernel.scope import Outcome
from finclaw.pipeline.message_run import MessageRuns
from finclaw.pipeline.recovery import CrashIsolation
from finclaw.sessions.lane import Lanes

log = logging.getLogger(__name__)

LOOKS: Final = 8  # how often it looks within the time after which it warns
PATIENCE: Final = 60.0
"""Seconds in which messages wait and none makes progress, before that counts as a deadlock."""
INTERVAL: Final = 15.0
SHOWN: Final = 20


class _Watched(Struct):
    started: ExecutionStarted
    last_sign: float
    sign: bool = False
    """It has shown one since somebody last looked. Events are many and looks are few, so these read the clock."""
    warned: bool = False


class Watchdog:
    """An observer that warns about turns without a sign of life, then stops them: a person never waits for nothing.

    Every event of a turn is a sign of life. A message that waits for its lane or its pool has not begun, and is left
    alone. A timer that finds no turn to watch is not set again.
    """

    def __init__(
        self, clock: Clock, emit: Emit, stop: Callable[[str, str], bool], *, warn_s: float, abort_s: float
    ) -> None:
        self._clock = clock
        self._emit = emit
        self._stop = stop
        self._warn_s = warn_s
        self._abort_s = abort_s
        self._watched: dict[str, _Watched] = {}
        self._timer: asyncio.TimerHandle | None = None

    def observe(self, event: Event) -> None:
        watched = self._watched.get(event.inbound_id)
        if watched is not None:
            watched.sign = True
            if isinstance(event, ExecutionCompleted):
                del self._watched[event.inbound_id]  # the timer goes on: the next turn would set it (`cpu_plain_alone`)
        elif isinstance(event, ExecutionStarted):
            self._watched[event.inbound_id] = _Watched(event, self._clock.monotonic())
            self._set_timer()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._warn_s / LOOKS, self._look)

    def _look(self) -> None:
        self._timer = None
        now = self._clock.monotonic()
        for watched in list(self._watched.values()):
            if watched.sign:
                watched.last_sign, watched.sign, watched.warned = now, False, False
            self._judge(watched, now - watched.last_sign)
        if self._watched:
            self._set_timer()

    def _judge(self, watched: _Watched, silent: float) -> None:
        inbound_id = watched.started.inbound_id
        if silent >= self._abort_s:
            del self._watched[inbound_id]
            self._report_stalled(watched, silent, aborted=self._stop(inbound_id, f"no sign of life for {silent:.0f} s"))
        elif silent >= self._warn_s and not watched.warned:
            watched.warned = True
            self._report_stalled(watched, silent, aborted=False)
            watched.sign = False  # our own warning is none

    def _report_stalled(self, watched: _Watched, silent: float, *, aborted: bool) -> None:
        turn = watched.started
        what = "was stopped after" if aborted else "has shown"
        log.warning("turn %s %s %.0f s without a sign of life", turn.turn_id, what, silent)
        self._emit(
            MessageStalled(
                agent=turn.agent,
                session=turn.session,
                inbound_id=turn.inbound_id,
                turn_id=turn.turn_id,
                silent_s=silent,
                aborted=aborted,
            )
        )


class DeadlockWatchdog:
    """A watchdog that breaks a deadlock between messages that wait for each other.

    No order of events is known to cause one. If one exists all the same, exclusivity is the wait that can be given up:
    a message that should have run alone then runs beside others. A timer that finds the queues empty is not set again.
    """

    def __init__(self, engine: "LocalEngine", isolation: CrashIsolation, clock: Clock) -> None:
        self._engine = engine
        self._isolation = isolation
        self._clock = clock
        self._ended = -1
        self._since = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def watch(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(INTERVAL, self._look)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        if self._engine.is_empty:
            return
        self.watch()
        now = self._clock.monotonic()
        waits = self._engine.describe_waits()
        if not waits or self._engine.ended != self._ended:
            self._ended = self._engine.ended
            self._since = now
            return
        if now - self._since >= PATIENCE:
            self._since = now
            if len(waits) > SHOWN:
                waits[SHOWN:] = [f"and {len(waits) - SHOWN} more"]
            text = "no message has made progress for %.0f s; exclusive recovery is disabled; wait graph:\n  %s"
            log.error(text, PATIENCE, "\n  ".join(waits))
            self._isolation.give_up_exclusivity()


LAST_WAIT: Final = 3.0
"""Seconds in which a cancelled message must be out of the pipeline: enough to clean up, not to hold up the stop."""
HandleMessage = Callable[[Accepted], Awaitable[Outcome]]


class LocalEngine:
    def __init__(self, runs: MessageRuns, lanes: Lanes, isolation: CrashIsolation, emit: Emit, clock: Clock) -> None:
        self._handle: HandleMessage | None = None
        self._runs = runs
        self._lanes = lanes
        self._emit = emit
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._open: dict[str, Accepted] = {}
        self._waiting: dict[str, list[asyncio.Future[Outcome | None]]] = {}
        self._suspended: set[str] = set()
        """Messages that are taken out of the pipeline to come back."""
        self._stopped = False
        self.ended = 0
        self._watchdog = DeadlockWatchdog(self, isolation, clock)

    def start(self, handle: HandleMessage) -> None:
        self._handle = handle

    def expect(self, accepted: Accepted) -> None:
        self._lanes.expect(accepted.session, accepted.ticket, accepted)

    def submit(self, accepted: Accepted) -> None:
        """Called in order of tickets, straight from the commit: the lane knows the message before it moves."""
        handle = self._handle
        if handle is None or self._stopped:  # it is on disk, and the recovery of a start takes it up
            return
        self._lanes.expect(accepted.session, accepted.ticket, accepted)
        inbound = accepted.inbound
        self._emit(
            MessageAccepted(
                session=accepted.session,
                inbound_id=accepted.id,
                ticket=accepted.ticket,
                channel=inbound.channel,
                account=inbound.account,
                conversation=inbound.conversation,
                unasked=inbound.unasked,
            )
        )
        # A fresh context: the commit that brings us here was perhaps another message's, and its log ids are its own.
        task = asyncio.create_task(self._run(accepted, handle), name=f"message {accepted.id}", context=Context())
        self._tasks[accepted.id] = task
        self._open[accepted.id] = accepted
        self._watchdog.watch()
        task.add_done_callback(lambda _: self._forget(accepted.id))  # one cancelled too early never runs

    def _forget(self, inbound_id: str) -> None:
        self._tasks.pop(inbound_id, None)
        if inbound_id not in self._suspended:  # that one comes back, and a stop meanwhile is meant for it too
            self._open.pop(inbound_id, None)

    def find_open(self, session: str) -> list[Accepted]:
        return sorted((each for each in self._open.values() if each.session == session), key=lambda each: each.ticket)

    def has_joined(self, accepted: Accepted) -> bool:
        """Whether another's turn answers a message, or is taking it in just now."""
        return self._find_host(accepted) is not None

    def _find_host(self, accepted: Accepted) -> str | None:
        if accepted.joined_to is not None:  # before a crash
            host = self._runs.find(accepted.joined_to)
            joined = () if host is None or host.log is None else host.log.claim.joined
            return accepted.joined_to if any(each.id == accepted.id for each in joined) else None
        running = self._lanes.find(accepted.session).list_open()
        has_joined = any(each.id == accepted.id and offer is not None and offer.is_joined for each, offer in running)
        return running[0][0].id if has_joined else None

    def find_host(self, inbound_id: str) -> str:
        """The message whose turn answers this one: itself, unless it has joined another's."""
        accepted = self._open.get(inbound_id)
        return inbound_id if accepted is None else self._find_host(accepted) or inbound_id

    def stop_message(self, inbound_id: str, reason: str) -> bool:
        """Stop a message, with the turn that it has joined. False: as in `MessageRuns.stop`."""
        host = self.find_host(inbound_id)
        mark = StopMark(reason, told=host != inbound_id)
        if inbound_id in self._open and self._runs.find(inbound_id) is None:
            stopped = self._runs.stop_on_arrival(inbound_id, mark)
        else:
            stopped = self._runs.stop(inbound_id, reason, told=mark.told)
        return self._runs.stop(host, reason) if host != inbound_id else stopped

    async def suspend(self, inbound_id: str) -> Accepted | None:
        """Take a waiting message out, to be submitted again in its place. None: it is not here, or has begun."""
        task = self._tasks.get(inbound_id)
        accepted = self._open.get(inbound_id)
        run = self._runs.find(inbound_id)
        has_begun = run is not None and run.log is not None
        if task is None or accepted is None or has_begun or accepted.claim is not None or self.has_joined(accepted):
            return None
        if run is not None:  # else it pauses, or has not begun to move
            run.keeps_place = True
        self._lanes.find(accepted.session).withdraw_offer(accepted.ticket)
        self._suspended.add(inbound_id)
        try:
            task.cancel()
            await asyncio.wait([task])
        finally:
            self._suspended.discard(inbound_id)
        if run is not None and (mark := run.stoppable.mark) is not None:  # somebody has stopped it meanwhile
            self._runs.stop_on_arrival(inbound_id, mark)
        return accepted

    async def _run(self, accepted: Accepted, handle: HandleMessage) -> None:
        outcome: Outcome | None = None
        with log_ids(message=accepted.id, session=accepted.session):
            try:
                outcome = await handle(accepted)
                log.info("%s", outcome.kind, extra={"ms": outcome.duration_ms, "reason": outcome.reason})
            except Exception:  # it stays unfinished on disk, and the next start takes it up
                log.exception("message %s could not be brought to an end", accepted.id)
            finally:
                self._forget(accepted.id)
                self.ended += 1
                if accepted.id not in self._suspended:
                    self._notify_waiters(accepted.id, outcome)

    def _notify_waiters(self, inbound_id: str, outcome: Outcome | None) -> None:
        for waiting in self._waiting.pop(inbound_id, ()):
            if not waiting.done():
                waiting.set_result(outcome)

    def watch_end(self, inbound_id: str) -> "asyncio.Future[Outcome | None]":
        """Done when the message has ended; None when it will not in this process. Everybody gets their own."""
        ended: asyncio.Future[Outcome | None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(inbound_id, []).append(ended)
        if self._stopped or inbound_id not in self._tasks:
            self._notify_waiters(inbound_id, None)
        return ended

    @property
    def is_empty(self) -> bool:
        return not self._tasks

    def describe_waits(self) -> list[str]:
        """Of each session its first message, and what that one waits for; empty while any message makes progress."""
        queues: dict[str, list[Accepted]] = {}
        for accepted in self._open.values():
            if self._is_at_work(accepted):
                return []
            queues.setdefault(accepted.session, []).append(accepted)
        waits: list[str] = []
        for session, queue in queues.items():
            first = min(queue, key=lambda each: each.ticket)
            state = "waits for its turn" if self._runs.find(first.id) else "waits to enter the pipeline"
            waits.append(f"{session}: message {first.id} {state}, {len(queue) - 1} behind it")
        return waits

    def _is_at_work(self, accepted: Accepted) -> bool:
        """Whether it runs its turn, or one of its stages other than the wait for its lane."""
        run = self._runs.find(accepted.id)
        if run is None or not run.isolation.is_inside:
            return run is not None and run.log is not None
        position = self._lanes.find(accepted.session).position(accepted.ticket)
        return run.journal.running != "dispatch" or position == 0

    async def idle(self) -> None:
        while self._tasks:
            await asyncio.wait(list(self._tasks.values()))

    async def stop(self, grace: float) -> None:
        """Let the messages in the pipeline finish; after `grace` seconds put the rest back for the next start."""
        if self._tasks:
            await asyncio.wait(list(self._tasks.values()), timeout=grace)
        self._stopped = True
        self._watchdog.close()
        left = list(self._tasks.values())
        for task in left:
            task.cancel()
        if left:
            _, stuck = await asyncio.wait(left, timeout=LAST_WAIT)
            for task in stuck:
                log.error("%s ignores that the gateway stops and is left behind", task.get_name())
        for inbound_id in list(self._waiting):
            self._notify_waiters(inbound_id, None)
