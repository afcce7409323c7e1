"""The history of a chaos run: what the outside saw, one JSON object a line, and the final rows.

The platform writes the history while the gateway is being killed; the checker reads it afterwards.
"""

from pathlib import Path
from types import TracebackType
from typing import IO, Self

import msgspec
from msgspec import Struct


class SentIn(Struct, frozen=True, tag="sent_in"):
    """An event: a person wrote message number `n` of a conversation. Message ids are unique in the whole history."""

    conversation: str
    n: int
    message_id: str


class Acked(Struct, frozen=True, tag="acked"):
    """An event: the gateway acknowledged the message to the platform: from here on it may not be lost."""

    message_id: str


class ReplySeen(Struct, frozen=True, tag="reply_seen"):
    """An event: a person could read this reply. `attempt` counts how often this token was shown."""

    conversation: str
    reply_to: str | None
    token: str
    text: str
    attempt: int = 1


HistoryEvent = SentIn | Acked | ReplySeen


class InboundRow(Struct, frozen=True, kw_only=True):
    """A row of the inbox. `message_id` is the platform's; `outcome` is None while the message has not ended.

    `reissue_of` is the inbound whose stale answer this one replaces: nobody wrote it, and it comes when it comes.
    `joined_to` is the inbound whose turn answers this one too: the parts of the answer belong to that one.
    """

    id: str
    message_id: str
    session: str
    ticket: int
    outcome: str | None
    reissue_of: str | None = None
    joined_to: str | None = None


class TurnRow(Struct, frozen=True, kw_only=True):
    """A row of the turns."""

    id: str
    inbound_id: str


class UnitRow(Struct, frozen=True, kw_only=True):
    """A row of the outbox. `id` is the token; `turn_id` is None for what the gateway says by itself."""

    id: str
    inbound_id: str
    turn_id: str | None
    seq: int
    state: str
    doubts: int = 0
    is_preview: bool = False


class Rows(Struct, frozen=True, kw_only=True):
    """The rows of the database once the gateway has drained."""

    inbound: tuple[InboundRow, ...] = ()
    turns: tuple[TurnRow, ...] = ()
    units: tuple[UnitRow, ...] = ()


class History:
    """A history in memory; given a path, each event is appended to the file at once."""

    def __init__(self, path: Path | None = None) -> None:
        self.events: list[HistoryEvent] = []
        self._file: IO[bytes] | None = path.open("ab", buffering=0) if path is not None else None

    def write(self, event: HistoryEvent) -> None:
        self.events.append(event)
        if self._file is not None:
            self._file.write(msgspec.json.encode(event) + b"\n")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def read_history(path: Path) -> list[HistoryEvent]:
    decode = msgspec.json.Decoder(HistoryEvent).decode
    return [decode(line) for line in path.read_bytes().splitlines() if line]
