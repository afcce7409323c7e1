"""The sender of the outbox.

One task a conversation, one item after the other, nothing sent that is not on disk as `sending`. An item that cannot
be delivered ends as `dead`, the dead letters of the gateway.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextvars import Context
from datetime import timedelta
from functools import partial
from itertools import chain
from typing import Final

from msgspec.structs import replace

from finclaw.cancellation import asked_to_stop
from finclaw.delivery.format import RESENT_MARK
from finclaw.diagnostics.crash_points import crash_point
from finclaw.diagnostics.log import bind_log_ids
from finclaw.errors import MarkupRefused, SendFailed, SendRefused, SendUnknown
from finclaw.kernel.envelope import Outbound
from finclaw.kernel.event import Emit, OutboxItemMoved
from finclaw.kernel.port import Channel, Clock
from finclaw.kernel.record import Accepted, OutboxItem
from finclaw.kernel.store_port import Outbox, retry_until_committed

log = logging.getLogger(__name__)

RETRY_SECONDS: Final = (5.0, 25.0, 120.0, 600.0)
RETRY_LAST: Final = 1_800.0
MAX_ATTEMPTS: Final = 51
"""The four waits above and then half-hours: about a day. Counting tries, not hours, keeps a set clock harmless."""
MAX_DOUBTS: Final = 3
IN_DOUBT: Final = 1.0
"""Seconds before a unit is sent again of which nobody knows whether it arrived."""
LAST_SEND: Final = 1.0
"""Seconds that the one send which is on its way gets when the gateway stops."""
PERISHES_AFTER: Final = timedelta(minutes=10)
MOST_LOST: Final = 1_000
LOOK_AGAIN: Final = 0.5  # seconds between two looks at a channel that is not connected
STREAMED_SEND: Final = 15.0
"""Seconds for a send or an edit while its turn runs; then it is cancelled, and the rest comes with the answer."""
MOST_EDITS: Final = 2
"""Failed tries to put an answer in the place of its preview. Then it is sent as a message of its own."""
Place = tuple[str, str, str]


class OrderedSender:
    def __init__(
        self,
        store: Outbox,
        channels: Mapping[str, Channel],
        clock: Clock,
        emit: Emit,
        submit: Callable[[Accepted], None],
    ) -> None:
        self._store = store
        self._channels = channels
        self._clock = clock
        self._emit = emit
        self._submit = submit
        self._queues: dict[Place, deque[OutboxItem]] = {}
        self._tasks: dict[Place, asyncio.Task[None]] = {}
        self._resting: set[Place] = set()
        self._since: dict[str, float] = {}
        self._lost: deque[str] = deque(maxlen=MOST_LOST)
        """Messages of whose answer a part was lost lately: a turn that still runs may append more behind it."""
        self._withdrawn: set[str] = set()
        self._watchers: dict[str, Callable[[OutboxItem], None]] = {}
        self._stopping = False
        self._closing = False

    def watch(self, inbound_id: str, tell: Callable[[OutboxItem], None] | None) -> None:
        """Tell a turn that runs what becomes of its units; None ends that."""
        if tell is None:
            self._watchers.pop(inbound_id, None)
        else:
            self._watchers[inbound_id] = tell

    def enqueue(self, units: Sequence[OutboxItem]) -> None:
        """Take over units that are on disk. Never waits; the order of calls is the order of sending."""
        for unit in units:
            if unit.state in ("dead", "expired") or unit.inbound_id in self._lost:  # on disk it is lost already
                continue
            place = unit.lane
            self._since[unit.id] = self._clock.monotonic()
            self._queues.setdefault(place, deque()).append(unit)
            if place not in self._tasks:
                work = self._work(place)
                self._tasks[place] = asyncio.create_task(work, name=f"send {place}", context=Context())

    def plan(
        self, accepted: Accepted, outbounds: Sequence[Outbound], turn_id: str | None, first: int
    ) -> tuple[OutboxItem, ...]:
        """Make the items that are to be committed now, numbered from `first` on."""
        units = self._store.plan(accepted, outbounds, turn_id, first)
        if units and self._sends_at_once(units[0]):  # then its start needs no commit of its own
            return (replace(units[0], state="sending"), *units[1:])
        return units

    def _sends_at_once(self, unit: OutboxItem) -> bool:
        """Nothing is before it and the channel is there: its first try follows its commit."""
        channel = self._channels.get(unit.channel)
        return unit.lane not in self._tasks and channel is not None and channel.connected

    async def recover(self) -> None:
        """After a start: what was on its way is now in doubt; what was planned is due at once."""
        units = list(await self._store.pending())
        for place, unit in enumerate(units):
            if unit.state == "sending":
                units[place] = mark_doubtful(unit)
        doubtful = [unit for unit in units if unit.state == "unknown"]
        if doubtful:
            await self._store.settle(*doubtful)
        self.enqueue(units)

    def find_planned(self, session: str) -> list[OutboxItem]:
        units = chain.from_iterable(self._queues.values())
        return [unit for unit in units if unit.session == session and unit.state == "planned"]

    def withdraw(self, items: Collection[str]) -> None:
        """Do not begin to send these any more: their turn was stopped. What is on its way arrives."""
        waiting = {unit.id for unit in chain.from_iterable(self._queues.values())}
        self._withdrawn |= waiting.intersection(items)

    def drop(self, sessions: Collection[str]) -> None:
        """Send no more of what was erased; only the one unit that each place is at goes its way."""
        for queue in self._queues.values():
            dropped = [unit for place, unit in enumerate(queue) if place and unit.session in sessions]
            for unit in dropped:
                del self._since[unit.id]
                queue.remove(unit)

    async def idle(self) -> None:
        """Wait until everything that can be sent now has been."""
        while self._tasks:
            await asyncio.wait(list(self._tasks.values()))

    async def stop(self, grace: float) -> None:
        """Send for `grace` seconds, then let what is on its way arrive: the rest stays planned for the next start.

        So nothing but a send that hangs is left in doubt. Retries and absent channels are not waited for.
        """
        self._stopping = True
        for place in self._resting:
            self._tasks[place].cancel()
        await self._end_within(grace)
        self._closing = True
        await self._end_within(LAST_SEND)
        left = list(self._tasks.values())
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _end_within(self, seconds: float) -> None:
        if self._tasks:
            await asyncio.wait(list(self._tasks.values()), timeout=seconds)

    async def _work(self, place: Place) -> None:
        queue = self._queues[place]
        try:
            while queue and not (self._closing and queue[0].state != "sending"):
                unit = queue[0]
                bind_log_ids(message=unit.inbound_id, turn=unit.turn_id or "", session=unit.session)
                unit = await self._send_item(unit)
                del self._since[queue.popleft().id]
                self._withdrawn.discard(unit.id)
                if unit.state in ("dead", "expired"):
                    self._drop_rest(queue, unit.inbound_id)
                if queue and queue[0].state == "planned" and not (self._closing or queue[0].id in self._withdrawn):
                    # One commit for its receipt and the start of the next: no crash can lose the place between.
                    following = replace(queue[0], state="sending")
                    await self._settle(unit, following)
                    crash_point("next_unit:after_commit")
                    queue[0] = following
                else:
                    await self._settle(unit, lazy=unit.state == "sent" and not unit.is_preview)
        except Exception:  # nobody waits for this task, and the other places go on
            log.critical("a sender stopped; its units wait on disk for the next start", exc_info=True)
        finally:
            del self._queues[place], self._tasks[place]

    def _drop_rest(self, queue: deque[OutboxItem], inbound_id: str) -> None:
        """What follows a lost part would not make sense without it; the store ends those units with it."""
        self._lost.append(inbound_id)
        while queue and queue[0].inbound_id == inbound_id:
            del self._since[queue.popleft().id]

    async def _send_item(self, unit: OutboxItem) -> OutboxItem:
        while True:
            unit, channel = await self._wait_for_channel(unit)
            if self._is_too_old(unit):
                question = partial(self._store.ask_again, unit, self._submit)
                await retry_until_committed(question, self._clock, "a question asked again")
                return replace(unit, state="expired")
            end = self._give_up(unit, channel)
            if end is not None:
                return end
            if unit.state != "sending":
                unit = replace(unit, state="sending")
                await self._settle(unit)
            if unit.edits is None:
                unit = await self._try(unit, channel)
            else:
                unit = await self._replace_preview(unit, channel)
            if unit.state in ("sent", "dead", "superseded"):
                return unit

    def _give_up(self, unit: OutboxItem, channel: Channel) -> OutboxItem | None:
        """The unit as it ends when it must not be tried (again)."""
        is_doubtful = unit.state == "unknown" and not channel.capabilities.idempotent and unit.edits is None
        if is_doubtful and unit.outbound.kind == "confirmation":
            return replace(unit, state="dead")  # it may have arrived, and an order must not be confirmed twice
        is_withdrawn = unit.id in self._withdrawn and unit.state != "sending"
        if is_withdrawn or (unit.is_preview and (is_doubtful or self._is_replaced(unit))):
            return supersede(unit)
        if unit.doubts <= MAX_DOUBTS and unit.attempts <= MAX_ATTEMPTS:
            return None
        return supersede(unit) if unit.is_preview else replace(unit, state="dead")

    def _is_replaced(self, preview: OutboxItem) -> bool:
        """The answer that takes its place waits behind it, and it has certainly not been shown."""
        waiting = self._queues.get(preview.lane, ())
        return preview.state == "planned" and any(item.edits == preview.id for item in waiting)

    def _is_too_old(self, unit: OutboxItem) -> bool:
        """Return whether an unsent answer about a market is too old by either clock: one may have been set back."""
        is_first = unit.seq == 0 or unit.edits is not None
        if unit.state != "planned" or not unit.outbound.perishable or not is_first:
            return False
        waited = timedelta(seconds=self._clock.monotonic() - self._since[unit.id])
        return max(waited, self._clock.now() - unit.planned_at) > PERISHES_AFTER

    async def _try(self, unit: OutboxItem, channel: Channel) -> OutboxItem:
        crash_point("send:before")
        try:
            sending = channel.send(mark_resent(unit, channel))
            if unit.is_preview or unit.span is not None:
                sending = asyncio.wait_for(sending, STREAMED_SEND)
            receipt = await sending
        except SendRefused as error:
            return handle_refusal(unit, error)
        except SendFailed as error:
            return await self._wait_for_next(unit, error)
        except (SendUnknown, TimeoutError) as error:
            log.warning("nobody knows whether unit %s arrived: %s", unit.id, error or "it took too long")
            return await self._wait_in_doubt(unit)
        except Exception:  # a channel is a stranger; after its surprise nobody knows what arrived
            log.exception("channel %s broke its promise while sending %s", channel.name, unit.id)
            return await self._wait_in_doubt(unit)
        except asyncio.CancelledError:
            if asked_to_stop():
                raise
            log.exception("channel %s let a cancellation out while sending %s", channel.name, unit.id)
            return await self._wait_in_doubt(unit)
        crash_point("send:after")
        return replace(unit, state="sent", platform_id=receipt.platform_id)

    async def _replace_preview(self, unit: OutboxItem, channel: Channel) -> OutboxItem:
        find = partial(self._store.find_item, unit.edits or "")
        preview = await retry_until_committed(find, self._clock, "looking for a preview")
        crash_point("send:before")
        try:
            unit = await show_in_place(unit, preview, channel)
        except SendFailed as error:
            return await self._wait_for_next(unit, error)
        except SendUnknown as error:
            log.warning("nobody knows whether unit %s took the place of its preview: %s", unit.id, error)
            unit = replace(unit, state="planned", attempts=unit.attempts + 1)
            await self._settle(unit)
            await self._sleep(unit.lane, IN_DOUBT)
            return unit
        crash_point("send:after")
        return unit

    async def _wait_for_next(self, unit: OutboxItem, error: SendFailed) -> OutboxItem:
        if unit.is_preview and not unit.doubts:  # one that may be shown must be found, or it would stay for ever
            return supersede(unit)
        wait = RETRY_LAST
        if unit.attempts < len(RETRY_SECONDS):
            wait = RETRY_SECONDS[unit.attempts]
        wait = max(wait, error.retry_after or 0)
        unit = replace(_not_on_its_way(unit), attempts=unit.attempts + 1)
        log.warning("unit %s not sent (%s); next try in %g s", unit.id, error, wait)
        await self._settle(unit)
        await self._sleep(unit.lane, wait)
        return unit

    async def _wait_in_doubt(self, unit: OutboxItem) -> OutboxItem:
        """Sending again at once would meet the same trouble, and each time may show the person one more copy."""
        unit = mark_doubtful(unit)
        await self._settle(unit)
        await self._sleep(unit.lane, IN_DOUBT)
        return unit

    async def _wait_for_channel(self, unit: OutboxItem) -> tuple[OutboxItem, Channel]:
        """The unit, and its channel once it is there. What waits is not on its way, and must not be taken for it."""
        wait = LOOK_AGAIN
        channel = self._channels.get(unit.channel)
        if channel is None:
            wait = RETRY_LAST
            text = "units wait for channel %r, which is not configured; configure it to have them sent"
            log.error(text, unit.channel)
        while channel is None or not channel.connected:
            if unit.state == "sending":
                unit = _not_on_its_way(unit)
                await self._settle(unit)
            await self._sleep(unit.lane, wait)
        return unit, channel

    async def _sleep(self, place: Place, seconds: float) -> None:
        """Wait with nothing on its way: a stop does not wait with us."""
        if self._stopping:
            raise asyncio.CancelledError
        self._resting.add(place)
        try:
            await self._clock.sleep(seconds)
        finally:
            self._resting.discard(place)

    async def _settle(self, *units: OutboxItem, lazy: bool = False) -> None:
        await retry_until_committed(lambda: self._store.settle(*units, lazy=lazy), self._clock, "what was sent")
        for unit in units:
            self._emit(
                OutboxItemMoved(unit_id=unit.id, state=unit.state, session=unit.session, inbound_id=unit.inbound_id)
            )
            tell = self._watchers.get(unit.inbound_id)
            if tell is not None:
                tell(unit)


def _not_on_its_way(unit: OutboxItem) -> OutboxItem:
    return replace(unit, state="unknown" if unit.doubts else "planned")


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
    is_told_apart = not unit.doubts or channel.capabilities.idempotent
    return unit if is_told_apart else _add_mark(unit)


def _add_mark(unit: OutboxItem) -> OutboxItem:
    outbound = replace(unit.outbound, text=RESENT_MARK + unit.outbound.text)
    if outbound.rendered is not None:
        outbound = replace(outbound, rendered=RESENT_MARK + outbound.rendered)
    if outbound.plain is not None:
        outbound = replace(outbound, plain=RESENT_MARK + outbound.plain)
    return replace(unit, outbound=outbound)


async def show_in_place(unit: OutboxItem, preview: OutboxItem | None, channel: Channel) -> OutboxItem:
    """Show a unit in the place of its preview. Without `edits` it comes back to be sent as a message of its own.

    An edit may be repeated, so it never leaves anything in doubt. Raises SendFailed or SendUnknown: it is to be tried
    again.
    """
    if preview is None or preview.platform_id is None:
        if not unit.shows_something:
            return supersede(unit)
        return _send_by_itself(unit, channel, is_doubtful=preview is not None and preview.doubts > 0)
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
    if channel.capabilities.idempotent:
        return _add_mark(unit)
    return replace(unit, doubts=max(unit.doubts, 1))


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
