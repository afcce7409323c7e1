"""The web as a channel. Its mailbox is our own store: what the outbox holds is what `GET /messages/{id}` shows."""

import asyncio

from finclaw.kernel.envelope import Inbound, Receipt
from finclaw.kernel.port import Accept, Capabilities
from finclaw.kernel.record import Unit
from finclaw.web.principal import CHANNEL


class WebChannel:
    """Messages come in by the API, not by `receive`; a unit has arrived as soon as it is stored, so `send` is done."""

    name = CHANNEL
    capabilities = Capabilities(max_length=100_000, idempotent=True)
    connected = True

    async def receive(self, accept: Accept) -> None:
        await asyncio.Event().wait()

    async def send(self, unit: Unit) -> Receipt:
        return Receipt(unit.id)

    async def react(self, inbound: Inbound, emoji: str | None) -> None: ...
    async def typing(self, inbound: Inbound, active: bool) -> None: ...
    async def close(self) -> None: ...
