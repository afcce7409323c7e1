"""Storage of conversations and of running turns' logs in rows of the same database."""

from collections.abc import Iterator, Sequence
from typing import Final, assert_never

import apsw
from msgspec import Struct

from finclaw.errors import SessionError
from finclaw.kernel.message import Append, Message, Patch, Remove, Replace, ToolEnded, ToolStarted, Truncate, TurnEvent
from finclaw.storage.blobs.rows import blobs_in_events
from finclaw.storage.sqlite import pages
from finclaw.storage.sqlite.codec import events_of, read_event, write
from finclaw.transcript.fold import patch_message
from finclaw.transcript.history import Messages, Page, message_meta, with_pages, words_of


class Folded(Struct, frozen=True):
    """What a turn has added, by first and last number, and how many events it had."""

    first_message: int
    last_message: int
    events: int
    blobs: Sequence[str] = ()


class Transcript:
    """The part of a turn's commits that is the conversation itself. Rows are named by number, as everywhere here."""

    def begin(self, db: apsw.Connection, turn: int, first: Sequence[TurnEvent]) -> tuple[TurnEvent, ...]:
        """Begin the log with `first`, and return it; a log that the turn has already is returned as it is."""
        try:
            self.append(db, turn, 0, first)
        except apsw.ConstraintError:  # an earlier attempt has begun it
            return read_log(db, turn)
        return tuple(first) or read_log(db, turn)

    def append(self, db: apsw.Connection, turn: int, seq: int, events: Sequence[TurnEvent]) -> None:
        start, end = events_of(turn)
        if start + seq + len(events) > end:  # the next number is another turn's
            raise SessionError(f"a turn may log {end - start} events, and this one has more; a layer emits too many")
        rows = ((start + seq + place, write(event)) for place, event in enumerate(events))
        db.executemany("INSERT INTO event (id, body) VALUES (?, ?)", rows)

    def fold(self, db: apsw.Connection, session: int, turn: int, last: Sequence[TurnEvent]) -> Folded:
        """Apply the log and the last events to the conversation, and drop the log."""
        events = [*_take_log(db, turn), *last]
        before = last_message(db)
        added = _fold(db, session, before, events)
        pages.pack_oldest(db, session, added - before)
        return Folded(before + 1, added, len(events), blobs_in_events(events))

    def drop(self, db: apsw.Connection, turn: int) -> None:
        db.execute("DELETE FROM event WHERE id BETWEEN ? AND ?", events_of(turn))

    def messages(self, db: apsw.Connection, session: int) -> Messages:
        return history(db, session)

    def clear(self, db: apsw.Connection, session: int) -> None:
        db.execute("DELETE FROM message WHERE session = ?", (session,))
        pages.clear(db, session)


ROWS: Final = Transcript()

_PAGE: Final = (
    f"SELECT max(id), {pages.PAGE_COLUMNS} FROM "
    "(SELECT id, body, words FROM message WHERE session = ? AND id BETWEEN ? AND ? ORDER BY id LIMIT ?)"
)
_LATEST: Final = (
    f"SELECT min(id), {pages.PAGE_COLUMNS} FROM "
    "(SELECT id, body, words FROM message WHERE session = ? ORDER BY id DESC LIMIT ?)"
)
HIGHEST: Final = (1 << 63) - 1
"""No row has a higher number."""


def history(db: apsw.Connection, session: int) -> Messages:
    """The last messages as such, and what stands before them in pages that somebody may open."""
    first, *written = db.execute(_LATEST, (session, pages.LATEST)).fetchall()[0]
    latest = () if first is None else Page(*written).messages[::-1]
    older = tuple(pages.packed_pages(db, session))
    if first is not None and len(latest) == pages.LATEST:
        older += tuple(_read_unpacked(db, session, 0, int(first) - 1, pages.LENGTH if older else pages.FIRST))
    return with_pages(older, latest)


def messages(db: apsw.Connection, session: int, first: int = 0, last: int = HIGHEST) -> tuple[Message, ...]:
    unpacked = [message for page in _read_unpacked(db, session, first, last) for message in page.messages]
    return (*pages.packed_between(db, session, first, last), *unpacked)


def _read_unpacked(
    db: apsw.Connection, session: int, first: int, last: int, length: int = pages.LENGTH
) -> Iterator[Page]:
    """A row and a decode for every message would cost as much again. `length` is of the first page."""
    while True:
        end, *written = db.execute(_PAGE, (session, first, last, length)).fetchall()[0]
        if end is None:
            return
        yield Page(*written)
        first = int(end) + 1
        length = pages.LENGTH


