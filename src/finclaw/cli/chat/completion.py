"""The Tab completion of the chat: ids of approvals that were shown here, and names of commands."""

import re
from collections.abc import Sequence
from typing import Any, Final

from finclaw.cli.chat.commands import KnownCommands

_ID: Final = re.compile("ap-[0-7][0-9a-z]{5,25}")
_DECIDES: Final = frozenset({"approve", "deny", "승인", "거부"})
_OVER: Final = frozenset({"approved", "denied", "expired", "run", "failed", "drifted"})
_MOST: Final = 100


class ShownIds:
    """The ids of approvals in what the gateway said, the newest first, without those that have been decided."""

    def __init__(self) -> None:
        self._ids: dict[str, None] = {}

    def note(self, text: str) -> None:
        for found in _ID.findall(text):
            self._ids.pop(found, None)
            self._ids[found] = None
        while len(self._ids) > _MOST:
            del self._ids[next(iter(self._ids))]

    def note_change(self, data: dict[str, Any]) -> None:
        """Of an approval, as the live stream tells it: by its whole id."""
        if data.get("change") in _OVER:
            whole = str(data.get("approval_id", ""))
            for shown in [each for each in self._ids if whole.startswith(each)]:
                del self._ids[shown]

    def beginning(self, typed: str) -> list[str]:
        return [each for each in reversed(self._ids) if each.startswith(typed.lower())]


class Completer:
    """A completer of the last word of a line."""

    def __init__(self, ids: ShownIds, commands: KnownCommands) -> None:
        self._ids = ids
        self._commands = commands

    def candidates(self, line: str) -> Sequence[str]:
        prefix = self._commands.prefix
        words = line.split(" ")
        if not line.startswith(prefix):
            return ()
        if len(words) == 1:
            typed = line.removeprefix(prefix)
            return [prefix + name for name in sorted(self._commands.names) if name.startswith(typed)]
        if len(words) == 2 and words[0].removeprefix(prefix).casefold() in _DECIDES:
            return self._ids.beginning(words[1])
        return ()
