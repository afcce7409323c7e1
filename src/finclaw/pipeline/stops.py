"""Stops, edits and deletions of messages, and the undo of a turn."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Final
from weakref import WeakValueDictionary

from msgspec.structs import replace

from finclaw.agent.turn_state.turn_log import TurnLog
from finclaw.delivery.notice import describe_unknown_calls
from finclaw.delivery.outbox import OrderedSender
from finclaw.errors import SessionError
from finclaw.gateway import StopReport, StopRequest, UndoneTurn, sender_of
from finclaw.kernel.envelope import Inbound
from finclaw.kernel.message import Remove
from finclaw.kernel.port import Accept, Clock
from finclaw.kernel.record import Accepted, OutboxItem, StopMark, TurnTrace
from finclaw.kernel.scope import Outcome
from finclaw.kernel.store_port import Store, retry_until_committed
from finclaw.pipeline.engine import LocalEngine
from finclaw.pipeline.message_run import MessageRun, MessageRuns
from finclaw.pipeline.stage import Halt, skip

STOPS_WITHIN: Final = 0.8
"""Seconds in which a stopped message ends; a tool that ignores its cancellation is left behind before that."""
_RETRY: Final = "#retry-"


class SessionStops:
    """The one way in which people, the API, a reset and an interrupting message stop what a session does."""

    def __init__(
        self, store: Store, runs: MessageRuns, engine: LocalEngine, sender: OrderedSender, clock: Clock
    ) -> None:
        self._store = store
        self._runs = runs
        self._engine = engine
        self._sender = sender
        self._clock = clock

    async def stop(self, request: StopRequest, *, only_waiting: bool = False) -> StopReport:
        """Stop what the request means: those that wait first, so that none of them begins, then the turn that runs.

        Call this from anywhere, never behind the lane. It cancels at once and returns when the stop is on disk and the
        stopped messages have ended, within a second; one that will not end is left behind, and says nothing more.
        One that has joined a turn is stopped with that turn, and is answered if that is. `only_waiting`: what runs goes
        on, and so do answers that are being sent.
        """
        everybody = self._engine.find_open(request.session)
        hosts = set[str]() if request.only is None else {self._engine.find_host(request.only)}
        chosen = [each for each in everybody if _is_meant(each, request) or each.id in hosts]
        runs = {each.id: run for each in chosen if (run := self._runs.find(each.id)) is not None}
        running = [each.id for each in chosen if each.id in runs and self._has_begun(each, runs[each.id])]
        if only_waiting:  # who has begun by now, or is in a turn that has, goes on
            chosen = [each for each in chosen if each.id not in running]
            running = []
        waiting = [each.id for each in chosen if each.id not in running]
        ends = [self._engine.watch_end(each.id) for each in chosen]
        teller = None if request.told else next(iter((*running, *waiting)), None)
        marks = {each: StopMark(request.reason, told=each != teller) for each in (*waiting, *running)}
        for inbound_id, mark in marks.items():
            if not self._runs.stop(inbound_id, mark.reason, told=mark.told) and inbound_id not in runs:
                self._runs.stop_on_arrival(inbound_id, mark)
        withdrawn = () if only_waiting else await self._withdraw(request, marks)
        taken = {each.id for each in chosen if only_waiting and self._engine.has_joined(each)}  # in this very moment
        withdrawal = StopMark(request.reason)
        kept = {each: mark for each, mark in marks.items() if each not in taken}
        await self._keep_marks(kept | dict.fromkeys(withdrawn, withdrawal))
        if ends:
            await asyncio.wait(ends, timeout=STOPS_WITHIN)
        outcomes = {each.id: end.result() if end.done() else None for each, end in zip(chosen, ends, strict=True)}
        finished = [each for each in chosen if not only_waiting and _is_answered(outcomes[each.id])]
        own = {each.id for each in finished if request.only is not None or _is_asked_by(each.inbound, request)}
        late = self._withdraw_from(request.session, own)
        await self._keep_marks(dict.fromkeys(late, withdrawal))
        stopped = {each for each, outcome in outcomes.items() if outcome is None or outcome.kind == "stopped"} - taken
        others = [each for each in everybody if each not in chosen and each.ticket != request.before]
        unknown = tuple(dict.fromkeys(name for each in running for name in runs[each].unknown_calls))
        return StopReport(
            stopped=tuple(each for each in running if each in stopped),
            dropped=tuple(each for each in waiting if each in stopped),
            withdrawn=(*withdrawn, *late),
            kept=sum(each.inbound.from_extension is None for each in others),
            unknown=unknown,
            warning=describe_unknown_calls(unknown, request.language) if unknown else "",
        )

    def _has_begun(self, accepted: Accepted, run: MessageRun) -> bool:
        return run.log is not None or run.accepted.claim is not None or self._engine.has_joined(accepted)

    async def _keep_marks(self, marks: Mapping[str, StopMark]) -> None:
        """On disk: what is stopped stays stopped, whatever happens to this process."""
        groups: dict[StopMark, list[str]] = {}
        for inbound_id, mark in marks.items():
            groups.setdefault(mark, []).append(inbound_id)
        for mark, ids in groups.items():
            await retry_until_committed(partial(self._store.mark_stopped, ids, mark), self._clock, "a stop")

    async def _withdraw(self, request: StopRequest, marks: Iterable[str]) -> tuple[str, ...]:
        """Of messages that have ended: what of their answers is not being sent yet. Gives their ids."""
        known = set(marks)
        found = dict.fromkeys(each.inbound_id for each in self._find_replies(request.session))
        meant = {each for each in found if each not in known and await self._is_theirs(each, request)}
        return self._withdraw_from(request.session, meant)

    async def _is_theirs(self, inbound_id: str, request: StopRequest) -> bool:
        if request.only is not None:
            return inbound_id == request.only
        if request.sender is None and request.asked_by is None:
            return True
        told = await self._store.turn(inbound_id)
        return told is not None and _is_asked_by(told.inbound, request)

    def _withdraw_from(self, session: str, inbound_ids: Collection[str]) -> tuple[str, ...]:
        items = [each for each in self._find_replies(session) if each.inbound_id in inbound_ids]
        self._sender.withdraw([each.id for each in items])
        return tuple(dict.fromkeys(each.inbound_id for each in items))

    def _find_replies(self, session: str) -> list[OutboxItem]:
        """What confirms an order, or is the gateway's own word, is sent all the same."""
        items = self._sender.find_planned(session)
        return [each for each in items if each.outbound.kind == "reply"]


