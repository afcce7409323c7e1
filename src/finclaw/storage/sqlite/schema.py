"""The tables, as migrations. A released migration is never edited; a change is a new one at the end.

Rows are numbered, not named: a public id is built from the database's own random name and the row's number, so
that no index is needed to find it. Owner and sequence share one number, what changes and what is long live apart:
few and short pages are written per turn (`docs/decisions/0005-numbered-rows.md`).
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
        kind TEXT,                              -- of its outcome; NULL until it has one
        ended_at INTEGER
    ) STRICT;
    CREATE INDEX inbound_open ON inbound (session, ticket) WHERE kind IS NULL;
    CREATE INDEX inbound_dead ON inbound (id) WHERE kind IN ('failed', 'expired', 'dropped');

    CREATE TABLE outcome (                      -- apart, so that a message's row keeps its size when it ends
        id INTEGER PRIMARY KEY REFERENCES inbound,
        body TEXT NOT NULL
    ) STRICT;

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
        id INTEGER PRIMARY KEY,                 -- turn << 16 | sequence
        body TEXT NOT NULL
    ) STRICT;

    CREATE TABLE message (                      -- the base of every conversation
        id INTEGER PRIMARY KEY,                 -- session << 32 | sequence
        name TEXT NOT NULL,                     -- the message's own id
        body TEXT NOT NULL
    ) STRICT;

    CREATE TABLE unit (
        id INTEGER PRIMARY KEY,                 -- inbound << 10 | sequence
        state TEXT NOT NULL,
        planned_at INTEGER NOT NULL,
        attempts INTEGER NOT NULL DEFAULT 0,
        doubts INTEGER NOT NULL DEFAULT 0,
        platform_id TEXT
    ) STRICT;
    CREATE INDEX unit_open ON unit (id) WHERE state IN ('planned', 'sending', 'unknown');
    CREATE INDEX unit_dead ON unit (id) WHERE state = 'dead';

    CREATE TABLE unit_body (                    -- apart, so that a change of state does not write the text again
        id INTEGER PRIMARY KEY REFERENCES unit,
        body TEXT NOT NULL
    ) STRICT;
    """,
)
