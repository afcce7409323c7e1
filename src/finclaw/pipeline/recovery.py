"""What a start does with what the last stop left: deliver, give up what must be given up, take up the rest."""

import asyncio
import logging
from collections.abc import Sequence
from datetime import timedelta
from typing import Literal

from finclaw.delivery.outbox import OrderedSender
from finclaw.kernel.port import Clock, Engine, Inbox
from finclaw.kernel.record import Accepted
from finclaw.pipeline.pipeline import Pipeline
from finclaw.pipeline.settings import PipelineSettings

log = logging.getLogger(__name__)


class Recovery:
    def __init__(self, settings: PipelineSettings, store: Inbox, sender: OrderedSender, clock: Clock) -> None:
        self._settings = settings
        self._store = store
        self._sender = sender
        self._clock = clock

    async def run(self, pipeline: Pipeline, engine: Engine) -> None:
        """Units first, so that no new answer overtakes an old one; then messages, session by session, in order.

        The lanes know all of them before anything moves: a stale answer's question, asked again, comes after them.
        """
        unfinished = await self._store.unfinished()
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
                if any(self._hopeless(accepted) for accepted in messages):
                    group.create_task(self._take_up(messages, pipeline, engine))
                else:
                    _submit_all(messages, engine)

    async def _take_up(self, messages: Sequence[Accepted], pipeline: Pipeline, engine: Engine) -> None:
        for accepted in messages:
            if self._hopeless(accepted) == "poison":
                reason = f"the process died {accepted.attempts} times in this message"
                await pipeline.give_up(accepted, "poison", reason)
            elif self._hopeless(accepted) == "expired":
                await pipeline.give_up(accepted, "expired", "too old to be answered after a restart")
            else:
                engine.submit(accepted)

    def _hopeless(self, accepted: Accepted) -> Literal["poison", "expired"] | None:
        if accepted.inbound.said_by is not None:  # what an extension said is said, however late
            return None
        if accepted.attempts >= self._settings.max_attempts:
            return "poison"
        age = self._clock.now() - accepted.accepted_at
        return "expired" if age > timedelta(seconds=self._settings.expire_after_s) else None


def _submit_all(messages: Sequence[Accepted], engine: Engine) -> None:
    for accepted in messages:
        engine.submit(accepted)
