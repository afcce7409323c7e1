"""The tables, as migrations. A released migration is never edited; a change is a new one at the end.

Rows are numbered, not named: a public id is built from the database's own random name and the row's number, so
that no index is needed to find it, and few pages are written per turn.
"""

from typing import Final

MIGRATIONS: Final = (
    """
    CREATE TABLE meta (key TEXT PRIMARY KEY, value ANY NOT NULL) STRICT, WITHOUT ROWID;

    CREATE TABLE session (
        id INTEGER PRIMARY KEY,
        key TEXT NOT NULL UNIQUE,
        epoch INTEGER NOT NULL DEFAULT 0,       -- a writer with an older one is superseded
        version INTEGER NOT NULL DEFAULT 0,     -- rises with every fold
        tickets INTEGER NOT NULL DEFAULT 0,     -- the last ticket given
        created_at INTEGER NOT NULL
    ) STRICT;

    CREATE TABLE inbound (
        id INTEGER PRIMARY KEY,
        name BLOB NOT NULL UNIQUE,              -- digest of channel, account, conversation, platform id
        digest BLOB NOT NULL,                   -- of the body: the same name with another body is a conflict
        session INTEGER NOT NULL REFERENCES session,
        ticket INTEGER NOT NULL,
        body TEXT NOT NULL,
        accepted_at INTEGER NOT NULL,
        state TEXT NOT NULL DEFAULT 'received',
        attempts INTEGER NOT NULL DEFAULT 0,
        delivery TEXT NOT NULL DEFAULT 'none',
        outcome TEXT,
        ended_at INTEGER
    ) STRICT;
    CREATE INDEX inbound_open ON inbound (session, ticket) WHERE outcome IS NULL;
    CREATE INDEX inbound_dead ON inbound (id) WHERE outcome ->> 'kind' IN ('failed', 'expired', 'dropped');

    CREATE TABLE turn (
        id INTEGER PRIMARY KEY REFERENCES inbound,  -- a turn is known by the message that began it
        session INTEGER NOT NULL,
        epoch INTEGER NOT NULL,
        status TEXT NOT NULL,
        started_at INTEGER NOT NULL,
        ended_at INTEGER,
        steps INTEGER NOT NULL DEFAULT 0,
        usage TEXT,
        reserved TEXT NOT NULL DEFAULT '0',
        cost TEXT NOT NULL DEFAULT '0'
    ) STRICT;

    CREATE TABLE event (                        -- the log of turns that are not folded yet
        turn INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (turn, seq)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE message (                      -- the base of every conversation
        session INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        id TEXT NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (session, seq)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE unit (
        inbound INTEGER NOT NULL REFERENCES inbound,
        seq INTEGER NOT NULL,
        state TEXT NOT NULL,
        body TEXT NOT NULL,
        planned_at INTEGER NOT NULL,
        attempts INTEGER NOT NULL DEFAULT 0,
        doubts INTEGER NOT NULL DEFAULT 0,
        platform_id TEXT,
        PRIMARY KEY (inbound, seq)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX unit_open ON unit (planned_at) WHERE state IN ('planned', 'sending', 'unknown');
    """,
)
