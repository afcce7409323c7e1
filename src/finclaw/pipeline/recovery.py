"""What a start does with what the last stop left: deliver, give up what must be given up, take up the rest."""

import logging
from datetime import timedelta

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
        """Units first, so that no new answer overtakes an old one; then messages, session by session, in order."""
        await self._sender.recover()
        unfinished = await self._store.unfinished()
        if unfinished:
            log.info("taking up %d messages from before", len(unfinished))
        for accepted in unfinished:
            if accepted.attempts >= self._settings.max_attempts:
                await pipeline.give_up(
                    accepted, "poison", f"the process died {accepted.attempts} times in this message"
                )
            elif self._too_old(accepted):
                await pipeline.give_up(accepted, "expired", "too old to be answered after a restart")
            else:
                engine.submit(accepted)

    def _too_old(self, accepted: Accepted) -> bool:
        return self._clock.now() - accepted.accepted_at > timedelta(seconds=self._settings.expire_after_s)
