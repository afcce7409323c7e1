"""The state of one message in the pipeline, its deadline and the way to stop it, and the runs of all messages there."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import takewhile
from types import TracebackType
from typing import Final, Literal

from msgspec.structs import asdict, replace

from finclaw.agent.turn_state.turn_log import TurnLog
from finclaw.errors import TurnStopped
from finclaw.kernel.envelope import Inbound, Outbound
from finclaw.kernel.fact import Fact
from finclaw.kernel.message import Remove
from finclaw.kernel.record import Accepted, JoinedOutcome, StopMark
from finclaw.kernel.scope import Draft, DraftKind, MessageContext, Outcome, OutcomeKind, TurnResult
from finclaw.pipeline.journal import Halt, Journal
from finclaw.pipeline.recovery import UNRESTRICTED, Entry
from finclaw.pipeline.reply_sequencer import ReplySequencer
from finclaw.sessions.carried_over import MessageCarry
from finclaw.sessions.pool import Seat
from finclaw.sessions.steering import LaneSteering

LEFT_OUT: Final = "left_out"
"""In the metadata of words that tell of messages which were left out: how many."""


class Deadline:
    """A timeout as `asyncio.timeout`, with a clock that can be stopped.

    One timer looks at it, and is set again only when it looked too early, so that stopping and going on costs nothing.

    It runs from now on, not from when it is entered. One deadline may lie `within` a longer one, which stands still
    with it.
    """

    def __init__(self, seconds: float, within: "Deadline | None" = None) -> None:
        self._within = within
        self._loop = asyncio.get_running_loop() if within is None else within._loop
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

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task, self._task = self._task, None
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
    """A context manager in which the clock of a deadline stands still."""

    __slots__ = ("_deadline",)

    def __init__(self, deadline: Deadline) -> None:
        self._deadline = deadline

    def __enter__(self) -> None:
        self._deadline.stop(self._deadline.time())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._deadline.go_on(self._deadline.time())


class Stoppable:
    """A block that can be stopped.

    `stop` cancels whatever is awaited, and TurnStopped comes out instead of the cancellation.

    Like a timeout whose time somebody else decides. It may be entered again after it was left.
    """

    def __init__(self) -> None:
        self._task: asyncio.Task[object] | None = None
        self._cancelling = 0
        self._reason: str | None = None
        self.by_person = self.is_told = False
        """Who stopped it, and whether somebody else tells the sender of it."""
        self.stop_sending: Callable[[], None] | None = None
        """Of a turn whose answer is shown while it is being written: shows no more of it, at once."""

    @property
    def is_stopped(self) -> bool:
        return self._reason is not None

    @property
    def mark(self) -> StopMark | None:
        """That it was stopped, as it is kept."""
        return None if self._reason is None else StopMark(self._reason, told=self.is_told)

    def stop(self, reason: str, *, by_person: bool = False, told: bool = False) -> bool:
        """False: it is stopped already. One that is not inside is stopped when it next enters."""
        if self._reason is not None:
            return False
        self._reason, self.by_person, self.is_told = reason, by_person, told
        if self.stop_sending is not None:  # whoever ignores the cancellation shows nothing more either
            self.stop_sending()
        # Not at once: whoever asks may be an observer in that very task, and nothing there awaits at this moment.
        asyncio.get_running_loop().call_soon(self._cancel)
        return True

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def __enter__(self) -> None:
        self._task = asyncio.current_task()
        self._cancelling = self._task.cancelling() if self._task else 0
        if self._reason is not None:  # asked between two blocks
            self._task = None
            raise TurnStopped(self._reason)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task, self._task = self._task, None
        if self._reason is None or task is None:
            return
        left = task.uncancel() if task.cancelling() > self._cancelling else self._cancelling
        if kind is asyncio.CancelledError and left > self._cancelling:  # somebody else wants this task to end too
            return
        # Also when all went well: a layer may have swallowed the cancellation, or it came in the last moment.
        if kind is None or issubclass(kind, Exception | asyncio.CancelledError):
            raise TurnStopped(self._reason) from error


@dataclass(slots=True, kw_only=True)
class MessageRun(MessageContext):
    """The run of one message through the pipeline."""

    accepted: Accepted
    journal: Journal
    deadline: Deadline
    """For the eight stages."""
    patience: Deadline
    """For the stages and the message layers around them."""
    leave_lane: Callable[[], None]
    """Gives the lane to the next message. Idempotent."""
    isolation: Entry = UNRESTRICTED
    """Its hold on the crash isolation, which it leaves while it waits for its lane."""
    stoppable: Stoppable = field(default_factory=Stoppable)
    """From its wait in the lane to the commit of its answer; afterwards there is nothing to stop but the sending."""
    seat: Seat | None = None
    """In its pool, while its turn runs."""
    log: TurnLog | None = None
    """Set once the turn is claimed: from then on its end must close the turn too."""
    steering: LaneSteering | None = None
    """Of its turn, where later messages may join it."""
    reply: Outbound | None = None
    """What the sender is told when the pipeline ends without an answer."""
    unaffordable: bool = False
    """The budget refused its turn's first model call: nobody has read the message, and none will."""
    sequencer: ReplySequencer | None = None
    """Of a turn whose answer is shown while it is being written."""
    carry: MessageCarry = field(default_factory=MessageCarry)
    undoes: str = ""
    """The turn that its own takes out of the conversation."""
    recorded: Outcome | None = None
    """The outcome that is on disk. Nothing that happens afterwards can change it."""

    @property
    def last_of_question(self) -> Accepted:
        """The message that the answer is shown with: of those that the turn began with, the last."""
        log, steering = self.log, self.steering
        before = log.claim.joined[: _count_questions(log) - 1] if log is not None and log.claim.joined else ()
        return (self.accepted, *before, *(() if steering is None else steering.joined_at_start))[-1]

    def share_outcome(self, outcome: Outcome) -> tuple[Outcome, tuple[JoinedOutcome, ...]]:
        """The message's own end, and the ends of those that joined its turn and share its fate.

        One is answered, and the others say with which one.
        """
        log, steering = self.log, self.steering
        joined = () if log is None else log.claim.joined
        if log is not None and steering is not None:
            joined = (*joined, *steering.list_seen(len(log.answers)))
        if not joined:
            return outcome, ()
        last = self.last_of_question if outcome.kind == "answered" else self.accepted
        kind: OutcomeKind = "joined" if outcome.kind in ("answered", "skipped") else outcome.kind
        reason = f"answered with message {last.id}" if kind == "joined" else outcome.reason
        end = Outcome(kind=kind, reason=reason, turn_id=outcome.turn_id)
        ends = tuple(JoinedOutcome(each.id, outcome if each.id == last.id else end) for each in joined)
        own = outcome if last.id == self.accepted.id else replace(outcome, kind=kind, reason=end.reason, reply=None)
        return own, ends

    def drop_directives(self, inbound: Inbound) -> None:
        """Go on with the message without its directives; the journal says which options they set."""
        if inbound is not self.inbound and inbound.wishes is not None:
            options = (f"{name} {value}" for name, value in asdict(inbound.wishes).items() if value is not None)
            self.journal.note(f"directives: {', '.join(options)}")
        self.inbound = inbound

    def remove_unseen(self) -> None:
        """Take the words of messages out of the turn that the model has not seen: they have turns of their own."""
        if self.steering is not None and self.log is not None:
            for words in self.steering.unseen(len(self.log.answers)):
                self.log.push(Remove(words.id))

    @property
    def asks_person(self) -> bool:
        """Whether somebody is there who could answer what its turn asks: a helper's task has nobody."""
        limits = self.accepted.inbound.limits
        return limits is None or limits.pool == "main"

    def leave(self) -> None:
        """Give up the seat and the place in the lane, both at once: nobody is left waiting. Idempotent."""
        if self.steering is not None:
            self.steering.settle(())
            self.steering.close()
        if self.sequencer is not None:
            self.sequencer.mark_complete()
        seat, self.seat = self.seat, None
        if seat is not None:
            seat.release()
        self.leave_lane()

    @property
    def answer_to(self) -> str:
        """The platform's id of the message that the answer refers to."""
        last = self.last_of_question
        return self.inbound.answer_to if last is self.accepted else last.inbound.answer_to

    @staticmethod
    def of(ctx: MessageContext) -> "MessageRun":
        if not isinstance(ctx, MessageRun):
            raise TypeError("a MessageContext that the pipeline did not make cannot run the pipeline")
        return ctx

    @property
    def reply_facts(self) -> tuple[Fact, ...]:
        """The facts of what the sender is told without an answer."""
        return () if self.reply is None else self.reply.facts

    @property
    def has_markdown(self) -> bool:
        """Whether the reply is Markdown."""
        return self.reply is not None and self.reply.kind != "notice"

    def end_with(
        self,
        kind: OutcomeKind,
        reason: str = "",
        *,
        reply: str | None = None,
        result: TurnResult | None = None,
    ) -> Outcome:
        """The outcome as far as the journal goes."""
        done = result or TurnResult(status="failed", text="")
        return Outcome(
            kind=kind,
            reason=reason,
            reply=reply,
            is_markdown=self.has_markdown,
            turn_id=self.log.claim.turn_id if self.log else None,
            stages=self.journal.entries,
            tools=done.tools,
            facts=done.facts,
            usage=done.usage,
            cost=done.cost,
            duration_ms=self.journal.duration_ms,
            model=done.model,
        )

    def make_draft(self, kind: DraftKind, text: str = "") -> Draft:
        """What visibility checks are told about words of this run."""
        results = () if self.log is None else self.log.results
        return Draft(
            text=text,
            kind=kind,
            language=self.inbound.reply_language,
            question=self.inbound.text,
            facts=(*self.reply_facts, *(fact for result in results for fact in result.facts)),
            context=() if self.log is None else self.log.conversation.lasting_messages,
        )

    def end_by_halt(self, halt: Halt) -> Outcome:
        self.reply = halt.reply
        return self.end_with(halt.outcome, halt.reason, reply=halt.reply.text if halt.reply else None)

    def complete_outcome(self, outcome: Outcome) -> Outcome:
        """An outcome that a layer made itself, with the journal; what it wants the sender to know is said."""
        if self.reply is None and outcome.reply is not None:
            self.reply = Outbound(
                text=outcome.reply, kind="notice", reply_to=self.inbound.answer_to, thread=self.inbound.thread
            )
        return replace(outcome, stages=self.journal.entries, duration_ms=self.journal.duration_ms)


