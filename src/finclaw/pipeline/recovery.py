"""TODO."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Final, Literal, Protocol

from msgspec.structs import replace

from finclaw.delivery.outbox import OrderedSender
from finclaw.gateway import sender_of
from finclaw.kernel.envelope import Inbound
from finclaw.kernel.port import Clock
from finclaw.kernel.record import Accepted, StopMark
from finclaw.kernel.scope import Outcome
from finclaw.kernel.store_port import Inbox

log = logging.getLogger(__name__)


Fate = Literal["poison", "expired", "stopped"]
NO_MORE: Final = 2
"""Times the tries of the settings. Two that die together each time, such as a turn and its helper, must end too."""
NO_FOLD: Final = 3
"""Likewise. Who kills us even while it is given up has a turn that nobody can look at; it ends without that."""


class GiveUp(Protocol):
    """A function that ends a message which is not tried again."""

    async def __call__(self, accepted: Accepted, which: Fate, reason: str, *, fold: bool) -> Outcome: ...


class Engine(Protocol):
    """Where a session's next turn runs."""

    def expect(self, accepted: Accepted) -> None:
        """Keep its place: nothing with a later ticket may run before it has been submitted and has ended."""
        ...

    def submit(self, accepted: Accepted) -> None:
        """Take over an accepted message. Never raises, never waits."""
        ...


class Recovery:
    """The recovery of one start. `max_attempts` and `expire_after_s` are settings of the pipeline."""

    def __init__(
        self, store: Inbox, sender: OrderedSender, clock: Clock, *, max_attempts: int, expire_after_s: float
    ) -> None:
        self._max_attempts = max_attempts
        self._expire_after = timedelta(seconds=expire_after_s)
        self._store = store
        self._sender = sender
        self._clock = clock

    async def run(self, give_up: GiveUp, engine: Engine, is_stop: Callable[[Inbound], bool] = lambda _: False) -> None:
        """Units first, so that no new answer overtakes an old one; then messages, session by session, in order.

        The lanes know all of them before anything moves: a stale answer's question, asked again, comes after them.
        `is_stop` knows a message that stops those before it: they do not run again, however far that one had come.
        """
        unfinished = _with_stops(await self._store.unfinished(), is_stop)
        if suspects := [accepted for accepted in unfinished if accepted.begun]:
            await self._store.nothing_runs()
        for accepted in unfinished:
            engine.expect(accepted)
        await self._sender.recover()
        if unfinished:
            log.info("taking up %d messages from before", len(unfinished))
        sessions: dict[str, list[Accepted]] = {}
        for accepted in unfinished:
            sessions.setdefault(accepted.session, []).append(accepted)
        async with asyncio.TaskGroup() as group:  # those to be given up side by side, so that their commits are shared
            for messages in sessions.values():
                fates: list[Fate | None] = [self._decide_fate(accepted, suspects) for accepted in messages]
                if any(fates):
                    group.create_task(self._resume(messages, fates, give_up, engine))
                else:
                    _submit_all(messages, engine)

    def _decide_fate(self, accepted: Accepted, suspects: Sequence[Accepted]) -> Fate | None:
        """None: it is taken up again. What had joined a turn shares that one's fate, or is put back by it."""
        if accepted.stop is not None:
            return "stopped"
        if accepted.joined_to is not None:
            return None
        if accepted.attempts >= self._max_attempts and self._caused_crashes(accepted, suspects):
            return "poison"
        if accepted.inbound.from_extension is not None:  # what an extension said is said, however late
            return None
        age = self._clock.now() - accepted.accepted_at
        return "expired" if age > self._expire_after else None

    def _caused_crashes(self, accepted: Accepted, suspects: Sequence[Accepted]) -> bool:
        """It was alone in the pipeline when the process died; or it saw so many deaths that it must end anyway."""
        alone = {each.joined_to or each.id for each in suspects} == {accepted.id}  # all of one turn
        return alone or accepted.attempts >= NO_MORE * self._max_attempts

    async def _resume(
        self, messages: Sequence[Accepted], fates: Sequence[Fate | None], give_up: GiveUp, engine: Engine
    ) -> None:
        for accepted, fate in zip(messages, fates, strict=True):
            if fate is None:
                engine.submit(accepted)
                continue
            await give_up(accepted, fate, _explain(accepted, fate), fold=self._may_be_folded(accepted))

    def _may_be_folded(self, accepted: Accepted) -> bool:
        begun = accepted.attempts > 0 and accepted.inbound.from_extension is None and accepted.joined_to is None
        return begun and accepted.attempts < NO_FOLD * self._max_attempts


def _explain(accepted: Accepted, fate: Fate) -> str:
    if accepted.stop is not None:
        return accepted.stop.reason
    died = f"the process died {accepted.attempts} times in this message"
    return died if fate == "poison" else "too old to be answered after a restart"


def _with_stops(unfinished: Sequence[Accepted], is_stop: Callable[[Inbound], bool]) -> list[Accepted]:
    """With the marks that a stop would have set, had the process not died before."""
    stops = [accepted for accepted in unfinished if is_stop(accepted.inbound)]
    found: list[Accepted] = []
    for accepted in unfinished:
        stop = next((each for each in stops if _stops(each, accepted)), None)
        mark = None if stop is None else StopMark(f"stopped by message {stop.id}", told=True)
        found.append(replace(accepted, stop=mark) if mark and not accepted.stop else accepted)
    return found


def _stops(stop: Accepted, earlier: Accepted) -> bool:
    """A person stops what they have asked before; nothing that the gateway says of its own accord."""
    same = (stop.session, sender_of(stop.inbound)) == (earlier.session, sender_of(earlier.inbound))
    return same and earlier.ticket < stop.ticket and earlier.inbound.from_extension is None


def _submit_all(messages: Sequence[Accepted], engine: Engine) -> None:
    for accepted in messages:
        engine.submit(accepted)
