"""Acceptance of a message by the store, in the form in which it can be kept."""

from datetime import UTC, datetime

from msgspec.structs import replace

from finclaw.errors import ChannelError
from finclaw.kernel.envelope import Inbound
from finclaw.kernel.record import Accepted
from finclaw.kernel.store_port import Inbox
from finclaw.pipeline.engine import LocalEngine
from finclaw.text import fix_surrogates as whole


def make_storable(inbound: Inbound) -> Inbound:
    """The same message with its time in UTC and halves of broken characters replaced, which UTF-8 cannot hold.

    Raises ChannelError for an edit, deletion, reaction or action of nothing: it could not be told from another.
    """
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
        thread=None if inbound.thread is None else whole(inbound.thread),
        reply_to=None if inbound.reply_to is None else whole(inbound.reply_to),
        target=None if inbound.target is None else whole(inbound.target),
        attachments=tuple(replace(each, id=whole(each.id), name=whole(each.name)) for each in inbound.attachments),
        sent_at=None if inbound.sent_at is None else _utc(inbound.sent_at),
    )


async def accept_for_extension(store: Inbox, engine: LocalEngine, inbound: Inbound, session: str) -> Accepted:
    """Accept what an extension says in a session, or asks there. It has its turn, whatever happens meanwhile."""
    return await store.accept(make_storable(inbound), session, engine.submit)


def _is_storable(inbound: Inbound) -> bool:
    if inbound.attachments or (inbound.sent_at is not None and inbound.sent_at.tzinfo is not UTC):
        return False
    sender, refers = inbound.sender, (inbound.thread or "", inbound.reply_to or "", inbound.target or "")
    names = (inbound.account, inbound.conversation, inbound.message_id, sender.id, sender.name)
    together = "".join((inbound.text, *names, *refers))
    return whole(together) is together


def _utc(moment: datetime) -> datetime:
    """A time without a zone is taken for UTC: platforms that leave it out mean that."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
