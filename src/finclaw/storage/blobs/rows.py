"""SQL of blobs and of their uses. Each function is a part of an all-or-nothing piece of a commit.

A blob is used by messages that carry it, by answers that it is sent with, and by sessions in whose conversations it
stands. One that nobody has used yet waits; one that nobody uses any more goes.
"""

from collections.abc import Iterable, Sequence
from typing import Literal

import apsw

from finclaw.errors import SessionError
from finclaw.kernel.envelope import Attachment
from finclaw.kernel.message import Append, Image, Message, Replace, ToolEnded, TurnEvent
from finclaw.kernel.record import Blob

BlobUser = Literal["message", "answer", "session"]
"""A message and its answer have the same row number."""


def add(db: apsw.Connection, blob: Blob, now: int) -> None:
    db.execute(
        "INSERT INTO blob (sha256, size, media_type, width, height, waiting_since) VALUES (?, ?, ?, ?, ?, ?) "
        "ON CONFLICT (sha256) DO UPDATE SET waiting_since = excluded.waiting_since",
        (blob.sha256, blob.size, blob.media_type, blob.width, blob.height, now),
    )


def is_known(db: apsw.Connection, sha256: str) -> bool:
    return db.execute("SELECT 1 FROM blob WHERE sha256 = ?", (sha256,)).fetchone() is not None


def names(db: apsw.Connection) -> set[str]:
    return {str(name) for (name,) in db.execute("SELECT sha256 FROM blob")}


def use_attachments(db: apsw.Connection, message: int, attachments: Sequence[Attachment]) -> None:
    """Raises SessionError for one whose content is not kept: who refers to it must put it first."""
    for attachment in attachments:
        if attachment.blob is not None and not use(db, "message", message, (attachment.blob,)):
            name = attachment.id
            raise SessionError(f"the content of attachment {name!r} is not kept; put it first, then refer to it")


def use(db: apsw.Connection, user: BlobUser, row: int, blobs: Iterable[str]) -> int:
    """Count these uses in. Gives how many of the blobs are there."""
    found = 0
    for sha256 in blobs:
        known = db.execute("UPDATE blob SET waiting_since = NULL WHERE sha256 = ? RETURNING id", (sha256,)).fetchone()
        if known is not None:
            found += 1
            db.execute("INSERT OR IGNORE INTO blob_use (user, row, blob) VALUES (?, ?, ?)", (user, row, known[0]))
    return found


def release(db: apsw.Connection, user: BlobUser, row: int) -> None:
    db.execute("DELETE FROM blob_use WHERE user = ? AND row = ?", (user, row))


def remove_unused(db: apsw.Connection, before: int) -> list[str]:
    """The blobs that nobody uses; those that wait for their first use only if they were put before that time."""
    rows = db.execute(
        "DELETE FROM blob WHERE (waiting_since IS NULL OR waiting_since < ?) "
        "AND NOT EXISTS (SELECT 1 FROM blob_use WHERE blob_use.blob = blob.id) RETURNING sha256",
        (before,),
    )
    return [str(name) for (name,) in rows.fetchall()]


def blobs_in(messages: Iterable[Message]) -> list[str]:
    return [block.blob for each in messages for block in each.blocks if isinstance(block, Image) and block.blob]


def files_in_events(events: Iterable[TurnEvent]) -> list[str]:
    """Of the files that tools gave for the answer: they are used by it before there is one."""
    results = [event.result for event in events if isinstance(event, ToolEnded)]
    for event in events:
        if isinstance(event, Append) and event.message.source.kind == "tool":
            results += event.message.tool_results
    return [file.blob for result in results for file in result.files]


def blobs_in_events(events: Iterable[TurnEvent]) -> list[str]:
    return blobs_in([event.message for event in events if isinstance(event, Append | Replace)])
