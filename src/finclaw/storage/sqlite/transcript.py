"""Where conversations and the logs of running turns are kept: in rows of the same database, or elsewhere."""

from collections.abc import Sequence
from typing import Final, Protocol, assert_never

import apsw
from msgspec import Struct

from finclaw.errors import SessionError
from finclaw.kernel.message import Append, Message, Patch, Remove, Replace, ToolEnded, ToolStarted, Truncate, TurnEvent
from finclaw.storage.sqlite.codec import events_of, messages_of, read_event, read_message, read_messages, write


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
    def messages(self, db: apsw.Connection, session: int) -> tuple[Message, ...]: ...
    def clear(self, db: apsw.Connection, session: int) -> None: ...


class _Rows:
    def begin(self, db: apsw.Connection, turn: int, first: Sequence[TurnEvent]) -> tuple[TurnEvent, ...]:
        events = _log(db, turn)
        if events:
            return tuple(events)
        self.append(db, turn, 0, first)
        return tuple(first)

    def append(self, db: apsw.Connection, turn: int, seq: int, events: Sequence[TurnEvent]) -> None:
        start, end = events_of(turn)
        if start + seq + len(events) > end:  # the next number is another turn's
            raise SessionError(f"a turn may log {end - start} events, and this one has more; a layer emits too many")
        rows = ((start + seq + place, write(event)) for place, event in enumerate(events))
        db.executemany("INSERT INTO event (id, body) VALUES (?, ?)", rows)

    def fold(self, db: apsw.Connection, session: int, turn: int, last: Sequence[TurnEvent]) -> Folded:
        events = [*_log(db, turn), *last]
        before = _last_message(db, session)
        _fold(db, session, before, events)
        self.drop(db, turn)
        return Folded(before + 1, _last_message(db, session), len(events))

    def drop(self, db: apsw.Connection, turn: int) -> None:
        db.execute("DELETE FROM event WHERE id BETWEEN ? AND ?", events_of(turn))

    def messages(self, db: apsw.Connection, session: int) -> tuple[Message, ...]:
        return messages(db, session)

    def clear(self, db: apsw.Connection, session: int) -> None:
        db.execute("DELETE FROM message WHERE id BETWEEN ? AND ?", messages_of(session))


ROWS: Final[Transcript] = _Rows()


def messages(db: apsw.Connection, session: int) -> tuple[Message, ...]:
    rows = db.execute("SELECT body FROM message WHERE id BETWEEN ? AND ? ORDER BY id", messages_of(session))
    return read_messages([str(body) for (body,) in rows])


def _log(db: apsw.Connection, turn: int) -> list[TurnEvent]:
    rows = db.execute("SELECT body FROM event WHERE id BETWEEN ? AND ? ORDER BY id", events_of(turn))
    return [read_event(str(body)) for (body,) in rows]


def _fold(db: apsw.Connection, session: int, last: int, events: Sequence[TurnEvent]) -> None:
    """Apply the turn's events to the base. A turn appends; rows are rewritten only where an event says so.

    Its numbers go on from the `last` one whatever it takes away: none of them was ever another turn's.
    """
    for event in events:
        match event:
            case Append(message):
                if not message.passing:
                    last += 1
                    _append_message(db, last, message)
            case Replace(target, message):
                _update(db, session, target, message)
            case Remove(target):
                _remove(db, session, target)
            case Truncate(keep_last):
                _truncate(db, session, max(0, keep_last))
            case Patch(target, metadata):
                _patch(db, session, target, dict(metadata))
            case ToolStarted() | ToolEnded():
                pass  # it spoke of this turn only
            case _:
                assert_never(event)


def _append_message(db: apsw.Connection, row: int, message: Message) -> None:
    db.execute("INSERT INTO message (id, name, body) VALUES (?, ?, ?)", (row, message.id, write(message)))


def _last_message(db: apsw.Connection, session: int) -> int:
    """The row of the last message; in an empty conversation the number before the first."""
    first, _ = bounds = messages_of(session)
    return int(db.execute("SELECT coalesce(max(id), ?) FROM message WHERE id BETWEEN ? AND ?", (first, *bounds)).get)


def _update(db: apsw.Connection, session: int, target: str, message: Message) -> None:
    db.execute(
        "UPDATE message SET name = ?, body = ? WHERE id BETWEEN ? AND ? AND name = ?",
        (message.id, write(message), *messages_of(session), target),
    )


def _remove(db: apsw.Connection, session: int, target: str) -> None:
    db.execute("DELETE FROM message WHERE id BETWEEN ? AND ? AND name = ?", (*messages_of(session), target))


def _truncate(db: apsw.Connection, session: int, keep_last: int) -> None:
    db.execute(
        "DELETE FROM message WHERE id BETWEEN ?1 AND ?2 AND id NOT IN "
        "(SELECT id FROM message WHERE id BETWEEN ?1 AND ?2 ORDER BY id DESC LIMIT ?3)",
        (*messages_of(session), keep_last),
    )


def _patch(db: apsw.Connection, session: int, target: str, metadata: dict[str, object]) -> None:
    found = db.execute(
        "SELECT body FROM message WHERE id BETWEEN ? AND ? AND name = ?", (*messages_of(session), target)
    ).fetchone()
    if found is not None:
        old = read_message(str(found[0]))
        fresh = Message(old.id, old.role, old.blocks, old.source, old.created_at, {**old.metadata, **metadata})
        _update(db, session, target, fresh)
