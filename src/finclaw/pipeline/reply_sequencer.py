"""The parts of one reply in their order: tool notes, then blocks, then the final; and previews of the answer.

A sequencer is reserved until it is marked complete, so that nobody takes the pause between two sends for the end.
A block is a part of an answer that is sent while the model still writes the rest.

A preview of an answer has whole sentences, list items, lines or fences: what the gate would take away must not flash up
first.
"""

import asyncio
import logging
import random
import re
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial
from typing import Any, Final, Literal, TypeVar

from finclaw.agent.turn_state.turn_log import TurnLog
from finclaw.delivery.visible import SENTENCE_END, Check, clean_words, find_objection
from finclaw.kernel.event import Emit, Event, PreviewUpdated, StepStarted, TextStreamed
from finclaw.kernel.port import Clock
from finclaw.kernel.record import TextRange
from finclaw.kernel.scope import Draft, DraftKind
from finclaw.pipeline.settings import BlockSettings
from finclaw.redaction import hide_known_secrets
from finclaw.tools.control_tokens import ControlTokenStream

log = logging.getLogger(__name__)

R = TypeVar("R")
PartKind = Literal["tool", "block", "final"]
SendPart = Callable[[], Awaitable[bool]]
"""False: it waits for the final, and so does everything behind it."""
Pause = tuple[int, int]  # the shortest and the longest pause before a block, in milliseconds
_PHASES: Final[dict[PartKind, int]] = {"tool": 0, "block": 1, "final": 2}
MOST_WAITING: Final = 100  # parts; what does not find room waits for the final
SEND_SECONDS: Final = 30.0
"""For one part, with the layers before it and the platform behind it."""
_PARAGRAPH: Final = re.compile(r"\n[ \t]{0,20}\n\s*")
_FENCE: Final = re.compile(r"^[ \t]{0,20}```", re.MULTILINE)
SHORTEST_IDLE: Final = 200  # characters; a message for every sentence would be a nuisance
SendBlock = Callable[[TextRange], Awaitable[bool]]
"""False: nothing of this turn can be sent any more before its end."""
SendNote = Callable[[str], Awaitable[bool]]
_NAMES: Final[dict[PartKind, str]] = {"tool": "tool note", "block": "block", "final": "final"}


