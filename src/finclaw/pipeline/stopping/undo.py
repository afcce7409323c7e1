"""Undo: the last turn is taken out of the conversation, and perhaps asked again.

What it has cost and what its tools have told stay on record, and so does what a person was sent. The end of the command
itself is the commit: its events remove the turn's messages.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from msgspec.structs import replace

from finclaw.agent.turn_state.turn_log import TurnLog
from finclaw.delivery.commit_retry import retry_until_committed
from finclaw.delivery.outbox import OrderedSender
from finclaw.errors import SessionError
from finclaw.gateway import UndoneTurn, sender_of
from finclaw.kernel.envelope import Inbound
from finclaw.kernel.message import Remove
from finclaw.kernel.port import Accept, Clock
from finclaw.kernel.record import Accepted, TurnTrace
from finclaw.kernel.store_port import Store
from finclaw.pipeline.message_run import MessageRun
from finclaw.pipeline.pipeline import Pipeline

_RETRY: Final = "#retry-"


class TurnUndo:
    """The part of a gateway that `/undo` and `/retry` ask."""

    def __init__(
        self,
        store: Store,
        pipeline: Pipeline,
        claim: Callable[[MessageRun], Awaitable[TurnLog]],
        accept: Accept,
        sender: OrderedSender,
        clock: Clock,
    ) -> None:
        self._store = store
        self._pipeline = pipeline
        self._claim = claim
        self._accept = accept
        self._sender = sender
        self._clock = clock

    async def undo(self, accepted: Accepted, *, is_owner: bool, again: bool) -> UndoneTurn:
        """Take out the last turn of the session that a command is in; the command's own end commits it.

        `again`: its question is accepted anew first, so that no crash can lose it; it waits behind the command.
        """
        run = self._pipeline.find_run(accepted.id)
        if run is None:
            raise SessionError(f"message {accepted.id} is not in the pipeline, and cannot undo anything")
        last = await self._store.last_turn(accepted.session)
        if last is None:
            return UndoneTurn(problem="nothing")
        if not is_owner and sender_of(last.inbound) != sender_of(accepted.inbound):
            return UndoneTurn(problem="others")
        if not last.whole:
            return UndoneTurn(problem="shortened", question=last.inbound.text)
        if again:
            await self._accept(_ask_again(last, accepted))
        await self._remove(run, last)
        tools = () if last.outcome is None else tuple(each.name for each in last.outcome.tools)
        return UndoneTurn(question=last.inbound.text, used_tools=bool(tools))

    async def _remove(self, run: MessageRun, last: TurnTrace) -> None:
        waiting = self._sender.find_planned(last.record.session)
        self._sender.withdraw([each.id for each in waiting if each.inbound_id == last.record.inbound_id])
        log = await retry_until_committed(partial(self._claim, run), self._clock, "the start of an undo")
        run.undoes, run.carry.told = last.record.turn_id, (last.record.inbound_id,)  # what it asked is withdrawn, too
        for message in last.messages:
            log.push(Remove(message.id))


def _ask_again(last: TurnTrace, command: Accepted) -> Inbound:
    """Named by the command: whatever happens, one command asks once. Its answer comes as those do that nobody sent."""
    first = last.inbound
    name = f"{first.message_id.partition(_RETRY)[0]}{_RETRY}{command.id}"
    return replace(first, message_id=name, kind="message", target=None, sent_at=None, reissue_of=last.record.inbound_id)
