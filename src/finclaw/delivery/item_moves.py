"""Moves of an outbox item: what becomes of it when it is refused, in doubt, or shown in the place of a preview."""

import asyncio
import logging
from typing import Final

from msgspec.structs import replace

from finclaw.cancellation import asked_to_stop
from finclaw.delivery.split import RESENT_MARK
from finclaw.errors import MarkupRefused, SendFailed, SendRefused, SendUnknown
from finclaw.kernel.port import Channel
from finclaw.kernel.record import OutboxItem

log = logging.getLogger(__name__)

STREAMED_SEND: Final = 15.0
"""Seconds for a send or an edit while its turn runs; then it is cancelled, and the rest comes with the answer."""
MOST_EDITS: Final = 2
"""Failed tries to put an answer in the place of its preview. Then it is sent as a message of its own."""


def mark_doubtful(unit: OutboxItem) -> OutboxItem:
    return replace(unit, state="unknown", doubts=unit.doubts + 1)


def supersede(unit: OutboxItem) -> OutboxItem:
    return replace(unit, state="superseded")


def handle_refusal(unit: OutboxItem, error: SendRefused) -> OutboxItem:
    """The unit without its markup if only that was refused, else dead; a preview is not missed."""
    if isinstance(error, MarkupRefused) and unit.outbound.rendered is not None:
        log.warning("unit %s is sent once more, as plain text: %s", unit.id, error)
        return replace(unit, outbound=replace(unit.outbound, rendered=None))
    if unit.is_preview:
        log.warning("a preview was refused: %s", error)
        return supersede(unit)
    log.error("unit %s was refused for good: %s", unit.id, error)
    return replace(unit, state="dead")


def mark_resent(unit: OutboxItem, channel: Channel) -> OutboxItem:
    """A repeat that the platform would show twice says that it is one."""
    return unit if not unit.doubts or channel.capabilities.idempotent else _add_mark(unit)


def _add_mark(unit: OutboxItem) -> OutboxItem:
    was = unit.outbound
    rendered = None if was.rendered is None else RESENT_MARK + was.rendered
    plain = None if was.plain is None else RESENT_MARK + was.plain
    return replace(unit, outbound=replace(was, text=RESENT_MARK + was.text, rendered=rendered, plain=plain))


async def show_in_place(unit: OutboxItem, preview: OutboxItem | None, channel: Channel) -> OutboxItem:
    """Show a unit in the place of its preview. Without `edits` it comes back to be sent as a message of its own.

    An edit may be repeated, so it never leaves anything in doubt. Raises SendFailed or SendUnknown: it is to be tried
    again.
    """
    if preview is None or preview.platform_id is None:
        is_doubtful = preview is not None and preview.doubts > 0
        return _send_by_itself(unit, channel, is_doubtful=is_doubtful) if unit.shows_something else supersede(unit)
    place = preview.platform_id
    error = await try_change(channel, place, unit)
    if error is None:
        return replace(unit, state="sent", platform_id=place)
    if isinstance(error, MarkupRefused) and unit.outbound.rendered is not None:
        return handle_refusal(unit, error)
    if not isinstance(error, SendRefused) and unit.attempts < MOST_EDITS:
        raise error
    if not unit.shows_something:
        return supersede(unit)
    log.warning("unit %s cannot take the place of its preview and is sent by itself: %s", unit.id, error)
    may_be_shown = unit.attempts > 0 or not isinstance(error, SendRefused)
    is_doubtful = await try_change(channel, place, None) is not None and may_be_shown
    return _send_by_itself(unit, channel, is_doubtful=is_doubtful)


def _send_by_itself(unit: OutboxItem, channel: Channel, *, is_doubtful: bool) -> OutboxItem:
    """`is_doubtful`: its preview may be shown. By the unit's own token no platform would know that it repeats it."""
    unit = replace(unit, edits=None)
    if not is_doubtful:
        return unit
    return _add_mark(unit) if channel.capabilities.idempotent else replace(unit, doubts=max(unit.doubts, 1))


async def try_change(
    channel: Channel, platform_id: str, unit: OutboxItem | None
) -> SendFailed | SendRefused | SendUnknown | None:
    """Edit a message that was sent, or take it back where the unit has nothing to show; gives why that failed."""
    try:
        async with asyncio.timeout(STREAMED_SEND):
            if unit is not None and unit.shows_something:
                await channel.edit(platform_id, unit)
            else:
                await channel.delete(platform_id)
    except (SendFailed, SendRefused) as error:
        return error
    except Exception as error:  # noqa: BLE001  a channel is a stranger; what may be repeated can be tried again
        return SendUnknown(str(error) or "it took too long")
    except asyncio.CancelledError:
        if asked_to_stop():
            raise
        return SendUnknown("the channel let a cancellation out")
    return None
