"""Outbox items of a turn that still runs: they are appended one after the other, and followed until they arrive."""

import asyncio
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from finclaw.agent.turn_state.turn_log import TurnLog
from finclaw.delivery.outbox import OrderedSender
from finclaw.errors import SendFailed
from finclaw.kernel.envelope import Outbound
from finclaw.kernel.record import Accepted, OutboxItem
from finclaw.kernel.store_port import Outbox


def plan_items(
    store: Outbox,
    sender: OrderedSender,
    accepted: Accepted,
    outbounds: Sequence[Outbound],
    turn_id: str | None,
    first: int,
) -> tuple[OutboxItem, ...]:
    """Items that are to be committed now, numbered from `first` on."""
    units = store.plan(accepted, outbounds, turn_id, first)
    if units and sender.sends_at_once(units[0]):  # then its start needs no commit of its own
        return (replace(units[0], state="sending"), *units[1:])
    return units


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
        units = plan_items(self._store, self._sender, self._accepted, outbounds, turn_id, first)
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


def with_media_apart(parts: tuple[Outbound, ...], *, has_preview: bool) -> tuple[Outbound, ...]:
    """Behind what was shown early, files come by themselves: the text goes first. A preview cannot become a file."""
    apart: list[Outbound] = [] if parts or not has_preview else [Outbound(text="")]
    for part in parts:
        if part.attachments and (part.text or (has_preview and not apart)):
            text = replace(part, attachments=(), actions=(), embeds=())
            apart += (text, replace(part, text="", rendered=None, plain=None, reply_to=None))
        else:
            apart.append(part)
    return tuple(apart)
