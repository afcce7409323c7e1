"""The order of the parts of one reply: tool notes, then blocks, then the final.

A sequencer is reserved until it is marked complete, so that nobody takes the pause between two sends for the end.
"""

import asyncio
import logging
import random
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any, Final, Literal, TypeVar

from finclaw.kernel.port import Clock

log = logging.getLogger(__name__)


R = TypeVar("R")
PartKind = Literal["tool", "block", "final"]
OnError = Callable[[Exception, PartKind], None]
SendPart = Callable[[], Awaitable[bool]]
"""False: it waits for the final, and so does everything behind it."""
Pause = tuple[int, int]
"""The shortest and the longest pause before a block, in milliseconds."""

_PHASES: Final[dict[PartKind, int]] = {"tool": 0, "block": 1, "final": 2}
MOST_WAITING: Final = 100
"""Parts. What does not find room waits for the final."""
SEND_SECONDS: Final = 30.0
"""For one part, with the layers before it and the platform behind it."""


def log_error(error: Exception, kind: PartKind) -> None:
    log.warning("a %s was not sent: %s", {"tool": "tool note", "block": "block", "final": "final"}[kind], error)


class ReplySequencer:
    """The sender of the parts of one reply, in their order. Each part is a function that sends it."""

    def __init__(self, clock: Clock, *, pause: Pause | None = None, on_error: OnError = log_error) -> None:
        self._clock = clock
        self._pause = pause
        self._on_error = on_error
        self._phase = 0
        self._waiting: deque[tuple[PartKind, SendPart]] = deque()
        self._task: asyncio.Task[None] | None = None
        self._blocks = 0
        self._spoiled = self._complete = self._is_pausing = False
        self._changed = asyncio.Event()

    def send_tool_note(self, send: SendPart) -> bool:
        """False: it is dropped, because a block or the final came before it."""
        return self._add("tool", send)

    def send_block(self, send: SendPart) -> bool:
        """False: its text belongs into the final."""
        return self._add("block", send)

    async def send_final(self, send: Callable[[], Awaitable[R]]) -> R:
        """Send the end of the reply behind what is under way. What was not begun by then is part of it, or dropped."""
        if self._phase == _PHASES["final"]:
            log.info("the reply was ended before; this end comes behind it")
        self._phase = _PHASES["final"]
        await self.settle()
        try:
            return await send()
        except Exception as error:
            self._report(error, "final")
            raise

    def mark_complete(self) -> None:
        """The turn has said everything. Idempotent."""
        self._complete = True
        self._pulse()

    def cancel(self) -> None:
        """Send nothing more that is waiting or under way; only the final may follow."""
        self._phase = max(self._phase, _PHASES["final"] - 1)
        self._spoiled = True
        self._waiting.clear()
        if self._task is not None:
            self._task.cancel()

    async def settle(self) -> None:
        """Wait for what was begun, and begin nothing more but the final."""
        self._spoiled = True
        self._waiting.clear()
        task = self._task
        if task is not None:
            if self._is_pausing:
                task.cancel()
            await asyncio.wait([task])
            self._task = None
            if not task.cancelled():
                task.result()

    @property
    def is_idle(self) -> bool:
        return self._complete and not self._waiting and (self._task is None or self._task.done())

    async def wait_for_idle(self) -> None:
        """Wait until nothing is pending and the turn is complete, however often there was nothing to do before."""
        while not self.is_idle:
            await self._changed.wait()

    # ── inside ──────────────────────────────────────────────────────────────────────────────────────────────

    def _add(self, kind: PartKind, send: SendPart) -> bool:
        phase = _PHASES[kind]
        if self._complete or phase < self._phase or self._phase == _PHASES["final"]:
            log.info("a %s came too late and is dropped", "tool note" if kind == "tool" else kind)
            return False
        if kind == "block" and self._spoiled:
            return False
        if len(self._waiting) >= MOST_WAITING:
            self._spoiled = self._spoiled or kind == "block"
            return False
        self._phase = phase
        self._waiting.append((kind, send))
        if self._task is not None and self._task.done() and not self._task.cancelled():
            self._task.result()  # what no part may swallow
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._send_waiting(), name="send a reply")
            self._task.add_done_callback(lambda _: self._pulse())
        return True

    async def _send_waiting(self) -> None:
        while self._waiting:
            kind, send = self._waiting.popleft()
            if kind == "block" and self._blocks and self._pause is not None:
                low, high = self._pause
                self._is_pausing = True
                await self._clock.sleep(random.uniform(low, high) / 1000)
                self._is_pausing = False
            if kind == "block" and self._spoiled:
                continue
            self._blocks += kind == "block"
            if not await self._send(kind, send) and kind == "block":
                self._spoiled = True

    async def _send(self, kind: PartKind, send: SendPart) -> bool:
        try:
            async with asyncio.timeout(SEND_SECONDS):
                return await send()
        except Exception as error:  # noqa: BLE001  layers, stores and channels fail; the parts behind go on
            self._report(error, kind)
            return False

    def _report(self, error: Exception, kind: PartKind) -> None:
        try:
            self._on_error(error, kind)
        except Exception:  # whoever listens must not break the chain
            log.exception("the listener for failed sends failed itself")

    def _pulse(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


@asynccontextmanager
async def sequence_reply(
    clock: Clock,
    *,
    sequencer: ReplySequencer | None = None,
    typing: AbstractAsyncContextManager[Any] | None = None,
    pause: Pause | None = None,
) -> AsyncGenerator[ReplySequencer]:
    """Open a sequencer for the parts of one reply.

    One that is given stays reserved: whoever made it marks it complete. A fresh one is awaited until it is idle, and a
    `typing` sign is shown until then. After an error nothing more is sent.
    """
    if sequencer is not None:
        yield sequencer
        return
    async with typing or nullcontext():
        fresh = ReplySequencer(clock, pause=pause)
        try:
            yield fresh
        except BaseException:
            fresh.cancel()
            raise
        finally:
            fresh.mark_complete()
            await fresh.wait_for_idle()
