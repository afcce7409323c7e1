"""A live preview: one message that shows an answer while the model writes it, on a channel that can edit.

Its first sight is an outbox item, so that it is known after a crash; the edits are not. The answer takes its place.
`TurnItems` appends the outbox items of a turn that still runs, previews and blocks, and follows them until they arrive.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from msgspec.structs import replace

from finclaw.agent.turn_state.turn_log import TurnLog
from finclaw.delivery.outbox import OrderedSender, try_change
from finclaw.errors import MarkupRefused, SendFailed, SendRefused, SendUnknown
from finclaw.kernel.envelope import Inbound, Outbound
from finclaw.kernel.event import Emit, Event, PreviewUpdated
from finclaw.kernel.port import Channel, Clock
from finclaw.kernel.record import Accepted, OutboxItem, TextRange
from finclaw.kernel.store_port import Outbox
from finclaw.redaction.redact import describe_error

log = logging.getLogger(__name__)


DIRECT_SECONDS: Final = 1.0

GROUP_SECONDS: Final = 4.0
"""Between two changes. Platforms count the edits in a group, and everybody there sees the message flicker."""

MOST_FAILURES: Final = 3
"""Edits in a row. Then the answer comes when it is complete."""

PreparePreview = Callable[[str], Awaitable[Outbound | None]]
"""The words as a person may see them now. None: nothing more may be shown before the end."""


class TurnItems:
    """The items that one running turn appends to the outbox."""

    def __init__(self, store: Outbox, sender: OrderedSender, accepted: Accepted, turn: TurnLog) -> None:
        self._store = store
        self._sender = sender
        self._accepted = accepted
        self._turn = turn
        self._latest: dict[str, OutboxItem] = {}
        self._moved = asyncio.Event()
        self._is_over = False
        sender.watch(accepted.id, self._on_move)

    def _on_move(self, item: OutboxItem) -> None:
        self._latest[item.id] = item
        self._moved.set()

    def withdraw(self) -> None:
        """The turn was stopped: what has not left by now never does."""
        self._sender.withdraw([item.id for item in self._turn.items])
        for place, item in enumerate(self._turn.items):
            known = self._latest.get(item.id, item)
            if known.state in ("planned", "unknown"):
                self._turn.items[place] = replace(known, state="superseded")

    async def append(
        self, outbounds: Sequence[Outbound], mark: Callable[[OutboxItem, int], OutboxItem] = lambda item, _: item
    ) -> tuple[OutboxItem, ...]:
        """Append these as items; `mark` says what is special about each. Who is cancelled waits for the commit."""
        turn_id, first = self._turn.claim.turn_id, len(self._turn.items)
        units = self._sender.plan(self._accepted, outbounds, turn_id, first)
        items = tuple(mark(unit, place) for place, unit in enumerate(units))

        def on_commit(written: tuple[OutboxItem, ...]) -> None:
            self._turn.items += written
            self._sender.enqueue(written)

        await self._store.append_items(self._turn.claim, items, on_commit)
        return items

    async def arrive(self, item: OutboxItem) -> OutboxItem:
        """The item once it was sent or superseded. Raises SendFailed as soon as its sending meets any trouble."""
        while True:
            self._moved.clear()
            found = self._latest.get(item.id) or await self._store.find_item(item.id)
            if found is None or found.state in ("dead", "expired") or found.attempts or found.doubts:
                raise SendFailed(f"item {item.id} did not arrive" + ("" if found is None else f", it is {found.state}"))
            if found.state in ("sent", "superseded") or self._is_over:
                return found
            await self._moved.wait()

    def stop_waiting(self) -> None:
        """The turn ends: what has not arrived arrives before its end."""
        self._is_over = True
        self._moved.set()

    def close(self) -> None:
        self._sender.watch(self._accepted.id, None)


class LivePreview:
    """The preview of one running turn."""

    def __init__(
        self,
        turn: TurnLog,
        emit: Emit,
        inbound: Inbound,
        channel: Channel,
        clock: Clock,
        items: TurnItems,
        prepare: PreparePreview,
    ) -> None:
        self._turn = turn
        self._emit = emit
        self._channel = channel
        self._clock = clock
        self._items = items
        self._prepare = prepare
        self._every = DIRECT_SECONDS if inbound.chat_type == "direct" else GROUP_SECONDS
        self._notes: list[str] = []
        self._words = self._status = self._shown = ""
        self._item: OutboxItem | None = turn.preview
        self._task: asyncio.Task[None] | None = None
        self._ended = self._is_editing = False
        self._failures = 0
        self._due = 0.0
        self.changed_at = clock.monotonic()

    def follow(self, event: Event) -> None:
        """The turn's events, with what passed the gate for previews."""
        self._emit(event)
        if isinstance(event, PreviewUpdated):
            self._words = self._words[: event.at] + event.text
            self._status = ""
            self._change()

    def show_note(self, text: str) -> None:
        """A line above the words, which goes when the answer is complete."""
        self._notes.append(text)
        self._change()

    def show_status(self, text: str) -> None:
        """A line below the words, until there are more of them."""
        self._status = text
        self._change()

    def _change(self) -> None:
        if self._task is not None and self._task.done():
            self._task.result()  # what nobody may swallow
            self._task = None
        if not self._ended and self._task is None:
            self._task = asyncio.create_task(self._show_changes(), name="show a preview")

    def _compose(self) -> str:
        return "\n\n".join(filter(None, ("\n".join(self._notes), self._words.strip(), self._status)))

    async def _show_changes(self) -> None:
        while not self._ended and self._compose() != self._shown:
            await self._clock.sleep(max(0.0, self._due - self._clock.monotonic()))
            text = self._compose()
            try:
                await self._show(text)
            except (SendFailed, SendUnknown) as error:
                self._failures += 1
                self._ended = self._ended or self._item is None or self._failures >= MOST_FAILURES
                wanted = error.retry_after if isinstance(error, SendFailed) else None
                self._due = self._clock.monotonic() + max(self._every, wanted or 0)
            except Exception as error:  # noqa: BLE001  a layer, a store or a channel failed: the end of the turn decides
                log.warning("no more of the answer is shown before its end: %s", describe_error(error))
                self._ended = True
            else:
                self._shown, self._failures = text, 0
                self.changed_at = self._clock.monotonic()
                self._due = self.changed_at + self._every

    async def _show(self, text: str) -> None:
        outbound = await self._prepare(text)
        if outbound is None:
            raise SendRefused("it cannot be shown yet")
        if self._item is None:
            (self._item,) = await self._items.append([outbound], lambda item, _: replace(item, is_preview=True))
            self._note_shown(outbound)
            self._item = await self._items.arrive(self._item)
            return
        if self._item.platform_id is None:  # of a turn that was taken up again
            self._item = await self._items.arrive(self._item)
        if self._item.platform_id is None:
            raise SendRefused("the preview was not shown")
        await self._edit(self._item.platform_id, replace(self._item, outbound=outbound))
        self._note_shown(outbound)

    def _note_shown(self, outbound: Outbound) -> None:
        self._turn.previewed = TextRange(len(self._turn.answers), 0, outbound.text)
        self._turn.shown_preview = outbound

    async def _edit(self, platform_id: str, unit: OutboxItem) -> None:
        if not self._channel.connected:
            raise SendFailed("the channel is not connected")
        self._is_editing = True
        try:
            error = await try_change(self._channel, platform_id, unit)
            if isinstance(error, MarkupRefused) and unit.outbound.rendered is not None:
                plain = replace(unit, outbound=replace(unit.outbound, rendered=None))
                error = await try_change(self._channel, platform_id, plain)
        finally:
            self._is_editing = False
        if error is not None:
            raise error

    def cancel(self) -> None:
        """The turn failed or was stopped: nothing more becomes visible."""
        self._ended = True
        if self._task is not None:
            self._task.cancel()

    async def close(self) -> None:
        """Begin no more. An edit that is on its way is waited for: the answer must not be overtaken by it."""
        self._ended = True
        if self._task is not None:
            if not self._is_editing:
                self._task.cancel()
            await asyncio.wait([self._task])
            if not self._task.cancelled():
                self._task.result()
