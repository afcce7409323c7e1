"""Stage 4, acknowledge: the sender sees that work has begun.

Best effort, undone on every exit, and never a reason to fail.
"""

import asyncio
import logging
from collections.abc import Awaitable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Final

from finclaw.cancellation import asked_to_stop
from finclaw.kernel.envelope import Inbound
from finclaw.kernel.port import Channel

log = logging.getLogger(__name__)

EYES: Final = "👀"
SIGN_SECONDS: Final = 5.0
"""A sign that takes longer is given up; the message does not wait for it."""


class Ack:
    """The stage that shows the sender that work has begun."""

    def __init__(self, *, enabled: bool) -> None:
        self._enabled = enabled

    def __call__(self, inbound: Inbound, channel: Channel | None, stage: AbstractContextManager[None]) -> "Sign":
        return Sign(inbound, channel if self._enabled else None, stage)


class Sign:
    """A sign that work goes on, shown while the block runs.

    A class and not a generator: every message has one, and most show nothing.
    """

    __slots__ = ("_channel", "_inbound", "_stage")

    def __init__(self, inbound: Inbound, channel: Channel | None, stage: AbstractContextManager[None]) -> None:
        self._inbound = inbound
        self._channel = channel
        self._stage = stage

    async def __aenter__(self) -> None:
        with self._stage:
            if self._channel is not None:
                await _show(self._channel, self._inbound, active=True)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._channel is not None:
            await _show(self._channel, self._inbound, active=False)


async def _show(channel: Channel, inbound: Inbound, *, active: bool) -> None:
    if channel.capabilities.reactions and inbound.kind == "message":  # a pressed button cannot have one
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
