"""Facts of a session, in a table of their own: a summary of the conversation loses none, and nobody walks the history.

A fact is filed under the turn whose tool gave it, and one that came with a copy of a conversation under a negative
number of the session: before all that its turns give. A session keeps the newest, up to a limit.
"""

from collections.abc import Sequence
from typing import Final

import apsw
import msgspec

from finclaw.kernel.fact import Fact, SessionFact
from finclaw.kernel.message import Message
from finclaw.storage.sqlite.codec import FACTS, PublicIds, facts_of, write

MOST: Final = 1_000
"""Of one session, and so of one turn."""
_COLUMNS: Final = "subject, field, value, unit, currency, as_of, source, venue, phase, stale, inputs"
_MARKS: Final = ", ".join("?" * (2 + len(_COLUMNS.split(", "))))


def keep(db: apsw.Connection, session: int, turn: int, facts: Sequence[Fact]) -> None:
    """Add what a turn's tools gave, and let the oldest of the session go."""
    _insert(db, session, facts_of(turn)[0], facts)
    sql = "SELECT id FROM fact WHERE session = ? ORDER BY id DESC LIMIT 1 OFFSET ?"
    oldest = db.execute(sql, (session, MOST - 1)).fetchone()
    if oldest is not None:
        db.execute("DELETE FROM fact WHERE session = ? AND id < ?", (session, oldest[0]))


def restore(db: apsw.Connection, session: int, messages: Sequence[Message], earlier: Sequence[Fact]) -> None:
    """Give a session those of its new messages, and `earlier` ones that no message tells any more."""
    forget_session(db, session)
    told = [fact for message in messages for result in message.tool_results for fact in result.facts]
    _insert(db, session, facts_of(-session)[0], (*earlier, *told))


def _insert(db: apsw.Connection, session: int, first: int, facts: Sequence[Fact]) -> None:
    newest = list(dict.fromkeys(facts))[-MOST:]
    db.executemany(
        f"INSERT INTO fact (id, session, {_COLUMNS}) VALUES ({_MARKS})",
        [(first + place, session, *_row(fact)) for place, fact in enumerate(newest)],
    )


def _row(fact: Fact) -> tuple[object, ...]:
    told = msgspec.json.decode(write(fact))  # with whole characters, as all rows have them
    inputs = write(told["inputs"]) if told["inputs"] else ""
    return (*(told[name] for name in _COLUMNS.split(", ")[:-2]), int(fact.stale), inputs)


def find(db: apsw.Connection, ids: PublicIds, session: str, subject: str | None, limit: int) -> list[SessionFact]:
    rows = db.execute(
        f"SELECT id, {_COLUMNS} FROM fact WHERE session = (SELECT id FROM session WHERE key = ?1) "
        "AND (?2 IS NULL OR subject = ?2) ORDER BY id DESC LIMIT ?3",
        (session, subject, limit),
    )
    return [SessionFact(turn_id=ids.turn(id // FACTS) if id > 0 else "", fact=_read(row)) for id, *row in rows]


def _read(row: Sequence[object]) -> Fact:
    told = dict(zip(_COLUMNS.split(", "), row, strict=True))
    inputs = msgspec.json.decode(str(told["inputs"]) or "[]")
    return msgspec.convert({**told, "stale": bool(told["stale"]), "inputs": inputs}, Fact)


def forget_session(db: apsw.Connection, session: int) -> None:
    db.execute("DELETE FROM fact WHERE session = ?", (session,))


def forget_turn(db: apsw.Connection, turn: int) -> None:
    db.execute("DELETE FROM fact WHERE id BETWEEN ? AND ?", facts_of(turn))
