"""A reader of the keyboard while an answer is awaited: Esc stops it, and the next message can be typed and sent.

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

from finclaw.cli.chat.commands import waits_for_prompt
from finclaw.cli.chat.editor import quiet_keys
from finclaw.cli.chat.event_queue import DraftChanged, EventQueue, Interrupted, TypedLine
from finclaw.cli.formatting import width

_FOLLOWS_WITHIN: Final = 0.1
"""Seconds in which the rest of a key comes, also through a slow line."""
_PASTE_BEGIN, _PASTE_END = "\x1b[200~", "\x1b[201~"

# The names of keys as prompt_toolkit has them. A key of one character is that character.
_ENTER: Final = ("c-m", "c-j")
_BACKSPACE, _ERASE_LINE, _ERASE_WORD = "c-h", "c-u", "c-w"
_ESCAPE, _PASTE = "escape", "<bracketed-paste>"
_REPORTS: Final = ("<cursor-position-response>", "<ignore>")
"""What the terminal itself says."""


class TypedDraft:
    """A message that is typed while an answer is awaited, and the keys behind it that wait for the prompt.

    It knows the keys that need no cursor. Any other key, such as an arrow, makes it wait for the prompt with all that
    follows, so that nothing is lost and nothing is out of order.
    """

    def __init__(self) -> None:
        self.text = ""
        self.waiting: list[Any] = []
        """Keys for the prompt, which come behind the text."""

    def take(self, key: Any) -> str | None:
        """Returns the message that this key sends."""
        name: str = key.key
        if self.waiting:
            self.waiting.append(key)
        elif name in _ENTER:
            return self._send(key)
        elif len(name) == 1:
            self.text += name
        elif name == _PASTE:
            self.text += str(key.data).replace("\r\n", "\n").replace("\r", "\n")
        elif name == _BACKSPACE:
            self.text = _without_last(self.text)
        elif name == _ERASE_LINE:
            self.text = ""
        elif name == _ERASE_WORD:
            words = self.text.split()
            self.text = self.text[: self.text.rindex(words[-1])] if words else ""
        else:
            self.waiting.append(key)
        return None

    def _send(self, key: Any) -> str | None:
        if waits_for_prompt(self.text):
            self.waiting.append(key)
            return None
        text, self.text = self.text, ""
        return text if text.strip() else None


def _without_last(text: str) -> str:
    """The text without its last character, and without the marks that are drawn on that one."""
    end = len(text) - 1
    while end > 0 and width(text[end]) == 0:
        end -= 1
    return text[: max(end, 0)]


class KeyWatch:
    """The keyboard between two prompts of one prompt_toolkit application."""

    def __init__(self, events: EventQueue, app: Any, *, sends: bool = True) -> None:
        """`sends`: a message that is typed meanwhile is sent with Enter. Else all keys wait for the prompt, unseen."""
        self._events = events
        self._app = app
        self._sends = sends
        self._draft = TypedDraft()
        self._told = DraftChanged("")
        self._reports: list[Any] = []
        self._is_lone = self._is_pasting = False
        self._last_read = ""
        parsing: Any = importlib.import_module("prompt_toolkit.input.vt100_parser")
        reading: Any = importlib.import_module("prompt_toolkit.input.posix_utils")
        self._make_key: Any = importlib.import_module("prompt_toolkit.key_binding.key_processor").KeyPress
        self._names: Any = importlib.import_module("prompt_toolkit.keys").Keys
        self._ahead: Any = importlib.import_module("prompt_toolkit.input.typeahead")
        self._parser: Any = parsing.Vt100Parser(self._take)
        self._reader: Any = reading.PosixStdinReader(sys.stdin.fileno())

    @contextmanager
    def watch(self) -> Generator[None]:
        """Inside, keys are read as they come; afterwards the prompt has those that were meant for it."""
        wakes, wake = os.pipe()
        self._draft, self._reports, self._told = TypedDraft(), [], DraftChanged("")
        with quiet_keys(), self._pastes_in_one_piece():
            thread = Thread(target=self._read, args=(wakes,), name="keys", daemon=True)
            thread.start()
            try:
                yield
            finally:
                os.close(wake)
                thread.join()
                os.close(wakes)
        self._ahead.store_typeahead(self._app.input, [*self._reports, *self._unsent()])

    @contextmanager
    def _pastes_in_one_piece(self) -> Generator[None]:
        """Inside, the terminal marks pasted text: its line breaks send nothing."""
        if not self._sends:
            yield
            return
        self._app.output.enable_bracketed_paste()
        self._app.output.flush()
        try:
            yield
        finally:
            self._app.output.disable_bracketed_paste()
            self._app.output.flush()

    def _unsent(self) -> list[Any]:
        draft = self._draft
        text = [self._make_key(self._names.BracketedPaste, draft.text)] if draft.text else []
        return [*text, *draft.waiting]

    # ── in a thread of its own, which never writes to the terminal ──────────────────────────────────────────

    def _read(self, wakes: int) -> None:
        for key in self._ahead.get_typeahead(self._app.input):  # older than what comes
            self._take(key)
        self._tell_draft()
        keyboard, seconds, is_over = sys.stdin.fileno(), None, False
        while not self._reader.closed:
            ready, _, _ = select.select([keyboard] if is_over else [keyboard, wakes], [], [], seconds)
            if keyboard in ready:
                self._feed(self._reader.read())
            else:
                self._flush()
            is_over = is_over or wakes in ready
            if is_over and not (self._is_pasting and ready):  # half of a paste would be torn from the other half
                break
            seconds = _FOLLOWS_WITHIN if is_over or keyboard in ready else None
        if self._is_pasting:
            self._feed(_PASTE_END)
        self._flush()

    def _feed(self, data: str) -> None:
        seen = self._last_read + data
        begin, end = seen.rfind(_PASTE_BEGIN), seen.rfind(_PASTE_END)
        self._is_pasting = begin > end if begin != end else self._is_pasting
        self._last_read = seen[1 - len(_PASTE_BEGIN) :]
        self._parser.feed(data)
        self._tell_draft()

    def _flush(self) -> None:
        """Nothing follows what was read."""
        self._is_lone = True
        self._parser.flush()
        self._is_lone = False
        self._tell_draft()

    def _take(self, key: Any) -> None:
        if self._is_lone and key.key == _ESCAPE:
            self._events.put(Interrupted(leaves=False))
        elif key.key in _REPORTS:
            self._reports.append(key)
        elif not self._sends:
            self._draft.waiting.append(key)
        elif (text := self._draft.take(key)) is not None:
            self._events.put(TypedLine(text))

    def _tell_draft(self) -> None:
        draft = self._draft
        now = DraftChanged(draft.text, waits=bool(draft.waiting))
        if self._sends and now != self._told:
            self._told = now
            self._events.put(now)
