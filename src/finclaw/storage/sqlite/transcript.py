"""Where conversations and the logs of running turns are kept: in rows of the same database, or elsewhere."""

from collections.abc import Iterator, Sequence
from typing import Final, Protocol, assert_never

import apsw
from msgspec import Struct

from finclaw.errors import SessionError
from finclaw.kernel.history import Messages, Page, with_pages
from finclaw.kernel.message import Append, Message, Patch, Remove, Replace, ToolEnded, ToolStarted, Truncate, TurnEvent
from finclaw.storage.sqlite.codec import events_of, read_event, read_message, read_messages, write


class Folded(Struct, frozen=True):
    """What a turn has added, by first and last number, and how many events it had."""

    first_message: int
    last_message: int
    events: int


class Transcript(Protocol):
    """The part of a turn's commits that is the conversation itself. Rows are named by number, as everywhere here."""

    def begin(self, db: apsw.Connection, turn: int, first: Sequence[TurnEvent]) -> tuple[TurnEvent, ...]:
        """The log that the turn has already; else it begins with `first`."""
        ...

    def append(self, db: apsw.Connection, turn: int, seq: int, events: Sequence[TurnEvent]) -> None: ...

    def fold(self, db: apsw.Connection, session: int, turn: int, last: Sequence[TurnEvent]) -> Folded:
        """Apply the log and the last events to the conversation, and drop the log."""
        ...

    def drop(self, db: apsw.Connection, turn: int) -> None: ...
    def messages(self, db: apsw.Connection, session: int) -> Messages: ...
    def clear(self, db: apsw.Connection, session: int) -> None: ...


class _Rows:
    def begin(self, db: apsw.Connection, turn: int, first: Sequence[TurnEvent]) -> tuple[TurnEvent, ...]:
        try:
            self.append(db, turn, 0, first)
        except apsw.ConstraintError:  # an earlier attempt has begun it
            return tuple(_log(db, turn))
        return tuple(first) or tuple(_log(db, turn))

    def append(self, db: apsw.Connection, turn: int, seq: int, events: Sequence[TurnEvent]) -> None:
        start, end = events_of(turn)
        if start + seq + len(events) > end:  # the next number is another turn's
            raise SessionError(f"a turn may log {end - start} events, and this one has more; a layer emits too many")
        rows = ((start + seq + place, write(event)) for place, event in enumerate(events))
        db.executemany("INSERT INTO event (id, body) VALUES (?, ?)", rows)

    def fold(self, db: apsw.Connection, session: int, turn: int, last: Sequence[TurnEvent]) -> Folded:
        events = [*_taken(db, turn), *last]
        before = last_message(db)
        added = _fold(db, session, before, events)
        return Folded(before + 1, added, len(events))

    def drop(self, db: apsw.Connection, turn: int) -> None:
        db.execute("DELETE FROM event WHERE id BETWEEN ? AND ?", events_of(turn))

    def messages(self, db: apsw.Connection, session: int) -> Messages:
        return history(db, session)

    def clear(self, db: apsw.Connection, session: int) -> None:
        db.execute("DELETE FROM message WHERE session = ?", (session,))


ROWS: Final[Transcript] = _Rows()


_LATEST: Final = 128
"""The last messages, which every turn looks at."""
_FIRST: Final = 16
"""A conversation is known by its first message; a short page is soon opened."""
_AT_ONCE: Final = 256
"""Messages of one page: many, so that few rows come out of the database, and few enough for memory that is warm."""
_PAGE: Final = (
    "SELECT count(*), max(id), CAST(group_concat(body, char(10)) AS BLOB) FROM "
    "(SELECT id, body FROM message WHERE session = ? AND id BETWEEN ? AND ? ORDER BY id LIMIT ?)"
)
_LAST_PAGE: Final = (
    "SELECT count(*), min(id), CAST(group_concat(body, char(10)) AS BLOB) FROM "
    "(SELECT id, body FROM message WHERE session = ? ORDER BY id DESC LIMIT ?)"
)
HIGHEST: Final = (1 << 63) - 1
"""No row has a higher number."""


def history(db: apsw.Connection, session: int) -> Messages:
    """The last messages as such, and what stands before them in pages that somebody may open."""
    length, first, joined = db.execute(_LAST_PAGE, (session, _LATEST)).fetchall()[0]
    if not length:
        return ()
    tail = tuple(reversed(read_messages(joined)))
    return tail if length < _LATEST else with_pages(tuple(_pages(db, session, 0, int(first) - 1, _FIRST)), tail)