def read_log(db: apsw.Connection, turn: int) -> tuple[TurnEvent, ...]:
    rows = db.execute("SELECT body FROM event WHERE id BETWEEN ? AND ? ORDER BY id", events_of(turn))
    return tuple([read_event(str(body)) for (body,) in rows])


def _take_log(db: apsw.Connection, turn: int) -> list[TurnEvent]:
    """The log, which is taken out of the database. SQLite promises no order here."""
    rows = db.execute("DELETE FROM event WHERE id BETWEEN ? AND ? RETURNING id, body", events_of(turn)).fetchall()
    return [read_event(str(body)) for _, body in sorted(rows)]


def _fold(db: apsw.Connection, session: int, last: int, events: Sequence[TurnEvent]) -> int:
    """Apply the turn's events to the base. A turn appends; rows are rewritten only where an event says so.

    In SQL, not by `fold()`: that would read a whole conversation to add a message (`kb_written`, `cpu_plain` in
    docs/performance.md).

    Its numbers go on from the `last` one whatever it takes away: none of them was ever another turn's. Gives the number
    of the conversation's last message.
    """
    edited = False
    for event in events:
        match event:
            case Append(message):
                if not message.passing:
                    last += 1
                    db.execute(_INSERT, (last, session, *_row(message)))
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


_INSERT: Final = "INSERT INTO message (id, session, name, body, words) VALUES (?, ?, ?, ?, ?)"


def _row(message: Message) -> tuple[str, str, str | None]:
    if words := words_of(message):
        return message.id, write(message_meta(message)), f"{message.role}\n{write(words)}"
    return message.id, write(message), None


def add(db: apsw.Connection, session: int, messages: Sequence[Message], last: int | None = None) -> None:
    """Fill a conversation; the numbers of what it has go on from the `last` one of all."""
    last = last_message(db) if last is None else last
    rows = ((row, session, *_row(message)) for row, message in enumerate(messages, start=last + 1))
    db.executemany(_INSERT, rows)
    pages.pack_oldest(db, session, len(messages))


def last_message(db: apsw.Connection) -> int:
    latest = "coalesce((SELECT max(id) FROM message), 0), coalesce((SELECT max(id) FROM page), 0)"
    return int(db.execute(f"SELECT max({latest})").get)


def _last_of(db: apsw.Connection, session: int) -> int:
    latest = "(SELECT max(id) FROM message WHERE session = ?1), (SELECT max(id) FROM page WHERE session = ?1)"
    return int(db.execute(f"SELECT coalesce({latest}, 0)", (session,)).get)


def _has_row(db: apsw.Connection, session: int, name: str) -> bool:
    """Whether a message has that name. It has a row of its own from now on."""
    found = db.execute("SELECT 1 FROM message WHERE session = ? AND name = ?", (session, name)).fetchone()
    return found is not None or pages.unpack_for(db, session, name)


def _update(db: apsw.Connection, session: int, target: str, message: Message) -> None:
    if _has_row(db, session, target):
        sql = "UPDATE message SET name = ?, body = ?, words = ? WHERE session = ? AND name = ?"
        db.execute(sql, (*_row(message), session, target))


def _remove(db: apsw.Connection, session: int, target: str) -> None:
    if _has_row(db, session, target):
        db.execute("DELETE FROM message WHERE session = ? AND name = ?", (session, target))


def _truncate(db: apsw.Connection, session: int, keep_last: int) -> None:
    held: int = db.execute(
        "SELECT (SELECT count(*) FROM message WHERE session = ?1) + "
        "(SELECT coalesce(sum(length), 0) FROM page WHERE session = ?1)",
        (session,),
    ).get
    sql = "DELETE FROM message WHERE id IN (SELECT id FROM message WHERE session = ? ORDER BY id LIMIT ?)"
    db.execute(sql, (session, pages.drop(db, session, max(0, held - keep_last))))


def _patch(db: apsw.Connection, session: int, target: str, metadata: dict[str, object]) -> None:
    if _has_row(db, session, target):
        named = "(SELECT body, words FROM message WHERE session = ? AND name = ?)"
        (written,) = db.execute(f"SELECT {pages.PAGE_COLUMNS} FROM {named}", (session, target)).fetchall()
        old = Page(*written).messages[0]
        _update(db, session, target, patch_message(old, metadata))
