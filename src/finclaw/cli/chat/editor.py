"""Reading a line from a person: with prompt_toolkit where it is installed, else with the standard library's readline.

prompt_toolkit measures Hangul itself, keeps a pasted paragraph in one piece and shows news above the line that is being
typed. readline depends on how Python was built (GNU readline is good, libedit fair); there the line is taken off the
screen, the news is shown, and the line is drawn again below it.
"""

import importlib
import importlib.util
import os
import shutil
import sys
from typing import Any, Final, Protocol

from finclaw.cli.chat.completion import Completer
from finclaw.cli.chat.event_queue import EventQueue
from finclaw.cli.chat.history import History
from finclaw.cli.chat.screen import moves
from finclaw.cli.chat.terminal import glancing, interrupts_raise
from finclaw.cli.terminal_text import room, rows_down

PROMPT = "> "
_GLANCE: Final = 0.25
"""Seconds between two looks for news while readline waits for a key."""


class Editor(Protocol):
    left: str
    """What stood on the line when Ctrl-C was pressed."""

    def read(self) -> str:
        """One entry. Raises EOFError (Ctrl-D on an empty line) or KeyboardInterrupt (Ctrl-C)."""
        ...

    def remember(self, text: str) -> None: ...


class Newsroom(Protocol):
    """What has come while a line is being typed."""

    def has_news(self) -> bool: ...
    def show_news(self) -> None: ...
    def was_interrupted(self) -> bool:
        """Whether Ctrl-C came before the line could hear it; known when the news has been looked at."""
        ...


def make_editor(history: History, events: EventQueue, newsroom: Newsroom, completer: Completer) -> Editor:
    if importlib.util.find_spec("prompt_toolkit"):
        from finclaw.cli.chat.toolkit import ToolkitEditor  # noqa: PLC0415  loads prompt_toolkit

        return ToolkitEditor(history, events, newsroom, completer)
    return ReadlineEditor(history, newsroom, completer)


class ReadlineEditor:
    def __init__(self, history: History, newsroom: Newsroom, completer: Completer) -> None:
        self.left = ""
        self._completer = completer
        self._history = history
        self._newsroom = newsroom
        self._readline = _load_readline()
        if self._readline is not None:
            self._readline.set_auto_history(False)
            for line in history.lines:
                self._readline.add_history(line)
            self._readline.set_completer_delims(" ")
            self._readline.set_completer(self._complete)
            libedit = "libedit" in (self._readline.__doc__ or "")
            self._readline.parse_and_bind("bind ^I rl_complete" if libedit else "tab: complete")

    def _complete(self, typed: str, place: int) -> str | None:
        """The library asks with 0, 1, 2 … until there is no more."""
        found = self._completer.candidates(self._typed)
        return found[place] if place < len(found) else None

    def read(self) -> str:
        try:
            with interrupts_raise(self._see_what_is_left), glancing(_GLANCE, self._glance):
                return input(PROMPT)
        except (KeyboardInterrupt, EOFError):
            sys.stdout.write("\n")
            raise

    def _see_what_is_left(self) -> None:
        """Has to be asked while the line is still being read; afterwards readline has forgotten it."""
        self.left = self._typed

    @property
    def _typed(self) -> str:
        return "" if self._readline is None else str(self._readline.get_line_buffer())

    def _glance(self) -> None:
        """Show news in the middle of typing. A line of several rows is left standing, and drawn once more below."""
        has_news = self._newsroom.has_news()
        if self._newsroom.was_interrupted():
            self._see_what_is_left()
            raise KeyboardInterrupt
        if not has_news:
            return
        line, behind = PROMPT + self._typed, room(self._typed[self._cursor :])
        one_row = moves(sys.stdout, os.environ) and not rows_down(line, shutil.get_terminal_size().columns)
        sys.stdout.write("\r\x1b[J" if one_row else "\n")
        self._newsroom.show_news()
        sys.stdout.write(line + (f"\x1b[{behind}D" if behind and one_row else ""))
        sys.stdout.flush()

    @property
    def _cursor(self) -> int:
        """Where in the line it stands. The interpreter's module does not tell, the library below it does."""
        import ctypes  # noqa: PLC0415  seldom needed, and a chat has to start fast

        try:
            point = ctypes.c_int.in_dll(ctypes.CDLL(str(getattr(self._readline, "__file__"))), "rl_point")  # noqa: B009
        except (AttributeError, OSError, ValueError):  # no readline, or built into the interpreter
            return len(self._typed)
        return len(os.fsdecode(os.fsencode(self._typed)[: point.value]))

    def remember(self, text: str) -> None:
        if self._history.add(text) and self._readline is not None:
            self._readline.add_history(text)


def _load_readline() -> Any | None:
    """Importing it is what makes `input` edit; some builds of Python lack it."""
    try:
        return importlib.import_module("readline")
    except ImportError:
        return None
