"""The registry of commands: by name and alias, whatever the case, and by category."""

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import Final, Literal

from msgspec import Struct

from finclaw.errors import ExtensionError
from finclaw.kernel.port import Command, CommandReply, CommandScope, names_of

Category = Literal["general", "finance", "admin", "debug"]
CATEGORIES: Final[tuple[Category, ...]] = ("general", "finance", "admin", "debug")
LONGEST_WORDS: Final = 40  # characters of a whole message that stands for a command
_NO_PUNCTUATION: Final = str.maketrans("", "", ".,!?;:~…。！？'’")
_NEAR: Final = 0.75
"""How much of two names must be the same for one to be a misspelling of the other, from 0 to 1."""
MOST_ARGUMENTS: Final = 2_000
"""Characters of a command's arguments. A longer text is a message for the model, or a mistake."""
_WORD: Final = re.compile(r"\S+")
_CLOSING_MARKS: Final = {'"': '"', "'": "'", "“": "”", "‘": "’"}


class ParsedCommand(Struct, frozen=True):
    """A line that names a command: the name without its prefix, as it was written, the arguments, and the line."""

    name: str
    args: tuple[str, ...]
    raw: str
    is_too_long: bool = False  # the arguments exceed `MOST_ARGUMENTS` and were not read


def split_arguments(line: str) -> tuple[str, ...]:
    """Split a line into words and quoted texts. A mark inside a word, as in don't, quotes nothing. Linear: the next
    closing mark of each kind is searched for only once the previous one was passed."""
    arguments: list[str] = []
    closing_at: dict[str, int] = {}
    position = 0
    while (word := _WORD.search(line, position)) is not None:
        start = word.start()
        mark = _CLOSING_MARKS.get(line[start])
        if mark is not None and closing_at.get(mark, 0) <= start:
            found = line.find(mark, start + 1)
            closing_at[mark] = found if found >= 0 else len(line)
        end = closing_at.get(mark or "", len(line))
        if end < len(line) and not line[end + 1 : end + 2].strip():
            arguments.append(line[start + 1 : end])
            position = end + 1
        else:
            arguments.append(word[0])
            position = word.end()
    return tuple(arguments)


class CommandRegistry:
    """A registry of commands. Each name and alias belongs to one command."""

    def __init__(self, commands: Iterable[Command] = ()) -> None:
        self._commands: list[Command] = []
        self._by_name: dict[str, Command] = {}
        self._by_words: dict[str, Command] = {}
        """Commands by whole messages that stand for them without a prefix, such as a plain `stop`."""
        for command in commands:
            self.register(command)

    def register(self, command: Command) -> None:
        """Raises ExtensionError for a name that another command has."""
        names = [name.casefold() for name in names_of(command)]
        for name in names:
            if name in self._by_name:
                raise ExtensionError(f"the command name {name!r} is taken; choose another name or alias")
        self._by_name.update(dict.fromkeys(names, command))
        self._by_words.update(dict.fromkeys(getattr(command, "words", ()), command))
        self._commands.append(command)

    def unregister(self, name: str) -> bool:
        """Take a command out, with all its names. False: there is none of that name."""
        command = self.get(name)
        if command is None:
            return False
        self._commands.remove(command)
        self._by_name = {each: owner for each, owner in self._by_name.items() if owner is not command}
        self._by_words = {each: owner for each, owner in self._by_words.items() if owner is not command}
        return True

    def get(self, name: str) -> Command | None:
        return self._by_name.get(name.casefold())

    def list(self) -> Sequence[Command]:
        return tuple(self._commands)

    def list_by_category(self, category: str) -> Sequence[Command]:
        return tuple(each for each in self._commands if each.category == category)

    def parse(self, content: str, prefix: str) -> ParsedCommand | None:
        """The command in one tidy line, by the prefix and its name, or by words that stand for it. None: it is none."""
        if not content.startswith(prefix):
            meant = self._find_by_words(content)
            return None if meant is None else ParsedCommand(meant.name, (), content)
        name, _, rest = content.removeprefix(prefix).partition(" ")
        if name.casefold() not in self._by_name:
            return None
        if len(rest) > MOST_ARGUMENTS:
            return ParsedCommand(name, (), content, is_too_long=True)
        return ParsedCommand(name, split_arguments(rest), content)

    def _find_by_words(self, line: str) -> Command | None:
        """By the whole line, without its punctuation; never by a part of a sentence."""
        if len(line) > LONGEST_WORDS or not self._by_words:
            return None
        return self._by_words.get(" ".join(line.casefold().translate(_NO_PUNCTUATION).split()))

    async def execute(self, parsed: ParsedCommand, scope: CommandScope) -> CommandReply:
        """Run it. Raises what the command raises; whether the sender may use it is for the caller to know."""
        return await self._by_name[parsed.name.casefold()].run(list(parsed.args), scope)

    def find_similar(self, name: str, others: Iterable[str] = (), roles: Iterable[str] = ()) -> str | None:
        """The name of which this one may be a misspelling, among the commands for these roles and the others."""
        own = frozenset(roles)
        allowed = (key for key, each in self._by_name.items() if not each.roles or not own.isdisjoint(each.roles))
        near = difflib.get_close_matches(name.casefold(), (*allowed, *others), n=1, cutoff=_NEAR)
        return next(iter(near), None)