def _is_meant(accepted: Accepted, request: StopRequest) -> bool:
    if accepted.inbound.from_extension is not None or (request.only is not None and accepted.id != request.only):
        return False
    if request.before is not None and accepted.ticket >= request.before:
        return False
    return request.sender is None or sender_of(accepted.inbound) == request.sender


def _is_asked_by(inbound: Inbound, request: StopRequest) -> bool:
    asked_by = request.sender or request.asked_by
    return asked_by is None or sender_of(inbound) == asked_by


def _is_answered(outcome: Outcome | None) -> bool:
    """By its own turn: of several that share one, another message may be the one that is called answered."""
    return outcome is not None and outcome.kind in ("answered", "joined")


class Revisions:
    """The part of the pipeline that handles edits and deletions before their first stage.

    Before its turn an edit takes the place of the message, which passes all stages again; later it is an input of its
    own. A deletion ends what waits. Nobody changes what another has written.
    """

    def __init__(self, store: Store, engine: LocalEngine, stops: SessionStops) -> None:
        self._store = store
        self._engine = engine
        self._stops = stops
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """By the ids of messages that are being edited: two edits at once would let a message run twice."""

    async def apply(self, run: MessageRun) -> None:
        """Returns for an edit that is to be answered as an input of its own; else raises Halt with what was done."""
        inbound = run.accepted.inbound
        target = await self._store.find_target(inbound)
        what = f"{inbound.kind} of message {inbound.target}"
        if target is None:
            raise skip(f"{what}: it is not known here")
        if sender_of(target.inbound) != sender_of(inbound):
            raise Halt(f"{what}: somebody else wrote it", outcome="refused")
        if inbound.kind == "delete":
            await self._delete(target, run, what)
        elif target.inbound.text == inbound.text:
            raise skip(f"{what}: its words are the same")
        elif await self._replace_waiting(target, run.accepted):
            raise skip(f"{what}: it had not had its turn, and is answered as edited")
        run.inbound = replace(
            run.inbound,
            mentions_us=inbound.mentions_us or target.inbound.mentions_us,
            forwarded=inbound.forwarded or target.inbound.forwarded,
        )

    async def _delete(self, target: Accepted, run: MessageRun, what: str) -> None:
        record = await self._store.find(target.id)
        dropped: Sequence[str] = ()
        if record is not None and record.state != "joined":  # the turn of another answers that one
            reason = f"deleted by the person with message {run.accepted.id}"
            request = StopRequest(session=run.accepted.session, reason=reason, only=target.id)
            dropped = (await self._stops.stop(request, only_waiting=True)).dropped
        raise skip(f"{what}: it is not answered" if dropped else f"{what}: its turn has begun or is over")

    async def _replace_waiting(self, target: Accepted, edit: Accepted) -> bool:
        """Whether the new words took the place of the old ones. The commit decides: a turn that has begun goes on."""
        async with self._locks.setdefault(target.id, asyncio.Lock()):
            suspended = await self._engine.suspend(target.id)
            if suspended is None:
                return False
            amended: Accepted | None = None
            try:
                amended = await self._store.amend(target.id, apply_edit(target.inbound, edit.inbound))
            finally:
                self._engine.submit(amended or suspended)
            return amended is not None


