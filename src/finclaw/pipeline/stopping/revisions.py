"""Edits and deletions of a person's own messages.

Before its turn an edit takes the place of the message, which passes all stages anew; later it is an input of its own.
A deletion ends what waits. Nobody changes what another has written.
"""

import asyncio
from collections.abc import Sequence
from weakref import WeakValueDictionary

from msgspec.structs import replace

from finclaw.gateway import StopRequest, sender_of
from finclaw.kernel.envelope import Inbound
from finclaw.kernel.record import Accepted
from finclaw.kernel.store_port import Store
from finclaw.pipeline.engine import LocalEngine
from finclaw.pipeline.journal import Halt, skip
from finclaw.pipeline.message_run import MessageRun
from finclaw.pipeline.stopping.session_stops import SessionStops


class Revisions:
    """The part of the pipeline that handles edits and deletions before their first stage."""

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
            raise Halt("skip", f"{what}: somebody else wrote it", outcome="refused")
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
