"""The terminal with the optional prompt_toolkit: lines are typed at the bottom, and everything is shown above them."""

import asyncio
from collections.abc import Callable, Iterable
from typing import TextIO

from prompt_toolkit import PromptSession
from prompt_toolkit.application import in_terminal
from prompt_toolkit.completion import CompleteEvent, Completion
from prompt_toolkit.completion import Completer as ToolkitCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.history import History
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.patch_stdout import patch_stdout

from finclaw.cli.chat.commands import Completer
from finclaw.cli.chat.event_queue import EventQueue, Interrupted, TypedLine
from finclaw.cli.chat.keyboard import PROMPT, LineHistory
from finclaw.cli.chat.screen import Screen

_ESC_ALONE = 0.1
"""Seconds in which the rest of a key comes that begins with the character of Esc, also through a slow line."""


class ToolkitTerminal(Screen):
    """A screen with a line below it that is typed. The screen is drawn from another thread than the line."""

    def __init__(self, out: TextIO, events: EventQueue, history: LineHistory, completer: Completer) -> None:
        super().__init__(out)
        self._events = events
        self._loop: asyncio.AbstractEventLoop | None = None
        self._session = PromptSession[str](
            self._message,
            history=_ToolkitHistory(history),
            key_bindings=self._keys(),
            multiline=True,
            prompt_continuation=" " * len(PROMPT),
            reserve_space_for_menu=0,
            enable_suspend=True,
            completer=_ToolkitCompleter(completer),
            complete_while_typing=False,
            erase_when_done=True,
        )
        self._session.app.timeoutlen = self._session.app.ttimeoutlen = _ESC_ALONE

    def run(self, talk: Callable[[], None]) -> None:
        """Read lines into the queue as long as `talk` runs, which is called in a thread."""
        with patch_stdout(raw=True):
            asyncio.run(self._run(talk))

    async def _run(self, talk: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        talking = asyncio.create_task(asyncio.to_thread(talk))
        prompting = asyncio.create_task(self._session.prompt_async())
        await asyncio.wait((talking, prompting), return_when=asyncio.FIRST_COMPLETED)
        prompting.cancel()
        self._events.put(TypedLine("/quit"))  # if the terminal is gone
        await asyncio.gather(talking, prompting, return_exceptions=True)
        self._loop = None
        talking.result()

    def _message(self) -> ANSI:
        return ANSI(f"{self._live}\n{PROMPT}" if self._live else PROMPT)

    def _show(self, printed: str, live: str) -> None:
        if not printed:
            self._live = live
            self._session.app.invalidate()
        elif self._loop is None:
            self._print_raw(printed, live)
        else:
            asyncio.run_coroutine_threadsafe(self._print_above(printed, live), self._loop).result()

    async def _print_above(self, printed: str, live: str) -> None:
        async with in_terminal():
            self._print_raw(printed, live)

    def _print_raw(self, printed: str, live: str) -> None:
        self._live = live
        self._out.write(printed)
        self._out.flush()

    # ── keys ────────────────────────────────────────────────────────────────────────────────────────────────

    def _keys(self) -> KeyBindings:
        """Enter sends; Alt-Enter begins a new line, and so does a line break in pasted text."""
        keys = KeyBindings()
        keys.add("enter")(self._send)
        keys.add("escape", "enter")(_begin_line)
        keys.add("escape")(self._stop)
        keys.add("c-c")(self._interrupt)
        keys.add("<sigint>")(self._interrupt)
        keys.add("c-d", filter=Condition(lambda: not self._session.default_buffer.text))(self._leave)
        return keys

    def _send(self, event: KeyPressEvent) -> None:
        text = event.current_buffer.text
        event.current_buffer.reset(append_to_history=bool(text.strip()))
        self._events.put(TypedLine(text))

    def _stop(self, _: KeyPressEvent) -> None:
        self._events.put(Interrupted(leaves=False))

    def _interrupt(self, event: KeyPressEvent) -> None:
        """Stop an answer, else take back what stands on the line, else leave."""
        if event.current_buffer.text.strip() and not self._live:
            event.current_buffer.reset()
        else:
            self._events.put(Interrupted())

    def _leave(self, _: KeyPressEvent) -> None:
        self._events.put(TypedLine("/quit"))


def _begin_line(event: KeyPressEvent) -> None:
    event.current_buffer.insert_text("\n")


class _ToolkitHistory(History):
    def __init__(self, history: LineHistory) -> None:
        super().__init__()
        self._history = history

    def load_history_strings(self) -> Iterable[str]:
        return reversed(self._history.lines)

    def store_string(self, string: str) -> None:
        self._history.add(string)


class _ToolkitCompleter(ToolkitCompleter):
    def __init__(self, completer: Completer) -> None:
        self._completer = completer

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        line = document.text_before_cursor
        typed = line.rpartition(" ")[2]
        return [Completion(text, start_position=-len(typed)) for text in self._completer.candidates(line)]
