"""Acceptance of a message: what is checked before it is stored, and the form in which it is stored."""

from collections.abc import Callable
from datetime import UTC, datetime

from msgspec.structs import replace

from finclaw.errors import ChannelError, NotOwner, SessionFull
from finclaw.kernel.envelope import Inbound
from finclaw.kernel.record import Accepted, ClaimOnAccept
from finclaw.kernel.store_port import Inbox
from finclaw.pipeline.engine import LocalEngine
from finclaw.pipeline.pipeline import Stages, Traffic
from finclaw.pipeline.settings import PipelineSettings
from finclaw.sessions.session_key import session_key
from finclaw.text import fix_surrogates as whole


class Acceptance:
    def __init__(
        self,
        store: Inbox,
        engine: LocalEngine,
        stages: Stages,
        traffic: Traffic,
        settings: PipelineSettings,
    ) -> None:
        self._store = store
        self._engine = engine
        self._stages = stages
        self._limit = traffic.limit
        self._isolation = traffic.isolation
        self._max_text = settings.max_text

    async def accept(self, inbound: Inbound, then: Callable[[Accepted], None], *, may_claim: bool) -> Accepted:
        """Return when the message is on disk. Raises SessionFull, NotOwner or ModelUnknown before that.

        `may_claim`: the pipeline runs, so that the turn of the message may be claimed in the same commit.
        """
        inbound = make_storable(inbound)
        session = session_key(self._stages.agent.name, inbound)
        self._limit.check(session, lambda: self._stages.commands.is_stop(inbound))
        if inbound.wishes is not None and inbound.wishes.model is not None:
            if "owner" not in self._stages.gate.identify_sender(inbound).roles:
                raise NotOwner("only the owner may choose the model of a message, because models differ in price")
            self._stages.agent.check_model(inbound.wishes.model)
        claim = self.claim_on_accept(inbound, session) if may_claim else None
        return await self._store.accept(inbound, session, then, claim)

    async def receive(self, inbound: Inbound, *, may_claim: bool) -> Accepted:
        """Accept what a channel brings. The text of senders that are not admitted is not stored.

        In a full session it is accepted too and then refused: a channel that has to bring it again could bring nothing
        of anybody else meanwhile.
        """
        if not self._stages.gate.hears(inbound):
            inbound = replace(inbound, text="…", attachments=())  # an empty one would be skipped for another reason
        try:
            return await self.accept(inbound, self._engine.submit, may_claim=may_claim)
        except SessionFull:
            inbound = make_storable(inbound)
            session = session_key(self._stages.agent.name, inbound)
            return await self._store.accept(inbound, session, self._submit_above_limit)

    def _submit_above_limit(self, accepted: Accepted) -> None:
        self._limit.accept_above(accepted)
        self._engine.submit(accepted)

    def claim_on_accept(self, inbound: Inbound, session: str) -> ClaimOnAccept | None:
        """Return the claim for a message that will come to its turn at once if its session is idle.

        Its claim then needs no separate commit. None for a message that may have to wait, or may end before its turn:
        what a crash finds running is a suspect.
        """
        if inbound.kind != "message" or inbound.from_extension is not None or len(inbound.text) > self._max_text:
            return None
        if inbound.limits or inbound.attachments or not self._isolation.is_open:
            return None
        stages = self._stages
        if stages.gate.find_objection(inbound) is not None or stages.commands.may_know(inbound.text):
            return None
        if stages.hours is not None and stages.hours.find_next_opening(inbound) is not None:
            return None
        return stages.dispatch.claim_on_accept(inbound, session)


async def accept_for_extension(store: Inbox, engine: LocalEngine, inbound: Inbound, session: str) -> Accepted:
    """Accept what an extension says in a session, or asks there. It has its turn, whatever happens meanwhile."""
    return await store.accept(make_storable(inbound), session, engine.submit)


def make_storable(inbound: Inbound) -> Inbound:
    """Return the message in UTC and without lone surrogates. Raises ChannelError for an edit or the like of nothing."""
    if inbound.kind != "message" and not inbound.target:
        raise ChannelError(f"an inbound of kind {inbound.kind!r} must name the message it is about; set `target`")
    if _is_storable(inbound):  # as nearly all are
        return inbound
    sender = inbound.sender
    return replace(
        inbound,
        text=whole(inbound.text),
        account=whole(inbound.account),
        conversation=whole(inbound.conversation),
        message_id=whole(inbound.message_id),
        sender=replace(sender, id=whole(sender.id), name=whole(sender.name)),
        thread=inbound.thread and whole(inbound.thread),
        reply_to=inbound.reply_to and whole(inbound.reply_to),
        target=inbound.target and whole(inbound.target),
        attachments=tuple(replace(file, id=whole(file.id), name=whole(file.name)) for file in inbound.attachments),
        sent_at=inbound.sent_at and _utc(inbound.sent_at),
    )


def _is_storable(inbound: Inbound) -> bool:
    if inbound.attachments or (inbound.sent_at is not None and inbound.sent_at.tzinfo is not UTC):
        return False
    sender = inbound.sender
    refers = (inbound.thread or "", inbound.reply_to or "", inbound.target or "")
    names = (inbound.account, inbound.conversation, inbound.message_id, sender.id, sender.name)
    together = "".join((inbound.text, *names, *refers))
    return whole(together) is together


def _utc(moment: datetime) -> datetime:
    """A time without a zone is taken for UTC: platforms that leave it out mean that."""
    if moment.tzinfo is None:
        return moment.replace(tzinfo=UTC)
    return moment.astimezone(UTC)