class ReplySequencer:
    """The sender of the parts of one reply, in their order. Each part is a function that sends it."""

    def __init__(self, clock: Clock, *, pause: Pause | None = None) -> None:
        self._clock = clock
        self._pause = pause
        self._phase = 0
        self._waiting: deque[tuple[PartKind, SendPart]] = deque()
        self._task: asyncio.Task[None] | None = None
        self._blocks = 0
        self._spoiled = False  # blocks are no longer sent: their text belongs to the final
        self._complete = False
        self._is_pausing = False
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
            log.warning("a final was not sent: %s", error)
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

    def _add(self, kind: PartKind, send: SendPart) -> bool:
        phase = _PHASES[kind]
        if self._complete or phase < self._phase or self._phase == _PHASES["final"]:
            log.info("a %s came too late and is dropped", _NAMES[kind])
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
            log.warning("a %s was not sent: %s", _NAMES[kind], error)
            return False

    def _pulse(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


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


def block_length(waiting: str, sizes: BlockSettings, *, idle: bool = False) -> int:
    """Return the length of the next block, 0 if it is incomplete. An idle text may make a shorter one."""
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
    """Return the last place in this range where the pattern ends outside of code; 0: there is none."""
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
        self.changed_at = clock.monotonic()
        """When the person last saw something new, or the turn began."""
        self._begin_answer()

    def _begin_answer(self) -> None:
        self._answer = len(self._turn.answers)
        self._sent: int = len(self._turn.sent_text(self._answer))
        """How many of its characters are sent."""
        self._ready: int = self._sent  # how many of its characters may be seen by now
        self._preview = Preview()
        self._text = ""  # the answer from the character `_at` on
        self._at: int = 0

    def follow(self, event: Event) -> None:
        self._emit(event)
        if isinstance(event, StepStarted):
            self._cut(idle=True)
            self._begin_answer()
        elif isinstance(event, TextStreamed) and not self._ended:
            self._text += event.text
            self.changed_at = self._clock.monotonic()
            if self._preview.feed(event.text):
                self._ready = self._at + len(self._text) - self._preview.held
                self._cut()
                if self._ready > self._sent and (self._timer is None or self._timer.done()):
                    self._timer = asyncio.create_task(self._cut_when_idle(), name="end an idle block")

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
            self._text = self._text[self._sent - self._at :]
            self._at = self._sent

    async def _cut_when_idle(self) -> None:
        idle_s = self._sizes.idle_ms / 1000
        while not self._ended and self._clock.monotonic() < self.changed_at + idle_s:
            await self._clock.sleep(self.changed_at + idle_s - self._clock.monotonic())
        self._cut(idle=True)

    def cancel(self) -> None:
        self._ended = True

    async def close(self) -> None:
        """Begin no more, and wait for what was begun: the end of the turn comes behind it."""
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()
        await self._sequencer.settle()


# Each of these ends within a bounded number of characters, so that a piece of text is searched once and not again with
# every piece that follows it.
_LAST_SEGMENT: Final = re.compile(rf"""(?s:.*)(?:{SENTENCE_END.pattern})""")
_FENCE_START: Final = re.compile(r"[ \t]{0,100}```")
_FENCE_END: Final = re.compile(r"\n[ \t]{0,100}```[ \t]{0,100}\n")
_LOOK_BACK: Final = 210
"""Characters before a new piece in which the end of a segment or fence may have begun."""


class Preview:
    """A preview. Feed it the model's words; it gives back those that may be seen by now, each once and in order."""

    def __init__(self) -> None:
        self._pieces: list[str] = []  # what is held, because its segment is not complete
        self._tail = ""
        self._in_fence = False
        self._at_line_start = True
        self._segments = ControlTokenStream()

    @property
    def held(self) -> int:
        """Characters at the end of what it was fed that wait for the end of their segment, or for words behind them."""
        return sum(map(len, self._pieces)) + self._segments.held

    def feed(self, text: str) -> str:
        self._pieces.append(text)
        window = self._tail + text
        self._tail = window[-_LOOK_BACK:]
        if (_FENCE_END if self._in_fence else SENTENCE_END).search(window) is None:
            return ""
        held = "".join(self._pieces)
        if "`" not in held and "<<" not in held:
            shown, rest = self._feed_plain(held)
        else:
            shown, rest = self._feed_segments(held)
        self._pieces = [rest]
        self._tail = rest[-_LOOK_BACK:]
        return shown

    def _feed_plain(self, held: str) -> tuple[str, str]:
        """Neither a fence nor a token can be in it: then all up to the end of its last segment may be seen."""
        found = _LAST_SEGMENT.match(held)
        if found is None:
            return "", held
        segments = found[0]
        self._at_line_start = segments.endswith("\n")
        return self._segments.feed(segments), held[found.end() :]

    def _feed_segments(self, held: str) -> tuple[str, str]:
        pieces: list[str] = []
        start = 0
        while (end := self._segment_end(held, start)) is not None:
            segment = held[start:end]
            start = end
            self._at_line_start = segment.endswith("\n")
            pieces.append(self._segments.feed(segment))
        return "".join(pieces), held[start:]

    def _segment_end(self, held: str, start: int) -> int | None:
        """Where the segment that begins here ends; None while it is incomplete."""
        fenced = self._at_line_start and _FENCE_START.match(held, start) is not None
        found = (_FENCE_END if fenced else SENTENCE_END).search(held, start)
        self._in_fence = fenced and found is None
        return None if found is None else found.end()


class PreviewEvents:
    """A stream of events with previews of the answer, which end once a check objects to what would be seen."""

    __slots__ = ("_checks", "_emit", "_is_withheld", "_make_draft", "_make_safe", "_preview", "_shown")

    def __init__(
        self,
        emit: Emit,
        checks: Sequence[Check] = (),
        make_safe: Callable[[str], str] = str,
        make_draft: Callable[[DraftKind, str], Draft] = lambda kind, text: Draft(text, kind),
    ) -> None:
        self._emit = emit
        self._checks = checks
        self._make_safe = make_safe
        self._make_draft = make_draft
        self._start_answer()

    def _start_answer(self) -> None:
        self._preview: Preview | None = None  # made with the first text: a turn that waits for its model holds none
        self._shown = ""
        self._is_withheld = False

    def emit(self, event: Event) -> None:
        self._emit(event)
        if isinstance(event, StepStarted):  # each model call writes its answer anew
            self._start_answer()
        elif isinstance(event, TextStreamed) and not self._is_withheld:
            self._preview = self._preview or Preview()
            seen = self._preview.feed(event.text)
            if seen and (seen := self._make_safe(clean_words(seen))):
                self._show(seen, event)

    def _show(self, seen: str, event: TextStreamed) -> None:
        if self._checks:
            draft = self._make_draft("preview", self._shown + seen)
            self._is_withheld = find_objection(self._checks, draft) is not None
        if not self._is_withheld:
            self._emit(
                PreviewUpdated(
                    at=len(self._shown),
                    text=seen,
                    agent=event.agent,
                    session=event.session,
                    inbound_id=event.inbound_id,
                    turn_id=event.turn_id,
                )
            )
            self._shown += seen
