"""The commands that the chat itself understands, such as leaving and looking back, and a check for unknown ones.

A command that is misspelled must not become a question that a model is paid for.
"""

import difflib
import re
from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct

from finclaw.cli.chat.texts import Texts
from finclaw.cli.formatting import one_line

LEAVE: Final = frozenset({"/quit", "/exit", "/q", "/bye", "exit", "quit", "종료", "/종료"})
OWN: Final = ("last", "quit")
MOST_BACK: Final = 20
"""Answers that `/last N` shows at most."""


def is_leaving(text: str) -> bool:
    return text.strip().casefold() in LEAVE


def waits_for_end(text: str) -> bool:
    """Return whether the chat obeys it only when no answer is awaited: leaving, and looking back."""
    return is_leaving(text) or answers_wanted(text) is not None


def answers_wanted(text: str) -> int | None:
    """How many of the last answers to show: 1 for `/last`, 0 where the number makes no sense. None: it is not asked."""
    name, _, rest = text.strip().partition(" ")
    if name.casefold() != "/last":
        return None
    number = rest.strip()
    if not number:
        return 1
    good = number.isascii() and number.isdigit() and 1 <= int(number[:4]) <= MOST_BACK
    return int(number) if good else 0


def is_help(text: str) -> bool:
    return text.strip().casefold() in ("/help", "/h", "/도움말")


class KnownCommands(Struct, frozen=True):
    """The commands of the gateway, and their prefix. A gateway of an older release gives no names."""

    prefix: str
    names: tuple[str, ...] = ()

    def refuse_unknown(self, text: str, texts: Texts) -> str:
        """What to say instead of sending a command that nobody knows; empty for everything else.

        A path, such as /etc/hosts, is no command, nor is what begins with a space or with two slashes.
        """
        name = text.removeprefix(self.prefix).partition(" ")[0].strip().casefold()
        if not (self.names and text.startswith(self.prefix) and name and name[0].isalnum()) or "/" in name:
            return ""
        own = OWN if self.prefix == "/" else ()
        known = {each.casefold(): each for each in (*self.names, *own)}
        if name in known:
            return ""
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
        hint = texts.did_you_mean.format(command=self.prefix + known[near[0]]) if near else ""
        return texts.unknown_command.format(command=one_line(self.prefix + name), hint=hint)


# ── Tab completion: ids of approvals that were shown here, and names of commands ────────────────────────────────


_ID: Final = re.compile("ap-[0-7][0-9a-z]{5,25}")
_DECIDES: Final = frozenset({"approve", "deny", "승인", "거부"})
_OVER: Final = frozenset({"approved", "denied", "expired", "run", "failed", "drifted"})
_MOST: Final = 100


class Completer:
    """A completer of the last word of a line: names of commands, and ids of approvals that were shown here."""

    def __init__(self, commands: KnownCommands) -> None:
        self._commands = commands
        self._ids: dict[str, None] = {}
        """The newest last, without those that have been decided."""

    def note(self, text: str) -> None:
        """Offer the ids in a text that is shown."""
        for found in _ID.findall(text):
            self._ids.pop(found, None)
            self._ids[found] = None
        while len(self._ids) > _MOST:
            del self._ids[next(iter(self._ids))]

    def note_change(self, data: dict[str, Any]) -> None:
        """Stop offering an approval that is decided; the live stream tells it by its whole id."""
        if data.get("change") in _OVER:
            whole = str(data.get("approval_id", ""))
            for shown in [each for each in self._ids if whole.startswith(each)]:
                del self._ids[shown]

    def candidates(self, line: str) -> Sequence[str]:
        prefix = self._commands.prefix
        words = line.split(" ")
        if not line.startswith(prefix):
            return ()
        if len(words) == 1:
            typed = line.removeprefix(prefix)
            return [prefix + name for name in sorted(self._commands.names) if name.startswith(typed)]
        if len(words) == 2 and words[0].removeprefix(prefix).casefold() in _DECIDES:
            return [shown for shown in reversed(tuple(self._ids)) if shown.startswith(words[1].lower())]
        return ()
