"""The line editor of the chat: prompt_toolkit where it is installed, else `input` with the standard library's readline.

prompt_toolkit measures Hangul itself, keeps a pasted paragraph in one piece and shows news above the line that is being
typed. With `input` news waits until the line is sent.
"""

import importlib
import importlib.util
import sys
from typing import Any, Protocol

from finclaw.cli.chat.completion import Completer
from finclaw.cli.chat.event_queue import EventQueue
from finclaw.cli.chat.history import History
from finclaw.cli.chat.terminal import interrupts_raise

PROMPT = "> "


class Editor(Protocol):
    """A reader of lines from a person at a terminal."""

    left: str
    """What stood on the line when Ctrl-C was pressed."""

    def read(self) -> str:
        """One entry. Raises EOFError (Ctrl-D on an empty line) or KeyboardInterrupt (Ctrl-C)."""
        ...

    def remember(self, text: str) -> None: ...


class NewsSource(Protocol):
    """A source of news that came while a line is being typed."""

    def has_news(self) -> bool: ...
    def show_news(self) -> None: ...
    def was_interrupted(self) -> bool:
        """Whether Ctrl-C came before the editor could receive it; known when the news has been looked at."""
        ...


def make_editor(history: History, events: EventQueue, news: NewsSource, completer: Completer) -> Editor:
    if importlib.util.find_spec("prompt_toolkit"):
        from finclaw.cli.chat.toolkit import ToolkitEditor  # noqa: PLC0415  optional: prompt_toolkit

        return ToolkitEditor(history, events, news, completer)
    return InputEditor(history, completer)


class InputEditor:
    """An editor on `input`. What it can do depends on how Python was built: GNU readline is good, libedit fair."""

    def __init__(self, history: History, completer: Completer) -> None:
        self.left = ""
        self._completer = completer
        self._history = history
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
            with interrupts_raise(self._note_what_is_left):
                return input(PROMPT)
        except (KeyboardInterrupt, EOFError):
            sys.stdout.write("\n")
            raise

    def _note_what_is_left(self) -> None:
        """Has to be asked while the line is still being read; afterwards readline has forgotten it."""
        self.left = self._typed

    @property
    def _typed(self) -> str:
        return "" if self._readline is None else str(self._readline.get_line_buffer())

    def remember(self, text: str) -> None:
        if self._history.add(text) and self._readline is not None:
            self._readline.add_history(text)


def _load_readline() -> Any | None:
    """Importing it is what makes `input` edit; some builds of Python lack it."""
    try:
        return importlib.import_module("readline")
    except ImportError:
        return None
