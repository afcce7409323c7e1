"""Stage 4: the sender sees that work has begun. Best effort, undone on every exit, and never a reason to fail."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Final

from finclaw.kernel.cancel import asked_to_stop
from finclaw.kernel.envelope import Inbound
from finclaw.kernel.port import Channel

log = logging.getLogger(__name__)

EYES: Final = "👀"
SIGN_SECONDS: Final = 5.0
"""A sign that takes longer is given up; the message does not wait for it."""


class Ack:
    def __init__(self, *, enabled: bool) -> None:
        self._enabled = enabled

    @asynccontextmanager
    async def __call__(
        self, inbound: Inbound, channel: Channel | None, stage: AbstractContextManager[None]
    ) -> AsyncGenerator[None]:
        shown = channel if self._enabled else None
        with stage:
            if shown is not None:
                await _show(shown, inbound, active=True)
        try:
            yield
        finally:
            if shown is not None:
                await _show(shown, inbound, active=False)


async def _show(channel: Channel, inbound: Inbound, *, active: bool) -> None:
    if channel.capabilities.reactions:
        await _try(channel.react(inbound, EYES if active else None))
    if channel.capabilities.typing:
        await _try(channel.typing(inbound, active))


async def _try(sign: Awaitable[None]) -> None:
    try:
        async with asyncio.timeout(SIGN_SECONDS):
            await sign
    except Exception as error:  # noqa: BLE001  a channel is a stranger; a missing permission must not cost the answer
        log.warning("could not show that work has begun: %r", error)
    except asyncio.CancelledError as error:
        if asked_to_stop():
            raise
        log.warning("could not show that work has begun: %r", error)
