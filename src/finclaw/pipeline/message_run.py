"""The run of one message through the pipeline, the outcomes of its failures, and the runs of all messages."""

import logging
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Final, Literal

from msgspec.structs import asdict, replace

from finclaw.agent.model.failover import reason_with_hint
from finclaw.agent.turn_state.turn_log import TurnLog, find_unknown_calls
from finclaw.delivery.notice import Notice, describe_unknown_calls, error_notice, limit_notice, make_notice, notice
from finclaw.errors import BudgetExceeded, ModelUnknown, ProviderError, Superseded, ToolLoop, TurnStopped
from finclaw.kernel.envelope import Inbound, Outbound
from finclaw.kernel.fact import Fact
from finclaw.kernel.message import Remove
from finclaw.kernel.record import Accepted, JoinedOutcome, StopMark
from finclaw.kernel.scope import Draft, DraftKind, MessageContext, Outcome, OutcomeKind, TurnResult
from finclaw.pipeline.recovery import UNRESTRICTED, Entry
from finclaw.pipeline.reply_sequencer import ReplySequencer
from finclaw.pipeline.stage import Deadline, Halt, Journal, Stoppable
from finclaw.redaction.redact import describe_error
from finclaw.sessions.carried_over import MessageCarry
from finclaw.sessions.lane import Lanes
from finclaw.sessions.pool import Seat
from finclaw.sessions.steering import LaneSteering
from finclaw.sessions.waiting import INTERRUPTED

log = logging.getLogger(__name__)

LEFT_OUT: Final = "left_out"
"""In the metadata of words that tell of messages which were left out: how many."""