def messages(db: apsw.Connection, session: int, first: int = 0, last: int = HIGHEST) -> tuple[Message, ...]:
    return tuple([message for page in _pages(db, session, first, last) for message in page.messages])


def _pages(db: apsw.Connection, session: int, first: int, last: int, length: int = _AT_ONCE) -> Iterator[Page]:
    """A row and a decode for every message would cost as much again. `length` is of the first page."""
    while True:
        held, end, joined = db.execute(_PAGE, (session, first, last, length)).fetchall()[0]
        if not held:
            return
        yield Page(int(held), joined)
        first, length = int(end) + 1, _AT_ONCE


def _log(db: apsw.Connection, turn: int) -> list[TurnEvent]:
    rows = db.execute("SELECT body FROM event WHERE id BETWEEN ? AND ? ORDER BY id", events_of(turn))
    return [read_event(str(body)) for (body,) in rows]


def _taken(db: apsw.Connection, turn: int) -> list[TurnEvent]:
    """The log, which is taken out of the database. SQLite promises no order here."""
    rows = db.execute("DELETE FROM event WHERE id BETWEEN ? AND ? RETURNING id, body", events_of(turn)).fetchall()
    return [read_event(str(body)) for _, body in sorted(rows)]


def _fold(db: apsw.Connection, session: int, last: int, events: Sequence[TurnEvent]) -> int:
    """Apply the turn's events to the base. A turn appends; rows are rewritten only where an event says so.

    Its numbers go on from the `last` one whatever it takes away: none of them was ever another turn's. Gives the number
    of the conversation's last message.
    """
    edited = False
    for event in events:
        match event:
            case Append(message):
                if not message.passing:
                    last += 1
                    db.execute(_INSERT, (last, session, message.id, write(message)))
                continue
            case ToolStarted() | ToolEnded():
                continue  # it spoke of this turn only
            case Replace(target, message):
                _update(db, session, target, message)
            case Remove(target):
                _remove(db, session, target)
            case Truncate(keep_last):
                _truncate(db, session, max(0, keep_last))
            case Patch(target, metadata):
                _patch(db, session, target, dict(metadata))
            case _:
                assert_never(event)
        edited = True
    return _last_of(db, session) if edited else last


_INSERT: Final = "INSERT INTO message (id, session, name, body) VALUES (?, ?, ?, ?)"


def add(db: apsw.Connection, session: int, messages: Sequence[Message], last: int | None = None) -> None:
    """Fill a conversation; the numbers of what it has go on from the `last` one of all."""
    last = last_message(db) if last is None else last
    rows = ((row, session, message.id, write(message)) for row, message in enumerate(messages, start=last + 1))
    db.executemany(_INSERT, rows)


def last_message(db: apsw.Connection) -> int:
    """The row of the last message of all."""
    return int(db.execute("SELECT coalesce(max(id), 0) FROM message").get)


def _last_of(db: apsw.Connection, session: int) -> int:
    return int(db.execute("SELECT coalesce(max(id), 0) FROM message WHERE session = ?", (session,)).get)


def _update(db: apsw.Connection, session: int, target: str, message: Message) -> None:
    db.execute(
        "UPDATE message SET name = ?, body = ? WHERE session = ? AND name = ?",
        (message.id, write(message), session, target),
    )


def _remove(db: apsw.Connection, session: int, target: str) -> None:
    db.execute("DELETE FROM message WHERE session = ? AND name = ?", (session, target))


def _truncate(db: apsw.Connection, session: int, keep_last: int) -> None:
    db.execute(
        "DELETE FROM message WHERE session = ?1 AND id NOT IN "
        "(SELECT id FROM message WHERE session = ?1 ORDER BY id DESC LIMIT ?2)",
        (session, keep_last),
    )


def _patch(db: apsw.Connection, session: int, target: str, metadata: dict[str, object]) -> None:
    found = db.execute("SELECT body FROM message WHERE session = ? AND name = ?", (session, target)).fetchone()
    if found is not None:
        old = read_message(str(found[0]))
        fresh = Message(old.id, old.role, old.blocks, old.source, old.created_at, {**old.metadata, **metadata})
        _update(db, session, target, fresh)
