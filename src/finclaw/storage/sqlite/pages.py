"""Packed pages: the older messages of a long conversation, 256 in one row, which is read in one go.

Messages lie in the order in which they were said, whoever said them, so those of one conversation lie far apart, and
each is looked for. A page is what a history wants of them, as it stands. Messages with a row of their own are
always the newer ones.
"""

from collections.abc import Iterator
from typing import Final

import apsw
import msgspec
from msgspec import Struct

from finclaw.kernel.message import Message
from finclaw.storage.sqlite.codec import write
from finclaw.transcript.history import Page, compress_meta, decompress_meta

LATEST: Final = 128
"""The last messages, which every turn looks at, are never packed."""
FIRST: Final = 16
"""A conversation is known by its first message; a short page is soon opened."""
LENGTH: Final = 256
"""Messages of one page: many, so that few rows come out of the database, and few enough for memory that is warm."""
_NOW_AND_THEN: Final = 64
"""Messages are counted when there are so many more."""

PAGE_COLUMNS: Final = (
    "count(*), CAST(group_concat(body, char(10)) AS BLOB), "
    "CAST(group_concat(coalesce(words, char(10)), char(10)) AS BLOB)"
)
"""What makes a page, of rows with `body` and `words`."""
_OLDEST: Final = (
    f"SELECT max(id), group_concat(id), {PAGE_COLUMNS} FROM "
    "(SELECT id, body, words FROM message WHERE session = ? ORDER BY id LIMIT ?)"
)
_INSERT: Final = "INSERT INTO page (id, session, numbers, length, beside, words) VALUES (?, ?, ?, ?, ?, ?)"


class _Named(Struct, frozen=True):
    id: str


_name_of: Final = msgspec.json.Decoder(_Named).decode


def pack_oldest(db: apsw.Connection, session: int, added: int) -> None:
    """Pack the oldest rows into pages, where enough messages have rows of their own now that so many were added."""
    held = int(db.execute("SELECT messages FROM session WHERE id = ?", (session,)).get or 0)
    if held < LATEST + LENGTH or held // _NOW_AND_THEN == (held - added) // _NOW_AND_THEN:
        return
    unpacked = int(db.execute("SELECT count(*) FROM message WHERE session = ?", (session,)).get)
    while unpacked >= LATEST + LENGTH:
        has_pages = db.execute("SELECT 1 FROM page WHERE session = ?", (session,)).fetchone() is not None
        length = LENGTH if has_pages else FIRST
        last, numbers, count, beside, words = db.execute(_OLDEST, (session, length)).fetchall()[0]
        db.execute(_INSERT, (last, session, numbers, count, compress_meta(beside), words))
        db.execute("DELETE FROM message WHERE session = ? AND id <= ?", (session, last))
        unpacked -= length


def unpack(db: apsw.Connection, session: int) -> None:
    """Every message has a row of its own again, under its number."""
    pages = db.execute("SELECT numbers, beside, words FROM page WHERE session = ?", (session,)).fetchall()
    for numbers, beside, words in pages:
        bodies = decompress_meta(beside).decode().split("\n")
        lines = bytes(words).decode().split("\n")
        for number, body, role, said in zip(_numbers(numbers), bodies, lines[::2], lines[1::2], strict=True):
            apart = f"{role}\n{said}" if said else None
            sql = "INSERT INTO message (id, session, name, body, words) VALUES (?, ?, ?, ?, ?)"
            db.execute(sql, (number, session, _name_of(body).id, body, apart))
    clear(db, session)


def unpack_for(db: apsw.Connection, session: int, name: str) -> bool:
    """So that the message of that name has a row of its own; False: it is in no page."""
    named = f'{{"id":{write(name)},'.encode()
    rows = db.execute("SELECT beside FROM page WHERE session = ?", (session,)).fetchall()
    is_packed = any(named in decompress_meta(beside) for (beside,) in rows)
    if is_packed:
        unpack(db, session)
    return is_packed


def drop(db: apsw.Connection, session: int, count: int) -> int:
    """Take the oldest messages away, as far as whole pages hold no others. Gives how many are left to be taken away."""
    rows = db.execute("SELECT id, length FROM page WHERE session = ? ORDER BY id", (session,)).fetchall()
    for page, length in rows:
        if length > count:
            if count:
                unpack(db, session)
            break
        db.execute("DELETE FROM page WHERE id = ?", (page,))
        count -= length
    return count


def clear(db: apsw.Connection, session: int) -> None:
    db.execute("DELETE FROM page WHERE session = ?", (session,))


def packed_pages(db: apsw.Connection, session: int) -> Iterator[Page]:
    for written in db.execute("SELECT length, beside, words FROM page WHERE session = ? ORDER BY id", (session,)):
        yield Page(*written)


def packed_between(db: apsw.Connection, session: int, first: int, last: int) -> Iterator[Message]:
    sql = "SELECT numbers, length, beside, words FROM page WHERE session = ? AND id >= ? ORDER BY id"
    rows = db.execute(sql, (session, first))
    for numbers, *written in rows:
        for number, message in zip(_numbers(numbers), Page(*written).messages, strict=True):
            if first <= number <= last:
                yield message


def _numbers(written: str) -> Iterator[int]:
    return map(int, written.split(","))