def _count_questions(log: TurnLog) -> int:
    """Messages of persons that the turn began with: those before its model's first answer."""
    before = takewhile(lambda message: message.source.kind != "assistant", log.messages)
    return sum(message.source.kind == "user" and LEFT_OUT not in message.metadata for message in before)


class MessageRuns:
    """The runs of messages in the pipeline, by message id."""

    def __init__(self) -> None:
        self._runs: dict[str, MessageRun] = {}
        self._arrivals: dict[str, StopMark] = {}
        """Stops of messages that have not entered the pipeline yet."""

    def enter(self, run: MessageRun) -> None:
        """Add a run. One that was stopped while its message waited is stopped at once."""
        inbound_id = run.accepted.id
        self._runs[inbound_id] = run
        if self._arrivals and (mark := self._arrivals.pop(inbound_id, None)) is not None:
            run.stoppable.stop(mark.reason, by_person=True, told=mark.told)

    def leave(self, run: MessageRun) -> None:
        del self._runs[run.accepted.id]

    def find(self, inbound_id: str) -> MessageRun | None:
        return self._runs.get(inbound_id)

    def stop(
        self, inbound_id: str, reason: str, *, by: Literal["person", "watchdog"] = "person", told: bool = False
    ) -> bool:
        """Stop a message up to the commit of its answer. False: it has ended, is being stopped, or is not here.

        The pipeline notifies its sender, unless somebody else has (`told`).
        """
        run = self._runs.get(inbound_id)
        if run is None or run.recorded is not None:
            return False
        return run.stoppable.stop(reason, by_person=by == "person", told=told)

    def stop_on_arrival(self, inbound_id: str, mark: StopMark) -> bool:
        """Stop a message as soon as it enters the pipeline. False: it is stopped already."""
        return self._arrivals.setdefault(inbound_id, mark) is mark

    def interrupt(self, inbound_id: str, reason: str) -> bool:
        """Stop a turn that has begun. One that has not begun is skipped at its turn, and its text is kept."""
        run = self._runs.get(inbound_id)
        return run is not None and run.log is not None and self.stop(inbound_id, reason)
