"""Stage 4, acknowledge: the sender sees that work has begun.

Best effort, ended on every exit, and never a reason to fail.
"""

import asyncio
import logging
from collections.abc import Awaitable
from contextlib import AbstractContextManager
from typing import Final

from finclaw.cancellation import asked_to_stop
from finclaw.errors import TurnStopped
from finclaw.kernel.envelope import Inbound
from finclaw.kernel.port import Channel, Clock
from finclaw.pipeline.message_run import MessageRun
from finclaw.pipeline.settings import AckSettings
from finclaw.pipeline.stage import Halt

log = logging.getLogger(__name__)

EYES: Final = "👀"
TYPING_EVERY: Final = 5.0
TYPING_TTL: Final = 120.0
"""Seconds after which nobody is typing any more, however long the turn takes."""
SIGN_SECONDS: Final = 5.0
"""A sign that takes longer is given up; the message does not wait for it."""


class Ack:
    def __init__(self, settings: AckSettings, clock: Clock, *, enabled: bool) -> None:
        self._settings = settings
        self._clock = clock
        self._enabled = enabled

    def __call__(self, run: MessageRun, channel: Channel | None, stage: AbstractContextManager[None]) -> "Sign":
        shown = channel if self._enabled and self._is_wanted(run.inbound) else None
        return Sign(run, shown, stage, self._settings, self._clock)

    async def show_refusal(self, inbound: Inbound, channel: Channel | None) -> None:
        if channel is not None and self._enabled and self._is_wanted(inbound) and self._settings.failed:
            await _react(channel, inbound, self._settings.failed)

    def _is_wanted(self, inbound: Inbound) -> bool:
        match self._settings.scope:
            case "all":
                return True
            case "direct":
                return inbound.chat_type == "direct"
            case "group-mentions":
                return inbound.chat_type != "direct" and inbound.mentions_us
            case "off":
                return False


class Sign:
    """A sign that work goes on, shown while the block runs: a reaction, which then tells how it ended, and typing.

    A class and not a generator: every message has one, and most show nothing.
    """

    __slots__ = ("_channel", "_clock", "_inbound", "_run", "_settings", "_stage", "_typing")

    def __init__(
        self,
        run: MessageRun,
        channel: Channel | None,
        stage: AbstractContextManager[None],
        settings: AckSettings,
        clock: Clock,
    ) -> None:
        self._run = run
        self._inbound = run.inbound
        self._channel = channel
        self._stage = stage
        self._settings = settings
        self._clock = clock
        self._typing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> None:
        with self._stage:
            if self._channel is not None:
                await _react(self._channel, self._inbound, EYES)
                if self._channel.capabilities.typing:
                    await _try(self._channel.typing(self._inbound, True))
                    self._typing = asyncio.create_task(self._keep_typing(self._channel), name="typing")

    async def __aexit__(self, _: object, error: BaseException | None, trace: object) -> None:
        if self._channel is None:
            return
        if self._typing is not None:
            self._typing.cancel()
            await asyncio.wait([self._typing])
        await _react(self._channel, self._inbound, self._last_emoji(error))
        if self._channel.capabilities.typing:
            await _try(self._channel.typing(self._inbound, False))

    def _last_emoji(self, error: BaseException | None) -> str:
        """Whoever was stopped or not meant to be answered sees no judgement."""
        if isinstance(error, Exception) and not isinstance(error, Halt | TurnStopped):
            return self._settings.failed
        recorded = self._run.recorded
        is_answered = recorded is not None and recorded.kind in ("answered", "joined")
        return self._settings.done if is_answered else ""

    async def _keep_typing(self, channel: Channel) -> None:
        """Platforms forget the sign after some seconds. A turn that never ends does not type for ever."""
        for _ in range(int(TYPING_TTL / TYPING_EVERY) - 1):
            await self._clock.sleep(TYPING_EVERY)
            await _try(channel.typing(self._inbound, True))
        await self._clock.sleep(TYPING_EVERY)
        await _try(channel.typing(self._inbound, False))


async def _react(channel: Channel, inbound: Inbound, emoji: str) -> None:
    """Set our one reaction; an empty one takes it back. A channel knows which emoji its platform has."""
    if channel.capabilities.reactions and inbound.kind == "message":  # a pressed button cannot have one
        await _try(channel.react(inbound, emoji or None))


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