@dataclass(slots=True, kw_only=True)
class MessageRun(MessageContext):
    accepted: Accepted
    journal: Journal
    deadline: Deadline  # for the eight stages
    patience: Deadline  # for the stages and the message layers around them
    lanes: Lanes
    isolation: Entry = UNRESTRICTED
    """Its hold on the crash isolation, which it leaves while it waits for its lane."""
    stoppable: Stoppable = field(default_factory=Stoppable)
    """From its wait in the lane to the commit of its answer; afterwards there is nothing to stop but the sending."""
    seat: Seat | None = None
    log: TurnLog | None = None
    """Set once the turn is claimed: from then on its end must close the turn too."""
    steering: LaneSteering | None = None
    reply: Outbound | None = None
    """What the sender is told when the pipeline ends without an answer."""
    unaffordable: bool = False
    """The budget refused its turn's first model call: nobody has read the message, and none will."""
    sequencer: ReplySequencer | None = None
    """Of a turn whose answer is shown while it is being written."""
    carry: MessageCarry = field(default_factory=MessageCarry)
    undoes: str = ""  # the turn that its own takes out of the conversation
    recorded: Outcome | None = None
    """The outcome that is on disk. Nothing that happens afterwards can change it."""
    keeps_place: bool = False
    """It is taken out of the pipeline to come back: it keeps its place in the lane."""
    has_left: bool = False

    @property
    def last_of_question(self) -> Accepted:
        """The message that the answer is shown with: of those that the turn began with, the last."""
        messages = [self.accepted]
        if self.log is not None and self.log.claim.joined:
            messages += self.log.claim.joined[: _count_questions(self.log) - 1]
        if self.steering is not None:
            messages += self.steering.joined_at_start
        return messages[-1]

    def share_outcome(self, outcome: Outcome) -> tuple[Outcome, tuple[JoinedOutcome, ...]]:
        """Return the message's outcome, and those of the messages that share its turn; one of them is answered."""
        if self.log is None:
            return outcome, ()
        joined = self.log.claim.joined
        if self.steering is not None:
            joined = (*joined, *self.steering.list_seen(len(self.log.answers)))
        if not joined:
            return outcome, ()
        shown_with = self.accepted
        if outcome.kind == "answered":
            shown_with = self.last_of_question
        end = Outcome(kind=outcome.kind, reason=outcome.reason, turn_id=outcome.turn_id)
        if outcome.kind in ("answered", "skipped"):
            end = replace(end, kind="joined", reason=f"answered with message {shown_with.id}")
        outcomes = {message.id: end for message in joined} | {shown_with.id: outcome}
        own = outcomes.get(self.accepted.id) or replace(outcome, kind=end.kind, reason=end.reason, reply=None)
        return own, tuple([JoinedOutcome(message.id, outcomes[message.id]) for message in joined])

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

    def leave(self, joined: tuple[JoinedOutcome, ...] = ()) -> None:
        """Give up the seat and the place in the lane at once. Idempotent. `joined`: ends of messages in its turn."""
        if self.has_left:
            return
        self.has_left = True
        if self.sequencer is not None:
            self.sequencer.mark_complete()
        if self.steering is not None:
            self.steering.close(joined)
        if self.seat is not None:
            self.seat.release()
        if not self.keeps_place:
            self.lanes.leave(self.accepted.session, self.accepted.ticket)

    @property
    def reply_to(self) -> str | None:
        """The platform's id of the message that the next part of the answer refers to; None: another part does."""
        if self.log is not None and self.log.has_answered:
            return None
        last = self.last_of_question
        if last is self.accepted:
            return self.inbound.answer_to
        return last.inbound.answer_to

    @property
    def unknown_calls(self) -> tuple[str, ...]:
        """The tools that move money, were cut off, and may have done so."""
        return find_unknown_calls(self.log) if self.log else ()

    @staticmethod
    def of(ctx: MessageContext) -> "MessageRun":
        if not isinstance(ctx, MessageRun):
            raise TypeError("a MessageContext that the pipeline did not make cannot run the pipeline")
        return ctx

    @property
    def reply_facts(self) -> tuple[Fact, ...]:
        return self.reply.facts if self.reply else ()

    @property
    def has_markdown(self) -> bool:
        return self.reply is not None and self.reply.kind != "notice"

    def end_with(
        self,
        kind: OutcomeKind,
        reason: str = "",
        *,
        reply: str | None = None,
        result: TurnResult | None = None,
    ) -> Outcome:
        done = result or TurnResult(status="failed", text="")
        return Outcome(
            kind=kind,
            reason=reason,
            reply=reply,
            is_markdown=self.has_markdown,
            turn_id=self.log and self.log.claim.turn_id,
            stages=self.journal.entries,
            tools=done.tools,
            facts=done.facts,
            usage=done.usage,
            cost=done.cost,
            duration_ms=self.journal.duration_ms,
            model=done.model,
        )

    def make_draft(self, kind: DraftKind, text: str = "") -> Draft:
        draft = Draft(
            text=text,
            kind=kind,
            language=self.inbound.reply_language,
            question=self.inbound.text,
            facts=self.reply_facts,
        )
        if self.log is None:
            return draft
        found = (fact for result in self.log.results for fact in result.facts)
        return replace(draft, facts=(*self.reply_facts, *found), context=self.log.conversation.lasting_messages)

    def complete_outcome(self, outcome: Outcome) -> Outcome:
        """Add the journal to an outcome that a layer made itself, and tell the sender what it wants to."""
        if self.reply is None and outcome.reply is not None:
            self.reply = make_notice(outcome.reply, self.inbound)
        return replace(outcome, stages=self.journal.entries, duration_ms=self.journal.duration_ms)


def _count_questions(log: TurnLog) -> int:
    """Messages of persons that the turn began with: those before its model's first answer."""
    before = takewhile(lambda message: message.source.kind != "assistant", log.messages)
    return sum(message.source.kind == "user" and LEFT_OUT not in message.metadata for message in before)


