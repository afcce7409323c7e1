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
    """
    ALTER TABLE session ADD COLUMN updated_at INTEGER NOT NULL DEFAULT 0;   -- the last accept
    ALTER TABLE session ADD COLUMN messages INTEGER NOT NULL DEFAULT 0;     -- how many, so that a list need not count
    ALTER TABLE session ADD COLUMN turns INTEGER NOT NULL DEFAULT 0;        -- that have ended
    UPDATE session SET updated_at = created_at;
    UPDATE session SET updated_at = max(created_at, found.at)
        FROM (SELECT session AS id, max(accepted_at) AS at FROM inbound GROUP BY session) AS found
        WHERE found.id = session.id;
    UPDATE session SET messages = found.number
        FROM (SELECT id >> 32 AS id, count(*) AS number FROM message GROUP BY id >> 32) AS found
        WHERE found.id = session.id;
    UPDATE session SET turns = found.number
        FROM (SELECT session AS id, count(*) AS number FROM turn WHERE ended_at IS NOT NULL GROUP BY session) AS found
        WHERE found.id = session.id;

    -- The session's row is written by the end of a turn anyway, so keeping count costs no page.
    CREATE TRIGGER message_added AFTER INSERT ON message BEGIN
        UPDATE session SET messages = messages + 1 WHERE id = new.id >> 32;
    END;
    CREATE TRIGGER message_removed AFTER DELETE ON message BEGIN
        UPDATE session SET messages = messages - 1 WHERE id = old.id >> 32;
    END;
    CREATE TRIGGER turn_ended AFTER UPDATE OF ended_at ON turn
    WHEN old.ended_at IS NULL AND new.ended_at IS NOT NULL BEGIN
        UPDATE session SET turns = turns + 1 WHERE id = new.session;
    END;

    ALTER TABLE turn ADD COLUMN first_message INTEGER;  -- row numbers in `message` of what the turn added
    ALTER TABLE turn ADD COLUMN last_message INTEGER;
    ALTER TABLE turn ADD COLUMN last_event INTEGER;     -- how many events it had; a file store folds up to here

    CREATE TABLE state (                        -- what extensions remember
        extension TEXT NOT NULL,
        session TEXT NOT NULL,                  -- '' for the extension itself
        body TEXT NOT NULL,
        PRIMARY KEY (extension, session)
    ) STRICT, WITHOUT ROWID;
    """,
    """
    ALTER TABLE session ADD COLUMN cleared INTEGER NOT NULL DEFAULT 0;  -- the version that its last reset made
    """,
    """
    CREATE TABLE spend (                        -- the books: removing what was said leaves what it cost
        day TEXT NOT NULL,                      -- in UTC, as 2026-01-31
        agent TEXT NOT NULL,
        user TEXT NOT NULL,
        model TEXT NOT NULL,
        calls INTEGER NOT NULL,
        input INTEGER NOT NULL,
        output INTEGER NOT NULL,
        cache_read INTEGER NOT NULL,
        cache_write INTEGER NOT NULL,
        cost TEXT NOT NULL,                     -- US dollars, exact
        saved TEXT NOT NULL,                    -- by the cache; may be negative
        PRIMARY KEY (day, agent, user, model)
    ) STRICT, WITHOUT ROWID;
    """,
    """
    CREATE TABLE approval (
        id TEXT PRIMARY KEY,
        turn TEXT NOT NULL,                     -- the turn and the call that asked
        call TEXT NOT NULL,
        session TEXT NOT NULL,
        state TEXT NOT NULL DEFAULT 'pending',
        asked_at INTEGER NOT NULL,
        expires_at INTEGER NOT NULL,
        body TEXT NOT NULL,                     -- as it was asked, but for the arguments
        args TEXT NOT NULL,                     -- the very text that the hash is of
        scope TEXT,
        decided_by TEXT,
        decided_at INTEGER,
        reason TEXT NOT NULL DEFAULT '',
        reminded_at INTEGER,
        used_by TEXT,                           -- the one turn that may run it
        UNIQUE (turn, call)
    ) STRICT;
    CREATE INDEX approval_open ON approval (expires_at) WHERE state IN ('pending', 'granted');

    CREATE TABLE standing_grant (               -- a yes that reaches further than once
        id TEXT PRIMARY KEY REFERENCES approval,
        tool TEXT NOT NULL,
        hash TEXT NOT NULL,
        requester TEXT NOT NULL,
        session TEXT,                           -- NULL: in every session
        granted_by TEXT NOT NULL,
        granted_at INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX grant_of ON standing_grant (requester, hash);
    """,
    """
    -- Messages stand in the order in which they were said, whoever said them: a turn then writes the last pages of the
    -- table. In the order of conversations it broke up full pages in the middle, three a turn. Numbers stay.
    ALTER TABLE message RENAME TO message_by_session;
    DROP TRIGGER message_added;
    DROP TRIGGER message_removed;
    CREATE TABLE message (
        id INTEGER PRIMARY KEY,
        session INTEGER NOT NULL,
        name TEXT NOT NULL,                     -- the message's own id
        body TEXT NOT NULL
    ) STRICT;
    INSERT INTO message SELECT id, id >> 32, name, body FROM message_by_session ORDER BY id;
    DROP TABLE message_by_session;
    CREATE INDEX message_of ON message (session);
    CREATE TRIGGER message_added AFTER INSERT ON message BEGIN
        UPDATE session SET messages = messages + 1 WHERE id = new.session;
    END;
    CREATE TRIGGER message_removed AFTER DELETE ON message BEGIN
        UPDATE session SET messages = messages - 1 WHERE id = old.session;
    END;
    """,
    """
    -- Who said what, where a message is nothing but words: the role, and the words as JSON on a line of their own.
    -- The body has the rest of it then, and all of it where this is NULL.
    ALTER TABLE message ADD COLUMN words TEXT;

    CREATE TABLE page (                         -- older messages of a long conversation, in one row
        id INTEGER PRIMARY KEY,                 -- the number of the last of them
        session INTEGER NOT NULL,
        length INTEGER NOT NULL,
        numbers TEXT NOT NULL,                  -- those that they had in `message`
        beside BLOB NOT NULL,                   -- their bodies, a line each, packed
        words BLOB NOT NULL                     -- their words, two lines each; empty ones for NULL
    ) STRICT;
    CREATE INDEX page_of ON page (session);
    CREATE TRIGGER page_bound AFTER INSERT ON page BEGIN
        UPDATE session SET messages = messages + new.length WHERE id = new.session;
    END;
    CREATE TRIGGER page_removed AFTER DELETE ON page BEGIN
        UPDATE session SET messages = messages - old.length WHERE id = old.session;
    END;
    """,
    """
    -- A model call is in `turn.reserved` before its request leaves: JSON from here on, see costs.py. Days of
    -- `spend` are those of the machine's zone from here on; what stands there keeps the days that it was written with.
    ALTER TABLE spend ADD COLUMN interrupted INTEGER NOT NULL DEFAULT 0;        -- calls that were cut off
    ALTER TABLE spend ADD COLUMN interrupted_cost TEXT NOT NULL DEFAULT '0';    -- their part of the cost, estimated
    ALTER TABLE session ADD COLUMN tokens INTEGER NOT NULL DEFAULT 0;           -- of the conversation, as last measured
    """,
    """
    -- Persons, and what they are known as. A sender whom nobody has linked is a person of their own, by their identity.
    CREATE TABLE person (
        id TEXT PRIMARY KEY,                    -- the identity by which they were first known
        name TEXT NOT NULL DEFAULT '',
        language TEXT NOT NULL DEFAULT '',
        timezone TEXT NOT NULL DEFAULT '',
        currency TEXT NOT NULL DEFAULT '',
        market TEXT NOT NULL DEFAULT '',
        colors TEXT NOT NULL DEFAULT '',
        compliance TEXT NOT NULL DEFAULT '',
        since INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE identity (
        who TEXT PRIMARY KEY,                   -- channel:account:sender
        person TEXT NOT NULL REFERENCES person
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX identity_of ON identity (person);

    CREATE TABLE sender AS
        SELECT channel || ':' || id AS user, max(name) AS name, min(accepted_at) AS since,
            replace(replace(channel, '%', '%25'), ':', '%3A') || ':' ||
            replace(replace(account, '%', '%25'), ':', '%3A') || ':' || id AS who
        FROM (SELECT body ->> '$.channel' AS channel, body ->> '$.account' AS account, body ->> '$.sender.id' AS id,
            coalesce(body ->> '$.sender.name', '') AS name, accepted_at FROM inbound
            WHERE session > 0 AND body ->> '$.said_by' IS NULL AND body ->> '$.limits' IS NULL)
        WHERE channel IS NOT NULL AND account IS NOT NULL AND id IS NOT NULL GROUP BY channel, account, id;
    INSERT INTO person (id, name, since) SELECT who, name, since FROM sender WHERE true ON CONFLICT DO NOTHING;
    INSERT INTO identity (who, person) SELECT who, who FROM sender WHERE true ON CONFLICT DO NOTHING;
    -- Spend was filed by channel and sender, without the account. Where one sender alone can be meant, it is theirs.
    CREATE TABLE payer (user TEXT PRIMARY KEY, who TEXT NOT NULL);
    INSERT INTO payer SELECT user, min(who) FROM sender GROUP BY user HAVING count(*) = 1;
    UPDATE OR IGNORE spend SET user = payer.who FROM payer WHERE payer.user = spend.user;
    UPDATE turn SET reserved =
        replace(reserved, '"user":' || json_quote(payer.user), '"user":' || json_quote(payer.who))
        FROM inbound, payer WHERE inbound.id = turn.id AND inbound.kind IS NULL AND turn.reserved != '0'
        AND payer.user = (inbound.body ->> '$.channel') || ':' || (inbound.body ->> '$.sender.id');
    DROP TABLE payer;
    DROP TABLE sender;
    """,
    """
    -- Keys of what extensions have said: for ever, whatever becomes of the messages. Only digests.
    CREATE TABLE said_key (
        name BLOB PRIMARY KEY,
        inbound INTEGER NOT NULL                -- the message that said it, which may be gone
    ) STRICT, WITHOUT ROWID;
    INSERT INTO said_key SELECT name, id FROM inbound WHERE body ->> 'said_by' IS NOT NULL;
    """,
    """
    CREATE TABLE fact (                         -- what tools have told a session
        id INTEGER PRIMARY KEY,                 -- turn << 10 | sequence
        session INTEGER NOT NULL,
        subject TEXT NOT NULL,
        field TEXT NOT NULL,
        value TEXT NOT NULL,                    -- exact
        unit TEXT NOT NULL,
        currency TEXT,
        as_of TEXT NOT NULL,
        source TEXT NOT NULL,
        stale INTEGER NOT NULL,
        inputs TEXT NOT NULL                    -- names of facts, as JSON; empty for one that was not calculated
    ) STRICT;
    CREATE INDEX fact_of ON fact (session);     -- of each session at most a thousand
    INSERT INTO fact SELECT id, session, subject, field, value, unit, currency, as_of, source, stale, '' FROM (
        SELECT outcome.id << 10 | told.key AS id, turn.session, told.value ->> '$.subject' AS subject,
            told.value ->> '$.field' AS field, told.value ->> '$.value' AS value,
            coalesce(told.value ->> '$.unit', '') AS unit, told.value ->> '$.currency' AS currency,
            told.value ->> '$.as_of' AS as_of, told.value ->> '$.source' AS source,
            coalesce(told.value ->> '$.stale', 0) AS stale,
            row_number() OVER (PARTITION BY turn.session ORDER BY outcome.id DESC, told.key DESC) AS place
        FROM outcome JOIN turn ON turn.id = outcome.id JOIN session ON session.id = turn.session,
            json_each(outcome.body, '$.facts') AS told
        WHERE turn.epoch = session.epoch AND turn.ended_at IS NOT NULL AND told.key < 1024
    ) WHERE place <= 1000;
    """,
    """
    CREATE TABLE blob (                         -- a file in `blobs`, there before its row and as long as that
        id INTEGER PRIMARY KEY,
        sha256 TEXT NOT NULL UNIQUE,            -- of its content, and its name
        size INTEGER NOT NULL,
        media_type TEXT NOT NULL,
        width INTEGER NOT NULL,                 -- of an image, else 0
        height INTEGER NOT NULL,
        waiting_since INTEGER                   -- for its first use; NULL once it had one
    ) STRICT;

    CREATE TABLE blob_use (
        user TEXT NOT NULL,                     -- 'message', 'answer' or 'session'
        row INTEGER NOT NULL,                   -- its number
        blob INTEGER NOT NULL REFERENCES blob,
        PRIMARY KEY (user, row, blob)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX blob_use_of ON blob_use (blob);
    """,
    """
    CREATE TABLE joined (                       -- messages that another's turn answers too
        id INTEGER PRIMARY KEY REFERENCES inbound,
        turn INTEGER NOT NULL,
        name TEXT NOT NULL                      -- of its words in the conversation
    ) STRICT;
    CREATE INDEX joined_by ON joined (turn);
    """,
    """
    ALTER TABLE inbound ADD COLUMN stop TEXT;   -- that somebody stopped it, as JSON; it may not have come to that yet
    """,
    """
    ALTER TABLE fact ADD COLUMN venue TEXT NOT NULL DEFAULT '';     -- of a price: where it was traded,
    ALTER TABLE fact ADD COLUMN phase TEXT NOT NULL DEFAULT '';     -- and in which part of the trading day
    """,
    """
    CREATE TABLE carried_over (                 -- messages that the next turn of their sender has to know of
        id INTEGER PRIMARY KEY REFERENCES inbound,
        line TEXT                               -- of one that was left out of a full line; NULL: its turn has asked
    ) STRICT;
    """,
    """
    ALTER TABLE spend ADD COLUMN overstated INTEGER NOT NULL DEFAULT 0;     -- calls whose report was not possible
    """,
)
