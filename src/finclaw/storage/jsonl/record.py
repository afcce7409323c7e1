"""Records of base.jsonl: a message, or the mark behind the last message of a folded turn."""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from finclaw.kernel.message import Message, TurnEvent
from finclaw.storage.jsonl.lines import write_line
from finclaw.storage.sqlite.codec import write
from finclaw.transcript.fold import fold_items


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


def fold_lines(lines: Sequence[MessageLine], turn: str, events: Iterable[TurnEvent]) -> list[MessageLine]:
    """The lines after the turn. A message that was changed stays a line of the turn that added it."""

    def line_with(message: Message, former: MessageLine | None) -> MessageLine:
        return MessageLine(turn if former is None else former.turn, message)

    return fold_items(lines, events, lambda line: line.message, line_with)
