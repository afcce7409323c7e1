"""The line editor on prompt_toolkit. It is an optional package, so it is loaded by name and met without its types."""

import contextvars
import importlib
from asyncio import AbstractEventLoop
from typing import Any

from finclaw.cli.chat.completion import Completer
from finclaw.cli.chat.editor import PROMPT, NewsSource
from finclaw.cli.chat.event_queue import EventQueue
from finclaw.cli.chat.history import History


class ToolkitEditor:
    """An editor on prompt_toolkit, which shows news above the line that is being typed."""

    def __init__(self, history: History, events: EventQueue, news: NewsSource, completer: Completer) -> None:
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

    def read(self) -> str:
        try:
            return str(self._session.prompt(PROMPT, pre_run=self._listen))
        except KeyboardInterrupt:
            self.left = str(self._session.default_buffer.text)
            raise
        finally:
            self._events.on_news = None

    def remember(self, text: str) -> None:
        # The session keeps what was typed by itself; here it only has to outlive the chat.
        self._history.add(text)

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
