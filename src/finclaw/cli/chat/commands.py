"""The commands that the chat itself understands, such as leaving and looking back, and a check for unknown ones.

A command that is misspelled must not become a question that a model is paid for.
"""

import difflib
from typing import Final

from msgspec import Struct

from finclaw.cli.chat.texts import Texts
from finclaw.cli.terminal_text import one_line

LEAVE: Final = frozenset({"/quit", "/exit", "/q", "/bye", "exit", "quit", "종료", "/종료"})
OWN: Final = ("last", "quit")
MOST_BACK: Final = 20
"""Answers that `/last N` shows at most."""


def is_leaving(text: str) -> bool:
    return text.strip().casefold() in LEAVE


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
