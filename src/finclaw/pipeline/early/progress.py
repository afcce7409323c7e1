"""The progress of a running turn in plain words: which tool is used, and that work goes on when it takes long."""

import asyncio
from typing import Protocol

from finclaw.delivery.notice import progress_line, tool_note
from finclaw.kernel.envelope import Inbound
from finclaw.kernel.event import Emit, Event, ToolEndedEvent, ToolStartedEvent
from finclaw.kernel.port import Clock
from finclaw.text import Language


class EarlyView(Protocol):
    """Whatever shows a person something before the turn ends."""

    @property
    def changed_at(self) -> float: ...  # when they last saw something new, or the turn began
    def show_note(self, text: str) -> None: ...
    def show_status(self, text: str) -> None: ...


class Progress:
    """The notes on one turn: one for each tool where they are wanted, and one line when nothing was seen for long."""

    def __init__(
        self, view: EarlyView, emit: Emit, inbound: Inbound, clock: Clock, seconds: float, *, tool_notes: bool
    ) -> None:
        self._view = view
        self._emit = emit
        self._language: Language = inbound.reply_language
        self._clock = clock
        self._wants_notes = tool_notes
        self._tools: dict[str, str] = {}
        self._timer = asyncio.create_task(self._tell_after(seconds), name="still working") if seconds else None

    def follow(self, event: Event) -> None:
        self._emit(event)
        if isinstance(event, ToolStartedEvent):
            self._tools[event.call_id] = event.tool
            if self._wants_notes:
                self._view.show_note(tool_note(event.tool, self._language))
        elif isinstance(event, ToolEndedEvent):
            self._tools.pop(event.call_id, None)

    async def _tell_after(self, seconds: float) -> None:
        while (left := self._view.changed_at + seconds - self._clock.monotonic()) > 0:
            await self._clock.sleep(left)
        running = next(reversed(self._tools.values()), "")
        self._view.show_status(progress_line(running, self._language))

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
