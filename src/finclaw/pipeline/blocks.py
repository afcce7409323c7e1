"""TODO."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from finclaw.agent.turn_state.turn_log import TurnLog
from finclaw.delivery.visible import SENTENCE_END
from finclaw.kernel.event import Emit, Event, StepStarted, TextStreamed
from finclaw.kernel.port import Clock
from finclaw.kernel.record import TextRange
from finclaw.pipeline.preview import Preview
from finclaw.pipeline.reply_sequencer import ReplySequencer
from finclaw.pipeline.settings import BlockSettings
from finclaw.redaction import hide_known_secrets

_PARAGRAPH: Final = re.compile(r"\n[ \t]{0,20}\n\s*")
_FENCE: Final = re.compile(r"^[ \t]{0,20}```", re.MULTILINE)

SHORTEST_IDLE: Final = 200
"""Characters. A message for every sentence would be a nuisance."""

SendBlock = Callable[[TextRange], Awaitable[bool]]
"""False: nothing of this turn can be sent any more before its end."""
SendNote = Callable[[str], Awaitable[bool]]


def block_length(waiting: str, sizes: BlockSettings, *, idle: bool = False) -> int:
    """How much of the text makes a block now, 0: none. It ends with a paragraph where there is one, outside of code.

    A text that nobody has added to for a while may be shorter, but not as short as a sentence.
    """
    if not sizes.gather or (idle and SHORTEST_IDLE <= len(waiting) <= sizes.longest):
        return len(waiting)
    if len(waiting) < sizes.shortest:
        return 0
    if paragraph := _last_end(_PARAGRAPH, waiting, sizes.shortest, sizes.longest):
        return paragraph
    if len(waiting) <= sizes.longest:
        return 0  # the paragraph may end within the length of a block
    return (
        _last_end(SENTENCE_END, waiting, sizes.shortest, sizes.longest)
        or _last_end(_PARAGRAPH, waiting, 1, sizes.shortest)
        or len(waiting)
    )


def _last_end(pattern: re.Pattern[str], text: str, first: int, last: int) -> int:
    """The last place in this range where the pattern ends outside of code; 0: there is none."""
    ends = [found.end() for found in pattern.finditer(text, 0, last) if found.end() >= first]
    outside = (end for end in reversed(ends) if len(_FENCE.findall(text[:end])) % 2 == 0)
    return next(outside, 0)


class BlockDelivery:
    """The blocks of one running turn. Fed with its events, it hands what is complete to the sequencer."""

    def __init__(
        self,
        turn: TurnLog,
        emit: Emit,
        sequencer: ReplySequencer,
        send: SendBlock,
        send_note: SendNote,
        sizes: BlockSettings,
        clock: Clock,
    ) -> None:
        self._turn = turn
        self._emit = emit
        self._sequencer = sequencer
        self._send = send
        self._send_note = send_note
        self._sizes = sizes
        self._clock = clock
        self._ended = False
        self._timer: asyncio.Task[None] | None = None
        self._fed_at = clock.monotonic()
        self._preview, self._text = Preview(), ""
        self._at: int = 0
        self._answer: int = 0
        self._sent: int = 0
        self._ready: int = 0
        """Of which answer, and how many of its characters are sent and may be seen; the text begins at `_at`."""
        self._begin_answer()

    def _begin_answer(self) -> None:
        self._answer = len(self._turn.answers)
        self._sent = self._ready = len(self._turn.sent_text(self._answer))
        self._preview, self._text, self._at = Preview(), "", 0

    @property
    def changed_at(self) -> float:
        """When the person last saw something new, or the turn began."""
        return self._fed_at

    def follow(self, event: Event) -> None:
        """The turn's stream of events, which goes on to who else follows it."""
        self._emit(event)
        if isinstance(event, StepStarted):
            self._cut(idle=True)
            self._begin_answer()
        elif isinstance(event, TextStreamed) and not self._ended:
            self._text += event.text
            self._fed_at = self._clock.monotonic()
            if self._preview.feed(event.text):
                self._ready = self._at + len(self._text) - self._preview.held
                self._cut()
                self._watch_for_idle()

    def show_note(self, text: str) -> None:
        self._sequencer.send_tool_note(partial(self._send_note, text))

    show_status = show_note

    def _cut(self, *, idle: bool = False) -> None:
        while not self._ended and self._ready > self._sent:
            waiting = self._text[self._sent - self._at : self._ready - self._at]
            length = block_length(waiting, self._sizes, idle=idle)
            if length == 0:
                return
            span = TextRange(self._answer, self._sent, hide_known_secrets(waiting[:length]))
            if not self._sequencer.send_block(partial(self._send, span)):
                self._ended = True
                return
            self._sent += length
            self._text, self._at = self._text[self._sent - self._at :], self._sent

    def _watch_for_idle(self) -> None:
        if self._ready > self._sent and (self._timer is None or self._timer.done()):
            self._timer = asyncio.create_task(self._cut_when_idle(), name="end an idle block")

    async def _cut_when_idle(self) -> None:
        idle_s = self._sizes.idle_ms / 1000
        while not self._ended and (left := self._fed_at + idle_s - self._clock.monotonic()) > 0:
            await self._clock.sleep(left)
        self._cut(idle=True)

    def cancel(self) -> None:
        self._ended = True

    async def close(self) -> None:
        """Begin no more, and wait for what was begun: the end of the turn comes behind it."""
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()
        await self._sequencer.settle()
