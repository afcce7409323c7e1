"""A mailbox channel, whose reader polls: the reply waits in our own store, so it is delivered once it is there."""

import asyncio

from finclaw.kernel.envelope import Capabilities, Receipt
from finclaw.kernel.port import Accept, Channel
from finclaw.kernel.record import OutboxItem


class MailboxChannel(Channel):
    """A channel for the API, the web and programs: messages come in by a call, replies are read by id."""

    capabilities = Capabilities(max_length=100_000, markup="source", idempotent=True)

    def __init__(self, name: str) -> None:
        self.name = name

    async def receive(self, accept: Accept) -> None:
        await asyncio.Event().wait()

    async def send(self, unit: OutboxItem) -> Receipt:
        return Receipt(unit.id)
