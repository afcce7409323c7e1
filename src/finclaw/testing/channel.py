"""An in-memory channel: the test writes to it and reads what came back.

Everything a platform can do wrong is a switch: failing sends, sends that arrive and fail all the same, sends
that hang, a lost connection, reactions that raise.
"""

import asyncio
from collections import deque
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from finclaw.errors import ChannelError, SendFailed, SendRefused, SendUnknown
from finclaw.kernel.envelope import Inbound, Receipt, Sender
from finclaw.kernel.port import Accept, Capabilities, Clock
from finclaw.kernel.record import Accepted, OutboxItem


@dataclass(frozen=True, slots=True)
class Sent:
    """A sent item that a person could read, and when."""

    unit: OutboxItem
    at: datetime
    platform_id: str

    @property
    def text(self) -> str:
        return self.unit.outbound.text


@dataclass(frozen=True, slots=True)
class _Trouble:
    error: SendFailed | SendRefused | SendUnknown
    arrives: bool


class MemoryChannel:
    """A Channel in memory. `attempts` holds every unit handed to `send`, `sent` those that became visible."""

    def __init__(self, clock: Clock, *, name: str = "memory", capabilities: Capabilities | None = None) -> None:
        self._clock = clock
        self._name = name
        self._capabilities = capabilities or Capabilities(reactions=True, typing=True)
        self._accept: Accept | None = None
        self._broken: ChannelError | None = None
        self._trouble: deque[_Trouble] = deque()
        self._receipts: dict[str, Receipt] = {}
        self._open = asyncio.Event()
        self._open.set()
        self._changed = asyncio.Event()
        self.connected = True
        self.closed = False
        self.attempts: list[OutboxItem] = []
        self.sent: list[Sent] = []
        self.reactions: list[tuple[str, str | None]] = []
        self.reaction_error: Exception | None = None
        self.typing_log: list[tuple[str, bool]] = []

    # ── the port ────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def name(self) -> str:
        return self._name

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    async def receive(self, accept: Accept) -> None:
        self._accept, self._broken = accept, None
        self._pulse()
        try:
            while self._broken is None:
                await self._change()
            raise self._broken
        finally:
            self._accept = None

    async def send(self, unit: OutboxItem) -> Receipt:
        self.attempts.append(unit)
        self._pulse()
        await self._open.wait()
        trouble = self._trouble.popleft() if self._trouble else None
        if trouble is not None and not trouble.arrives:
            raise trouble.error
        receipt = self._show(unit)
        if trouble is not None:
            raise trouble.error
        return receipt

    async def react(self, inbound: Inbound, emoji: str | None) -> None:
        if self.reaction_error is not None:
            raise self.reaction_error
        self.reactions.append((inbound.message_id, emoji))

    async def typing(self, inbound: Inbound, active: bool) -> None:
        self.typing_log.append((inbound.message_id, active))

    async def close(self) -> None:
        self.closed = True

    # ── what a test does with it ────────────────────────────────────────────────────────────────────────────

    async def deliver(self, inbound: Inbound) -> Accepted:
        """A message arrives. Waits for `receive` to be running; returns once it is accepted."""
        while self._accept is None:
            await self._change()
        return await self._accept(inbound)

    async def write(self, text: str, *, sender: str = "ada", **fields: Any) -> Accepted:
        """A person writes. `fields` are those of Inbound."""
        return await self.deliver(Inbound(text=text, channel=self._name, sender=Sender(sender), **fields))

    def fail_next(
        self, error: SendFailed | SendRefused | SendUnknown, *, times: int = 1, arrives: bool = False
    ) -> None:
        """The next sends raise. With `arrives` the person sees the unit all the same: nobody can know."""
        self._trouble.extend([_Trouble(error, arrives)] * times)

    def hold_sends(self) -> None:
        self._open.clear()

    def release_sends(self) -> None:
        self._open.set()

    def break_off(self, error: ChannelError) -> None:
        """`receive` raises, as when a socket is gone; the app starts it again."""
        self._broken = error
        self._pulse()

    async def until_sent(self, count: int) -> list[Sent]:
        """Wait until so many units are visible."""
        while len(self.sent) < count:
            await self._change()
        return self.sent[:count]

    async def until_tried(self, count: int) -> list[OutboxItem]:
        """Wait until so many sends were begun."""
        while len(self.attempts) < count:
            await self._change()
        return self.attempts[:count]

    # ── inside ──────────────────────────────────────────────────────────────────────────────────────────────

    def _show(self, unit: OutboxItem) -> Receipt:
        if self._capabilities.idempotent and unit.token in self._receipts:
            return self._receipts[unit.token]
        receipt = Receipt(f"{self._name}-{len(self.sent) + 1}")
        self.sent.append(Sent(unit, self._clock.now(), receipt.platform_id))
        self._receipts[unit.token] = receipt
        self._pulse()
        return receipt

    def _pulse(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _change(self) -> None:
        await self._changed.wait()
