"""Stops of a session: what runs is cancelled, what waits is dropped, and what is being sent goes no further."""

import asyncio
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import Final

from finclaw.agent.tool_results import find_unknown_calls
from finclaw.delivery.commit_retry import retry_until_committed
from finclaw.delivery.notice import describe_unknown_calls
from finclaw.delivery.outbox import OrderedSender
from finclaw.gateway import StopReport, StopRequest, sender_of
from finclaw.kernel.envelope import Inbound
from finclaw.kernel.port import Clock
from finclaw.kernel.record import Accepted, OutboxItem, StopMark
from finclaw.kernel.scope import Outcome
from finclaw.kernel.store_port import Store
from finclaw.pipeline.engine import LocalEngine
from finclaw.pipeline.message_run import MessageRun
from finclaw.pipeline.pipeline import Pipeline

STOPS_WITHIN: Final = 0.8
"""Seconds in which a stopped message ends; a tool that ignores its cancellation is left behind before that."""


class SessionStops:
    """The one way in which people, the API, a reset and an interrupting message stop what a session does."""

    def __init__(
        self, store: Store, pipeline: Pipeline, engine: LocalEngine, sender: OrderedSender, clock: Clock
    ) -> None:
        self._store = store
        self._pipeline = pipeline
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
        runs = {each.id: run for each in chosen if (run := self._pipeline.find_run(each.id)) is not None}
        running = [each.id for each in chosen if each.id in runs and self._has_begun(each, runs[each.id])]
        if only_waiting:  # who has begun by now, or is in a turn that has, goes on
            chosen, running = [each for each in chosen if each.id not in running], list[str]()
        waiting = [each.id for each in chosen if each.id not in running]
        ends = [self._engine.watch_end(each.id) for each in chosen]
        teller = None if request.told else next(iter((*running, *waiting)), None)
        marks = {each: StopMark(request.reason, told=each != teller) for each in (*waiting, *running)}
        for inbound_id, mark in marks.items():
            if not self._pipeline.stop(inbound_id, mark.reason, told=mark.told) and inbound_id not in runs:
                self._pipeline.stop_on_arrival(inbound_id, mark)
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
        unknown = tuple(dict.fromkeys(name for each in running for name in _unknown_calls(runs[each])))
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

    # ── answers on their way ────────────────────────────────────────────────────────────────────────────────

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
    """Return whether the message belongs to the sender who requested the stop."""
    asked_by = request.sender or request.asked_by
    return asked_by is None or sender_of(inbound) == asked_by


def _is_answered(outcome: Outcome | None) -> bool:
    """By its own turn: of several that share one, another message may be the one that is called answered."""
    return outcome is not None and outcome.kind in ("answered", "joined")


def _unknown_calls(run: MessageRun) -> tuple[str, ...]:
    return () if run.log is None else find_unknown_calls(run.log)
