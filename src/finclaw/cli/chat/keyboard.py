"""The keyboard without prompt_toolkit, which is `input` with readline, and the history of typed lines."""

import importlib
import json
import os
import signal
import sys
import termios
from collections.abc import Generator
from contextlib import contextmanager, suppress
from io import BufferedWriter
from pathlib import Path
from types import FrameType
from typing import Any, Final, cast

from finclaw.cli.chat.commands import Completer, is_leaving
from finclaw.cli.chat.event_queue import EventQueue, Interrupted, TypedLine

PROMPT: Final = "> "
HISTORY_FILE: Final = "chat_history"
KEPT: Final = 1_000
_LOCAL_MODES: Final = 3
"""Index of the local modes in what `tcgetattr` returns."""
_NOTICED_WITHIN: Final = 0.2


class LineHistory:
    """A history of lines in the state directory, a JSON string each, so a pasted paragraph is one entry.

    It never fails: what cannot be read or written is not remembered.
    """

    def __init__(self, state: Path) -> None:
        self._path = state / HISTORY_FILE
        self.lines = self._load()
        if len(self.lines) > 2 * KEPT:
            self.lines = self.lines[-KEPT:]
            with suppress(OSError), self._open(os.O_TRUNC) as file:
                file.writelines(map(_encode, self.lines))

    def add(self, text: str) -> bool:
        """Return False for a line that is not kept: the last one again, or one that leaves."""
        if self.lines[-1:] == [text] or is_leaving(text):
            return False
        self.lines.append(text)
        with suppress(OSError), self._open(os.O_APPEND) as file:
            file.write(_encode(text))
        return True

    def _load(self) -> list[str]:
        lines: list[str] = []
        with suppress(OSError):
            for line in self._path.read_bytes().splitlines():
                with suppress(ValueError):  # cut short by a full disk, or edited
                    entry = cast("object", json.loads(line))
                    if isinstance(entry, str):
                        lines.append(entry)
        return lines

    def _open(self, how: int) -> BufferedWriter:
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | how
        return open(os.open(self._path, flags, 0o600), "wb")


def _encode(text: str) -> bytes:
    return json.dumps(text).encode() + b"\n"


@contextmanager
def interrupts_to(events: EventQueue) -> Generator[None]:
    """Inside, Ctrl-C raises nothing: an exception at a random instant could lose an event that was just taken out."""

    def handle_interrupt(_: int, __: FrameType | None) -> None:
        events.put(Interrupted())

    before = signal.signal(signal.SIGINT, handle_interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def echoing_keys(*, on: bool) -> Generator[None]:
    """Set whether the terminal shows keys as they are typed. Keys that it does not show wait for the next prompt."""
    try:
        before: list[Any] = termios.tcgetattr(sys.stdin)
    except (termios.error, OSError, ValueError):
        yield
        return
    modes = list(before)
    modes[_LOCAL_MODES] &= ~(termios.ECHO | termios.ICANON)
    if on:
        modes[_LOCAL_MODES] |= termios.ECHO | termios.ICANON
    termios.tcsetattr(sys.stdin, termios.TCSADRAIN, modes)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


@contextmanager
def noticed_signals() -> Generator[None]:
    """Wake `input` at intervals, because only then does Python look for signals.

    Without it a Ctrl-C between the drawing of the prompt and the wait for a key is noticed with the next key.
    """
    before = signal.signal(signal.SIGALRM, lambda _, __: None)
    signal.setitimer(signal.ITIMER_REAL, _NOTICED_WITHIN, _NOTICED_WITHIN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class PlainKeyboard:
    """A reader of lines with `input`. Its editing depends on how Python was built: GNU readline, libedit or none."""

    def __init__(self, history: LineHistory, events: EventQueue, completer: Completer) -> None:
        self._events = events
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

    def read_line(self) -> None:
        """Put what the person does into the queue: a line, the wish to leave, or Ctrl-C on an empty line."""
        before = signal.signal(signal.SIGINT, self._handle_interrupt)
        try:
            with echoing_keys(on=True), noticed_signals():
                text = input(PROMPT)
        except KeyboardInterrupt:
            sys.stdout.write("\n")
        except EOFError:
            sys.stdout.write("\n")
            self._events.put(TypedLine("/quit"))
        except UnicodeDecodeError as error:
            self._events.put(TypedLine(error.object.decode(errors="surrogateescape")))
        else:
            if text.strip() and self._history.add(text) and self._readline is not None:
                self._readline.add_history(text)
            self._events.put(TypedLine(text))
        finally:
            signal.signal(signal.SIGINT, before)

    def _handle_interrupt(self, _: int, __: FrameType | None) -> None:
        """Ctrl-C takes back what stands on the line, which readline knows only while it is being read."""
        if not self._typed.strip():
            self._events.put(Interrupted())
        raise KeyboardInterrupt

    def _complete(self, _: str, index: int) -> str | None:
        """Return a candidate; readline asks with 0, 1, 2 … until there is none."""
        found = self._completer.candidates(self._typed)
        return found[index] if index < len(found) else None

    @property
    def _typed(self) -> str:
        return "" if self._readline is None else str(self._readline.get_line_buffer())


def _load_readline() -> Any | None:
    """Importing it is what makes `input` edit; some builds of Python lack it."""
    try:
        return importlib.import_module("readline")
    except ImportError:
        return None