def apply_edit(first: Inbound, edit: Inbound) -> Inbound:
    """Return the message with its new text and its own files. It counts as forwarded if either of the two does."""
    return replace(
        first,
        text=edit.text,
        edited=True,
        mentions_us=first.mentions_us or edit.mentions_us,
        forwarded=first.forwarded or edit.forwarded,
    )


class TurnUndo:
    """The undo of the last turn of a session, for `/undo` and `/retry`, which asks its question again.

    What the turn has cost and what its tools have told stay on record, and so does what a person was sent. The end of
    the command itself is the commit: its events remove the turn's messages.
    """

    def __init__(
        self,
        store: Store,
        runs: MessageRuns,
        claim: Callable[[MessageRun], Awaitable[TurnLog]],
        sender: OrderedSender,
        clock: Clock,
    ) -> None:
        self._store = store
        self._runs = runs
        self._claim = claim
        self._sender = sender
        self._clock = clock

    async def undo(self, accepted: Accepted, *, is_owner: bool, accept_again: Accept | None) -> UndoneTurn:
        """Take out the last turn of the session that a command is in; the command's own end commits it.

        With `accept_again` its question is first accepted again, so that no crash can lose it, and waits after the
        command.
        """
        run = self._runs.find(accepted.id)
        if run is None:
            raise SessionError(f"message {accepted.id} is not in the pipeline, and cannot undo anything")
        last = await self._store.last_turn(accepted.session)
        if last is None:
            return UndoneTurn(problem="nothing")
        if not is_owner and sender_of(last.inbound) != sender_of(accepted.inbound):
            return UndoneTurn(problem="others")
        if not last.whole:
            return UndoneTurn(problem="shortened", question=last.inbound.text)
        if accept_again is not None:
            await accept_again(_ask_again(last, accepted))
        await self._remove(run, last)
        used_tools = last.outcome is not None and bool(last.outcome.tools)
        return UndoneTurn(question=last.inbound.text, used_tools=used_tools)

    async def _remove(self, run: MessageRun, last: TurnTrace) -> None:
        waiting = self._sender.find_planned(last.record.session)
        self._sender.withdraw([each.id for each in waiting if each.inbound_id == last.record.inbound_id])
        log = await retry_until_committed(partial(self._claim, run), self._clock, "the start of an undo")
        run.undoes = last.record.turn_id
        run.carry.told = (last.record.inbound_id,)  # what it asked is withdrawn, too
        for message in last.messages:
            log.push(Remove(message.id))


def _ask_again(last: TurnTrace, command: Accepted) -> Inbound:
    """Named by the command: whatever happens, one command asks once. Its answer comes as those do that nobody sent."""
    first = last.inbound
    name = f"{first.message_id.partition(_RETRY)[0]}{_RETRY}{command.id}"
    return replace(first, message_id=name, kind="message", target=None, sent_at=None, reissue_of=last.record.inbound_id)
