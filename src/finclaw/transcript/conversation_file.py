"""A conversation as a file: JSON Lines, first a header, then one message per line.

What is written follows from the conversation alone, so that a file that is read and written again is the same file.
Facts are in the tool results that told them; those whose messages a compaction took away are in the header.
"""

import io
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final, Literal

import msgspec
from msgspec import Struct

from finclaw.errors import SessionError
from finclaw.kernel.fact import Fact, SessionFact
from finclaw.kernel.message import Message, ToolResult, as_seen, without_notes

VERSION: Final = 1


class Header(Struct, frozen=True, omit_defaults=True):
    finclaw: Literal["conversation"]
    version: int
    session: str
    facts: tuple[Fact, ...] = ()
    """Those that no message tells any more, the oldest first. Releases that do not know them read on."""


_encode: Final = msgspec.json.Encoder().encode
_read_header: Final = msgspec.json.Decoder(Header).decode
_read_message: Final = msgspec.json.Decoder(Message).decode


def write_conversation(session: str, messages: Sequence[Message], facts: Iterable[SessionFact] = ()) -> bytes:
    """`facts` are those of the session, the newest first, as a store gives them."""
    told = {fact for message in messages for result in message.tool_results for fact in result.facts}
    others = [each.fact for each in facts if each.fact not in told]
    shown = map(as_seen, messages)
    lines: list[object] = [Header("conversation", VERSION, session, tuple(reversed(others))), *shown]
    return b"".join(_encode(line) + b"\n" for line in lines)


def read_conversation(content: bytes) -> tuple[str, tuple[Message, ...]]:
    """The session that was written and its messages. Raises SessionError, with the line, for anything else."""
    lines = io.BytesIO(content)  # one line at a time: a file of line breaks is a list of millions
    session = _header(lines.readline().removesuffix(b"\n")).session
    messages = tuple(_message(line.removesuffix(b"\n"), number) for number, line in enumerate(lines, start=2))
    _must_be_unique(messages)
    return session, messages


def read_earlier_facts(content: bytes) -> tuple[Fact, ...]:
    """The facts in the header. Raises SessionError as `read_conversation` does."""
    return _header(content.split(b"\n", 1)[0]).facts


def _header(line: bytes) -> Header:
    try:
        header = _read_header(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        message = "line 1 is no header of a conversation; take a file that `finclaw sessions export` wrote"
        raise SessionError(message) from None
    if header.version != VERSION:
        raise SessionError(f"line 1: version {header.version} is not known here; this FinClaw reads version {VERSION}")
    if any(fact.as_of.tzinfo is None for fact in header.facts):
        raise SessionError("line 1: a time has no zone; end it with Z for UTC")
    return header


def _message(line: bytes, number: int) -> Message:
    try:
        message = _read_message(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SessionError(f"line {number} is no message: {error}") from error
    if message.passing:
        raise SessionError(f"line {number}: a message with `passing` belongs to one turn only; take the line out")
    if any(time.tzinfo is None for time in _times(message)):
        raise SessionError(f"line {number}: a time has no zone; end it with Z for UTC")
    return without_notes(message)


def _times(message: Message) -> Iterator[datetime]:
    yield message.created_at
    for block in message.blocks:
        if isinstance(block, ToolResult):
            yield from (fact.as_of for fact in block.facts)


def _must_be_unique(messages: Sequence[Message]) -> None:
    seen: dict[str, int] = {}
    for number, message in enumerate(messages, start=2):
        first = seen.setdefault(message.id, number)
        if first != number:
            raise SessionError(f"line {number}: id {message.id!r} was used in line {first} already; ids are unique")
