"""Reading a line from a person: with prompt_toolkit where it is installed, else with the standard library's readline.

prompt_toolkit measures Hangul itself, keeps a pasted paragraph in one piece and can show late answers above the line
that is being typed. readline depends on how Python was built (GNU readline is good, libedit fair), and late answers
wait for Enter.
"""

import importlib
import importlib.util
import sys
from collections.abc import Callable
from typing import Any, Protocol

from finclaw.cli.chat.feed import Feed
from finclaw.cli.chat.history import History
from finclaw.cli.chat.terminal import interrupts_raise

PROMPT = "> "


class Editor(Protocol):
    left: str
    """What stood on the line when Ctrl-C was pressed."""

    def read(self) -> str:
        """One entry. Raises EOFError (Ctrl-D on an empty line) or KeyboardInterrupt (Ctrl-C)."""
        ...

    def remember(self, text: str) -> None: ...


def make_editor(history: History, feed: Feed, show_news: Callable[[], None]) -> Editor:
    """`show_news` prints what has come while the line is being typed; only called where that is possible."""
    if importlib.util.find_spec("prompt_toolkit"):
        from finclaw.cli.chat.toolkit import ToolkitEditor  # noqa: PLC0415  loads prompt_toolkit

        return ToolkitEditor(history, feed, show_news)
    return ReadlineEditor(history)


class ReadlineEditor:
    def __init__(self, history: History) -> None:
        self.left = ""
        self._history = history
        self._readline = _load_readline()
        if self._readline is not None:
            self._readline.set_auto_history(False)
            for line in history.lines:
                self._readline.add_history(line)

    def read(self) -> str:
        try:
            with interrupts_raise(self._see_what_is_left):
                return input(PROMPT)
        except (KeyboardInterrupt, EOFError):
            sys.stdout.write("\n")
            raise

    def _see_what_is_left(self) -> None:
        """Has to be asked while the line is still being read; afterwards readline has forgotten it."""
        self.left = "" if self._readline is None else str(self._readline.get_line_buffer())

    def remember(self, text: str) -> None:
        if self._history.add(text) and self._readline is not None:
            self._readline.add_history(text)


def _load_readline() -> Any | None:
    """Importing it is what makes `input` edit; some builds of Python lack it."""
    try:
        return importlib.import_module("readline")
    except ImportError:
        return None
