"""A reader of the keyboard while an answer is awaited: Esc stops the answer, all other keys wait for the prompt.

It is for prompt_toolkit, which takes keys that were read before its prompt stood. A terminal sends Esc as the first
character of other keys too, so only one that nothing follows is Esc.
"""

import importlib
import os
import select
import sys
from collections.abc import Generator
from contextlib import contextmanager
from threading import Thread
from typing import Any, Final

from finclaw.cli.chat.editor import quiet_keys
from finclaw.cli.chat.event_queue import EventQueue, Interrupted

_FOLLOWS_WITHIN: Final = 0.1
"""Seconds in which the rest of a key comes, also through a slow line."""


class KeyWatch:
    """The keyboard between two prompts of one prompt_toolkit input."""

    def __init__(self, events: EventQueue, toolkit_input: Any) -> None:
        self._events = events
        self._input = toolkit_input
        self._keys: list[Any] = []
        self._is_lone = False
        parsing: Any = importlib.import_module("prompt_toolkit.input.vt100_parser")
        reading: Any = importlib.import_module("prompt_toolkit.input.posix_utils")
        self._escape: Any = importlib.import_module("prompt_toolkit.keys").Keys.Escape
        self._store: Any = importlib.import_module("prompt_toolkit.input.typeahead").store_typeahead
        self._parser: Any = parsing.Vt100Parser(self._take)
        self._reader: Any = reading.PosixStdinReader(sys.stdin.fileno())

    @contextmanager
    def watch(self) -> Generator[None]:
        """Inside, keys are read as they come; afterwards the prompt has those that were meant for it."""
        wakes, wake = os.pipe()
        with quiet_keys():
            thread = Thread(target=self._read, args=(wakes,), name="keys", daemon=True)
            thread.start()
            try:
                yield
            finally:
                os.close(wake)
                thread.join()
                os.close(wakes)
        self._store(self._input, self._keys)
        self._keys = []

    def _read(self, wakes: int) -> None:
        keyboard, seconds = sys.stdin.fileno(), None
        while True:
            ready, _, _ = select.select([keyboard, wakes], [], [], seconds)
            if keyboard in ready:
                self._parser.feed(self._reader.read())
                seconds = _FOLLOWS_WITHIN
            else:
                self._flush()
                seconds = None
            if wakes in ready or self._reader.closed:
                self._flush()
                return

    def _flush(self) -> None:
        """Nothing follows what was read."""
        self._is_lone = True
        self._parser.flush()
        self._is_lone = False

    def _take(self, key: Any) -> None:
        if self._is_lone and key.key == self._escape:
            self._events.put(Interrupted(leaves=False))
        else:
            self._keys.append(key)
