"""SQL of messages that join another's turn. Each function is a part of an all-or-nothing piece of a commit.

A joined message is answered by the turn and has none of its own. The model has seen it once an answer stands behind it
in the turn's log, or the beginning of one in the outbox; until then it can go back to its place in the session, where
nobody notices that it was away.
"""

from collections.abc import Sequence
from datetime import datetime

import apsw

from finclaw.kernel.message import Append, Remove, Replace, TurnEvent
from finclaw.kernel.record import Accepted, JoinedMessage, JoinedOutcome
from finclaw.storage.sqlite import inbox
from finclaw.storage.sqlite.codec import PublicIds, units_of


def begin(db: apsw.Connection, session: int, turn: int, message: int, name: str) -> bool:
    """False, and nothing, for a message that has ended, is not behind the turn's own, or was tried before.

    What was in the pipeline when a process died may have caused it, and must not take a turn with it. `name` is the id
    of its words in the conversation.
    """
    db.execute(
        "UPDATE inbound SET state = 'joined', attempts = attempts + 1 WHERE id = ?1 AND session = ?2 "
        "AND kind IS NULL AND state = 'received' AND attempts = 0 "
        "AND ticket > (SELECT ticket FROM inbound WHERE id = ?3) "
        "AND NOT EXISTS (SELECT 1 FROM turn WHERE turn.id = ?1)",
        (message, session, turn),
    )
    if not db.changes():
        return False
    db.execute("INSERT INTO joined (id, turn, name) VALUES (?, ?, ?)", (message, turn, name))
    return True


def resume(
    db: apsw.Connection, ids: PublicIds, turn: int, events: Sequence[TurnEvent]
) -> tuple[tuple[Accepted, ...], tuple[Remove, ...]]:
    """Count an attempt of those that the model has seen, and put the others back, with the attempts that they had.

    Return the former, which the turn answers too, and the events that take the words of the others out of its log.
    """
    joined: list[Accepted] = []
    removed = unseen_words(db, turn, events)
    has_begun = _has_begun(db, turn, events)
    for row, name in _open(db, turn):
        if _is_seen(events, name, has_begun=has_begun):
            db.execute("UPDATE inbound SET attempts = attempts + 1 WHERE id = ?", (row,))
            joined.append(inbox.find_accepted(db, ids, row))
        else:
            _put_back(db, row, tried=True)
    return tuple(joined), removed


def unseen_words(db: apsw.Connection, turn: int, events: Sequence[TurnEvent]) -> tuple[Remove, ...]:
    """Events that take what the model has not seen out of the log; none for what is out of it already."""
    has_begun = _has_begun(db, turn, events)
    unseen = [name for _, name in _open(db, turn) if not _is_seen(events, name, has_begun=has_begun)]
    names = [_present_name(events, name) for name in unseen]
    return tuple(Remove(name) for name in names if name is not None)


def _open(db: apsw.Connection, turn: int) -> list[tuple[int, str]]:
    rows = db.execute(
        "SELECT joined.id, joined.name FROM joined JOIN inbound ON inbound.id = joined.id "
        "WHERE turn = ? AND kind IS NULL ORDER BY joined.id",
        (turn,),
    )
    return [(int(row), str(name)) for row, name in rows]


def _place(events: Sequence[TurnEvent], name: str) -> int | None:
    found = (place for place, each in enumerate(events) if isinstance(each, Append) and each.message.id == name)
    return next(found, None)


def _is_seen(events: Sequence[TurnEvent], name: str, *, has_begun: bool) -> bool:
    """`has_begun`: a person sees, or will see, the beginning of an answer to all that the log holds."""
    place = _place(events, name)
    behind = () if place is None else events[place + 1 :]
    return (has_begun and place is not None) or any(map(_is_answer, behind))


def _is_answer(event: TurnEvent) -> bool:
    return isinstance(event, Append) and event.message.source.kind == "assistant"


def _has_begun(db: apsw.Connection, turn: int, events: Sequence[TurnEvent]) -> bool:
    """Whether parts of an answer are in the outbox that the log does not have yet."""
    begun = db.execute(
        "SELECT 1 FROM unit JOIN unit_body ON unit_body.id = unit.id WHERE unit.id BETWEEN ? AND ? "
        "AND state != 'superseded' AND body ->> '$.span.answer' >= ? LIMIT 1",
        (*units_of(turn), sum(map(_is_answer, events))),
    )
    return begun.fetchone() is not None


def _present_name(events: Sequence[TurnEvent], name: str) -> str | None:
    """The id under which the words are in the conversation: a layer may have replaced them. None: they are not."""
    place = _place(events, name)
    if place is None:
        return None
    for event in events[place + 1 :]:
        match event:
            case Replace(target, message) if target == name:
                name = message.id
            case Remove(target) if target == name:
                return None
            case _:
                pass
    return name


def end(db: apsw.Connection, ids: PublicIds, turn: int, ends: Sequence[JoinedOutcome], now: datetime) -> None:
    """End those that are named, and put back all others that had joined the turn, as if they had not been tried."""
    for each in ends:
        inbox.end(db, ids, each.inbound_id, each.outcome, (), now)
    for row, _ in _open(db, turn):
        _put_back(db, row, tried=False)


def _put_back(db: apsw.Connection, row: int, *, tried: bool) -> None:
    sql = "UPDATE inbound SET state = 'received', attempts = attempts - ? WHERE id = ? AND state = 'joined'"
    db.execute(sql, (0 if tried else 1, row))
    db.execute("DELETE FROM joined WHERE id = ?", (row,))


def count(db: apsw.Connection, turn: int, attempts: int) -> None:
    """Count an attempt of the turn for those that joined it too, or take one back."""
    db.execute(
        "UPDATE inbound SET attempts = attempts + ? WHERE state = 'joined' AND kind IS NULL "
        "AND id IN (SELECT id FROM joined WHERE turn = ?)",
        (attempts, turn),
    )


def forget(db: apsw.Connection, row: int) -> None:
    """Of a message, or of all that had joined its turn."""
    db.execute("DELETE FROM joined WHERE id = ?1 OR turn = ?1", (row,))


def find(db: apsw.Connection, ids: PublicIds, turn: int) -> tuple[JoinedMessage, ...]:
    """All that joined a turn, also after their end."""
    rows = db.execute("SELECT id, name FROM joined WHERE turn = ? ORDER BY id", (turn,)).fetchall()
    found = [(inbox.find_accepted(db, ids, int(row)), str(name)) for row, name in rows]
    return tuple(
        JoinedMessage(inbound_id=each.id, inbound=each.inbound, accepted_at=each.accepted_at, message_id=name)
        for each, name in found
    )
