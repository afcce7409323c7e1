"""Blocks: parts of an answer that are in the outbox, and on their way, while the model still writes the rest.

A block is one or more whole segments of a preview. Each is committed before the next is made, so that they stand in
the outbox in their order; what no block has shown is planned when the turn ends.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from finclaw.agent.turn_state.turn_log import TurnLog
from finclaw.delivery.preview import Preview
from finclaw.kernel.event import Emit, Event, StepStarted, TextStreamed
from finclaw.kernel.record import TextRange
from finclaw.redaction import hide_known_secrets

SHORTEST: Final = 200
"""Characters. A message for every sentence would be a nuisance."""

SendBlock = Callable[[TextRange], Awaitable[bool]]
"""False: nothing of this turn can be sent any more before its end."""


class BlockDelivery:
    """The blocks of one running turn. Fed with its events, it sends what is complete in a task of its own."""

    def __init__(self, turn: TurnLog, emit: Emit, send: SendBlock) -> None:
        self._turn = turn
        self._emit = emit
        self._send = send
        self._waiting: deque[TextRange] = deque()
        self._task: asyncio.Task[None] | None = None
        self._ended = False
        self._begin_answer()

    def _begin_answer(self) -> None:
        self._answer = len(self._turn.answers)
        self._sent = len(self._turn.sent_text(self._answer))
        self._preview, self._text, self._at = Preview(), "", 0

    def follow(self, event: Event) -> None:
        """The turn's stream of events, which goes on to who else follows it."""
        self._emit(event)
        if isinstance(event, StepStarted):
            self._begin_answer()
        elif isinstance(event, TextStreamed) and not self._ended:
            self._text += event.text
            if self._preview.feed(event.text):
                self._cut(self._at + len(self._text) - self._preview.held)

    def _cut(self, end: int) -> None:
        if end - self._sent < SHORTEST:
            return
        text = hide_known_secrets(self._text[self._sent - self._at : end - self._at])
        self._waiting.append(TextRange(self._answer, self._sent, text))
        self._text, self._at, self._sent = self._text[end - self._at :], end, end
        if self._task is not None and self._task.done():
            self._task.result()
            self._task = None
        if self._task is None:
            self._task = asyncio.create_task(self._send_waiting(), name="send blocks")

    async def _send_waiting(self) -> None:
        while self._waiting and not self._ended:
            if not await self._send(self._waiting.popleft()):
                self._ended = True

    async def close(self) -> None:
        """Begin no more, and wait for the one that may be on its way: the end of the turn comes behind it."""
        self._ended = True
        if self._task is not None:
            await asyncio.wait([self._task])
            if not self._task.cancelled():
                self._task.result()

    def cancel(self) -> None:
        """The turn failed or was stopped: no layer is waited for. What is being committed is committed all the same."""
        self._ended = True
        if self._task is not None:
            self._task.cancel()
