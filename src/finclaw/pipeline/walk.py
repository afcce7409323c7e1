"""One message on its way: what the stages and the message ring share about it."""

from collections.abc import Callable
from dataclasses import dataclass, field

from msgspec.structs import replace

from finclaw.agent.log import TurnLog
from finclaw.kernel.envelope import Outbound
from finclaw.kernel.record import Accepted
from finclaw.kernel.scope import MessageContext, Outcome, OutcomeKind, TurnResult
from finclaw.pipeline.deadline import Deadline
from finclaw.pipeline.journal import Halt, Journal
from finclaw.pipeline.stop import Stoppable
from finclaw.sessions.pool import Seat


@dataclass(slots=True, kw_only=True)
class Walk(MessageContext):
    accepted: Accepted
    journal: Journal
    deadline: Deadline
    """Of the road."""
    patience: Deadline
    """Of the road and the message layers around it."""
    leave_lane: Callable[[], None]
    """Gives the lane to the next message. Idempotent."""
    stoppable: Stoppable = field(default_factory=Stoppable)
    """From dispatch to the end of execute; afterwards the answer exists and there is nothing to stop."""
    stopped_by_person: bool = False
    seat: Seat | None = None
    """In its pool, while its turn runs."""
    log: TurnLog | None = None
    """Set once the turn is claimed: from then on its end must close the turn too."""
    reply: Outbound | None = None
    """What the sender is told when the road ends without an answer."""
    unaffordable: bool = False
    """The budget refused its turn's first model call: nobody has read the message, and none will."""
    recorded: Outcome | None = None
    """The outcome that is on disk. Nothing that happens afterwards can change it."""

    def leave(self) -> None:
        """Give up the seat and the place in the lane, both at once: nobody is left waiting. Idempotent."""
        seat, self.seat = self.seat, None
        if seat is not None:
            seat.release()
        self.leave_lane()

    @staticmethod
    def of(ctx: MessageContext) -> "Walk":
        if not isinstance(ctx, Walk):
            raise TypeError("a MessageContext that the pipeline did not make cannot walk the road")
        return ctx

    def ended(
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
            turn_id=self.log.claim.turn_id if self.log else None,
            stages=self.journal.entries,
            tools=done.tools,
            facts=done.facts,
            usage=done.usage,
            cost=done.cost,
            duration_ms=self.journal.duration_ms,
            model=done.model,
        )

    def halted(self, halt: Halt) -> Outcome:
        self.reply = halt.reply
        return self.ended(halt.outcome, halt.reason, reply=halt.reply.text if halt.reply else None)

    def completed(self, outcome: Outcome) -> Outcome:
        """An outcome that a layer made itself, with the journal; what it wants the sender to know is said."""
        if self.reply is None and outcome.reply is not None:
            self.reply = Outbound(
                text=outcome.reply, kind="notice", reply_to=self.inbound.message_id, thread=self.inbound.thread
            )
        return replace(outcome, stages=self.journal.entries, duration_ms=self.journal.duration_ms)
