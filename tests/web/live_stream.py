"""A reader of the live stream."""

import asyncio
from collections.abc import AsyncGenerator

from finclaw.kernel.event import (
    MessageAccepted,
)
from finclaw.web.live import LiveEvent


def accepted(
    inbound_id: str, *, account: str = "owner", conversation: str = "main", channel: str = "web"
) -> MessageAccepted:
    return MessageAccepted(inbound_id=inbound_id, ticket=1, channel=channel, account=account, conversation=conversation)


async def take(events: AsyncGenerator[LiveEvent], count: int) -> list[LiveEvent]:
    async with asyncio.timeout(60):
        return [await anext(events) for _ in range(count)]