class MessageRuns:
    def __init__(self) -> None:
        self._runs: dict[str, MessageRun] = {}
        self._arrivals: dict[str, StopMark] = {}
        """Stops of messages that have not entered the pipeline yet."""

    def enter(self, run: MessageRun) -> None:
        """Add a run. One that was stopped while its message waited is stopped at once."""
        inbound_id = run.accepted.id
        self._runs[inbound_id] = run
        mark = self._arrivals.pop(inbound_id, None)
        if mark is not None:
            run.stoppable.stop(mark.reason, by_person=True, told=mark.told)

    def leave(self, run: MessageRun) -> None:
        del self._runs[run.accepted.id]

    def find(self, inbound_id: str) -> MessageRun | None:
        return self._runs.get(inbound_id)

    def stop(
        self, inbound_id: str, reason: str, *, by: Literal["person", "watchdog"] = "person", told: bool = False
    ) -> bool:
        """Stop a message before its answer is committed. Return False if it has ended, is being stopped or is not here.

        With `told`, somebody else tells its sender.
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


# ── failures: each becomes an outcome, and a notice that says what to do about it ───────────────────────────────


def end_by_error(run: MessageRun, error: Exception, timeout_ms: int) -> Outcome:
    if isinstance(error, Halt):
        run.reply = error.reply
        return run.end_with(error.outcome, error.reason, reply=error.reply and error.reply.text)
    which: Notice = "failed"
    reason = describe_error(error)
    about = ""
    match error:
        case Superseded():
            which = "reset"
            reason = str(error)
        case TurnStopped():
            reason = str(error)
            which = "stopped" if run.stoppable.by_person else "stalled"
            if reason.startswith(INTERRUPTED):
                which = "interrupted"
        case ToolLoop():
            which = "loop"
            reason = str(error)
        case ModelUnknown():
            which = "model_unknown"
            about = error.model
            log.warning("a model was chosen that cannot be asked: %s", error)
        case BudgetExceeded():
            which = limit_notice(error.limit)
            run.unaffordable = run.log is not None and not run.log.paid_calls()
            log.warning("a model was not asked: %s", error)
        case ProviderError():
            which = error_notice(error)
            reason = reason_with_hint(error)
            log.error("the model did not answer: %s", reason)
        case TimeoutError() if run.deadline.expired:
            which = "timeout"
            reason = f"timeout after {timeout_ms} ms, by pipeline.timeout_ms"
            log.warning("a message took too long: %s", reason)
        case _:
            log.error("a message failed in the pipeline", exc_info=error)
    return end_with_notice(run, which, reason, about)


def end_by_leaked_cancellation(run: MessageRun) -> Outcome:
    """End a message where foreign code let its own cancellation out: a failure like any other."""
    log.exception("a message failed: a cancellation leaked out of a layer, a provider or a command")
    return end_with_notice(run, "failed", "CancelledError: not asked for by the gateway")


def end_with_notice(run: MessageRun, which: Notice, reason: str, about: str = "") -> Outcome:
    outcome: OutcomeKind = "failed"
    if which in ("reset", "stopped", "stalled", "interrupted"):
        outcome = "stopped"
    run.reply = None
    if outcome == "failed" or not run.stoppable.is_told:
        run.reply = _with_unknown_calls(run, notice(which, run.inbound, about))
    spent = run.log and run.log.build_result("failed", "")
    return run.end_with(outcome, reason, reply=run.reply and run.reply.text, result=spent)


def last_notice(run: MessageRun, which: Notice) -> Outbound | None:
    """Return what the sender of a message that is given up is told; None: somebody else tells them."""
    mark = run.accepted.stop
    if mark is not None and mark.told and not run.unknown_calls:
        return None
    return _with_unknown_calls(run, notice(which, run.inbound))


def _with_unknown_calls(run: MessageRun, told: Outbound) -> Outbound:
    """Add the tools that move money and were cut off: nobody else will say that they may have done so."""
    if not run.unknown_calls:
        return told
    unknown = describe_unknown_calls(run.unknown_calls, run.inbound.reply_language)
    return replace(told, text=f"{told.text}\n{unknown}")
