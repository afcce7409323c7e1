"""Know-how from a directory of texts, given to the model when a message calls for it.

    ---
    triggers: dividend, 배당
    ---
    A dividend belongs to whoever holds the share the evening before the ex-date. …

A text without triggers is always given. Each is one passing message under its own key: however often it is given, it is
there once, and the conversation never keeps it. An edit counts from the next turn on.
"""

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG
from typing import Annotated, Final

from msgspec import Meta, Struct

from finclaw.builtins.note import put_note
from finclaw.builtins.own_settings import read_settings
from finclaw.errors import ExtensionError
from finclaw.kernel.extension import ExtensionApi
from finclaw.kernel.scope import TurnContext, TurnResult

KEY: Final = "skills"
_HEADER_ROOM: Final = 2_000
"""Characters that a header may have besides the text."""
_Stamp = tuple[int, int]
"""When a file was written, and its size."""
_HEADER: Final = re.compile(r"\A---\r?\n(.*?)^---\r?\n?", re.DOTALL | re.MULTILINE)
_TRIGGERS: Final = re.compile(r"^triggers:(.*)$", re.MULTILINE)


class SkillSettings(Struct, frozen=True, forbid_unknown_fields=True):
    directory: str
    """Where the texts are, one `.md` file each."""
    longest: Annotated[int, Meta(ge=1)] = 8_000
    """Characters of one text. A longer one is not given: half an instruction may say the opposite."""
    most: Annotated[int, Meta(ge=1)] = 24_000
    """Characters of all that are given in one turn; the first by name come first."""


@dataclass(frozen=True, slots=True)
class Skill:
    name: str
    text: str
    triggers: tuple[re.Pattern[str], ...]

    def fits(self, message: str) -> bool:
        return not self.triggers or any(each.search(message) for each in self.triggers)


class Skills:
    name = "skills"

    def __init__(self, settings: SkillSettings) -> None:
        self._settings = settings
        self._directory = Path(settings.directory).expanduser().absolute()

    def register(self, api: ExtensionApi) -> None:
        if not self._directory.is_dir():
            raise ExtensionError(f"there is no directory {self._directory}; make it, or set `directory` to another")
        self._logger = api.logger
        self._shelf = Shelf(self._directory, self._settings.longest, api.logger)
        api.pipeline.register("turn", self.give)

    async def give(self, ctx: TurnContext) -> TurnResult:
        room = self._settings.most
        for skill in self._shelf.skills():
            if not skill.fits(ctx.input.text):
                continue
            room -= len(skill.text)
            if room < 0:
                self._logger.warning("more skills fit than may be given; %s and the rest were left out", skill.name)
                break
            put_note(ctx, f"{KEY}/{skill.name}", skill.text)
        return await ctx.next()


class Shelf:
    """The directory as it is now. Each file is read once for each time it was changed."""

    def __init__(self, directory: Path, longest: int, logger: logging.Logger) -> None:
        self._directory = directory
        self._longest = longest
        self._logger = logger
        self._read: dict[Path, tuple[_Stamp, Skill | None]] = {}

    def skills(self) -> list[Skill]:
        """In the order of their names, so that the same skills are the same request."""
        # Without a thread: to look at a few dozen files costs less than to hand that over.
        kept = dict(self._look())
        self._read = kept
        return [skill for _, skill in kept.values() if skill is not None]

    def _look(self) -> Iterator[tuple[Path, tuple[_Stamp, Skill | None]]]:
        for path in sorted(self._directory.glob("*.md")):
            try:
                status = path.stat()
            except OSError:
                continue  # gone since we looked
            if not S_ISREG(status.st_mode):
                continue
            stamp = (status.st_mtime_ns, status.st_size)
            known = self._read.get(path)
            yield path, known if known is not None and known[0] == stamp else (stamp, self._open(path))

    def _open(self, path: Path) -> Skill | None:
        most = self._longest + _HEADER_ROOM
        try:
            with path.open(encoding="utf-8") as file:
                text = file.read(most + 1)  # a file may be of any size
        except (OSError, UnicodeDecodeError) as error:
            self._logger.warning("the skill %s cannot be read: %s", path.name, error)
            return None
        skill = read_skill(path.stem, text)
        if len(text) > most or len(skill.text) > self._longest:
            words = "the skill %s has more than %d characters and is not given; make two of it"
            self._logger.warning(words, path.name, self._longest)
            return None
        return skill if skill.text else None


def read_skill(name: str, text: str) -> Skill:
    header = _HEADER.match(text)
    listed = _TRIGGERS.search(header[1]) if header else None
    words = [each.strip() for each in listed[1].split(",")] if listed else []
    body = text[header.end() :] if header else text
    return Skill(name, body.strip(), tuple(_trigger(word) for word in words if word))


def _trigger(word: str) -> re.Pattern[str]:
    """A Latin word must stand alone, though a particle may follow it; Korean words carry theirs with them."""
    if word.isascii():
        return re.compile(rf"(?<![a-z0-9]){re.escape(word)}(?![a-z0-9])", re.IGNORECASE | re.ASCII)
    return re.compile(re.escape(word), re.IGNORECASE)


name = Skills.name


def register(api: ExtensionApi) -> None:
    Skills(read_settings(api, SkillSettings)).register(api)
