"""The line editor of the chat: prompt_toolkit where it is installed, else `input` with the standard library's readline.

prompt_toolkit measures Hangul itself, keeps a pasted paragraph in one piece and shows news above the line that is being
typed. With `input` news waits until the line is sent.
"""

import contextvars
import importlib
import importlib.util
import json
import os
import signal
import sys
import termios
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from io import BufferedWriter
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol, cast

from finclaw.cli.chat.commands import Completer
from finclaw.cli.chat.event_queue import EventQueue, Interrupted

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

# ── history of typed lines, in the state directory: a JSON string each, so a pasted paragraph is one entry ──────


HISTORY_FILE = "chat_history"
KEPT = 1_000


class LineHistory:
    """A history of lines. It never fails: what cannot be read or written is not remembered."""

    def __init__(self, state: Path) -> None:
        self._path = state / HISTORY_FILE
        self.lines = self._load()
        if len(self.lines) > 2 * KEPT:
            self.lines = self.lines[-KEPT:]
            self._rewrite()

    def add(self, text: str) -> bool:
        """False for a line that is just the last one again."""
        if self.lines and self.lines[-1] == text:
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

    def _rewrite(self) -> None:
        with suppress(OSError), self._open(os.O_TRUNC) as file:
            file.writelines(map(_encode, self.lines))

    def _open(self, how: int) -> BufferedWriter:
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | how
        return open(os.open(self._path, flags, 0o600), "wb")


def _encode(text: str) -> bytes:
    return json.dumps(text).encode() + b"\n"


# ── the keyboard while no line is read: what is typed waits unseen, and Ctrl-C is an event ──────────────────────


_LOCAL = 3
"""Where `tcgetattr` keeps the local modes."""


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
def interrupts_raise(look: Callable[[], None]) -> Generator[None]:
    """Inside, Ctrl-C is a KeyboardInterrupt again, as `input` needs it; `look` is called just before."""

    def handle_interrupt(_: int, __: FrameType | None) -> None:
        look()
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, handle_interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


_NOTICED_WITHIN = 0.2


@contextmanager
def signals_noticed() -> Generator[None]:
    """Inside, a timer wakes `input` now and then, and only then does Python look for signals.

    A Ctrl-C that comes behind the drawing of the prompt and before the wait for a key would be noticed with the next
    key otherwise.
    """
    before = signal.signal(signal.SIGALRM, _do_nothing)
    signal.setitimer(signal.ITIMER_REAL, _NOTICED_WITHIN, _NOTICED_WITHIN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _do_nothing(_: int, __: FrameType | None) -> None:
    pass


@contextmanager
def quiet_keys() -> Generator[None]:
    """Keys neither show between the lines of an answer nor get lost. Ctrl-D, too, keeps its meaning for the prompt."""
    try:
        before: list[Any] = termios.tcgetattr(sys.stdin)
    except (termios.error, OSError, ValueError):
        yield
        return
    quiet = list(before)
    quiet[_LOCAL] &= ~(termios.ECHO | termios.ICANON)
    termios.tcsetattr(sys.stdin, termios.TCSADRAIN, quiet)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


# ── the two editors ─────────────────────────────────────────────────────────────────────────────────────────────


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


def make_editor(history: LineHistory, events: EventQueue, news: NewsSource, completer: Completer) -> Editor:
    if importlib.util.find_spec("prompt_toolkit"):
        return ToolkitEditor(history, events, news, completer)
    return InputEditor(history, completer)


class InputEditor:
    """An editor on `input`. What it can do depends on how Python was built: GNU readline is good, libedit fair."""

    def __init__(self, history: LineHistory, completer: Completer) -> None:
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
            with signals_noticed(), interrupts_raise(self._note_what_is_left):
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


# ── prompt_toolkit: an optional package, so it is loaded by name and used without its types ─────────────────────


class ToolkitEditor:
    """An editor on prompt_toolkit, which shows news above the line that is being typed."""

    def __init__(self, history: LineHistory, events: EventQueue, news: NewsSource, completer: Completer) -> None:
        self.left = ""
        self._history = history
        self._events = events
        self._news = news
        self._toolkit: Any = importlib.import_module("prompt_toolkit")
        self._recall: Any = importlib.import_module("prompt_toolkit.history").InMemoryHistory()
        for line in history.lines:
            self._recall.append_string(line)
        self._session: Any = self._toolkit.PromptSession(
            history=self._recall,
            key_bindings=self._keys(),
            multiline=True,
            prompt_continuation=" " * len(PROMPT),
            reserve_space_for_menu=0,
            enable_suspend=True,
            completer=_toolkit_completer(completer),
            complete_while_typing=False,
        )

    @property
    def app(self) -> Any:
        """prompt_toolkit's application, with its keyboard and its screen."""
        return self._session.app

    def read(self) -> str:
        try:
            return str(self._session.prompt(PROMPT, pre_run=self._listen))
        except KeyboardInterrupt:
            self.left = str(self._session.default_buffer.text)
            raise
        finally:
            self._events.on_news = None

    def remember(self, text: str) -> None:
        # The session keeps by itself what was typed at its prompt, but not what was sent while an answer was awaited.
        if self._history.add(text) and text not in self._recall.get_strings()[-1:]:
            self._recall.append_string(text)

    def _listen(self) -> None:
        """While the prompt stands, news is shown above it, by the thread that draws the prompt."""
        loop: AbstractEventLoop = self._session.app.loop
        here = contextvars.copy_context()

        def tell() -> None:
            loop.call_soon_threadsafe(self._glance, context=here.copy())

        self._events.on_news = tell
        if not self._events.empty:  # came while nobody listened
            tell()

    def _glance(self) -> None:
        has_news, app = self._news.has_news(), self._session.app
        if not app.is_done and self._news.was_interrupted():
            app.exit(exception=KeyboardInterrupt())
        elif has_news:
            self._toolkit.application.run_in_terminal(self._news.show_news)

    def _keys(self) -> Any:
        """Enter sends; Alt-Enter begins a new line, and so does a line break in pasted text."""
        keys: Any = importlib.import_module("prompt_toolkit.key_binding").KeyBindings()
        keys.add("enter")(_send)
        keys.add("escape", "enter")(_new_line)
        return keys


def _toolkit_completer(completer: Completer) -> Any:
    completion: Any = importlib.import_module("prompt_toolkit.completion")

    def get_completions(_: Any, document: Any, __: Any) -> Any:
        line = str(document.text_before_cursor)
        typed = line.rpartition(" ")[2]
        return [completion.Completion(each, start_position=-len(typed)) for each in completer.candidates(line)]

    return type("ChatCompleter", (completion.Completer,), {"get_completions": get_completions})()


def _send(event: Any) -> None:
    event.current_buffer.validate_and_handle()


def _new_line(event: Any) -> None:
    event.current_buffer.insert_text("\n")
