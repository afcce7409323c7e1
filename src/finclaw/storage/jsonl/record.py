"""What a line of base.jsonl may be: a message, or the mark behind the last message of a folded turn."""

from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import Struct

from finclaw.kernel.message import Message
from finclaw.storage.jsonl.lines import write_line
from finclaw.storage.sqlite.codec import write


class MessageLine(Struct, frozen=True, gc=False, tag="message"):
    """`turn` is the turn that added it; empty for what was imported or put there by hand."""

    turn: str
    message: Message


class FoldedLine(Struct, frozen=True, gc=False, tag="folded"):
    """Written last, so that a fold without it is known to be torn. `seq` is the last event of the turn that is in."""

    turn: str
    seq: int
    version: int


BaseLine = MessageLine | FoldedLine

read_base_line: Final = msgspec.json.Decoder(BaseLine).decode


class Base(Struct, frozen=True):
    """`unfinished` stand behind the last mark: the events of their turn hold them too, unless that file is lost."""

    folded: tuple[MessageLine, ...]
    last: FoldedLine | None
    unfinished: tuple[MessageLine, ...]


def write_base_line(line: BaseLine) -> bytes:
    return write_line(write(line).encode())


def base_of(lines: Iterable[BaseLine]) -> Base:
    """Messages of turns whose fold came to its end, and those of one that was torn."""
    folded: list[MessageLine] = []
    unfinished: list[MessageLine] = []
    last: FoldedLine | None = None
    for line in lines:
        if isinstance(line, MessageLine):
            unfinished.append(line)
        else:
            folded += unfinished
            unfinished, last = [], line
    return Base(tuple(folded), last, tuple(unfinished))
