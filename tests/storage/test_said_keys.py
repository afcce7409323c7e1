"""Keys of what extensions said before keys had a table of their own are still known, and for ever from then on."""

from contextlib import closing
from pathlib import Path

import apsw
from msgspec.structs import replace
from tests.ports.nouns import written

from finclaw.storage.sqlite.codec import PublicIds, body_digest, inbound_name, write_inbound
from finclaw.storage.sqlite.database import open_database
from finclaw.storage.sqlite.inbox import accept
from finclaw.storage.sqlite.schema import MIGRATIONS
from finclaw.testing import FakeClock

BEFORE = next(number for number, migration in enumerate(MIGRATIONS) if "said_key" in migration)


def test_the_keys_of_an_earlier_release_are_kept(tmp_path: Path):
    said = replace(written("By the way", id="said:mine:s:k"), from_extension="mine")
    path = tmp_path / "x.db"
    with closing(apsw.Connection(str(path))) as db:
        for migration in MIGRATIONS[:BEFORE]:
            db.execute(migration)
        db.execute(f"PRAGMA user_version = {BEFORE}")
        db.execute("INSERT INTO meta (key, value) VALUES ('name', 'old')")
        db.execute("INSERT INTO session (id, key, created_at, updated_at) VALUES (1, 's', 0, 0)")
        db.execute(
            "INSERT INTO inbound (id, name, digest, session, ticket, body, accepted_at, kind) "
            "VALUES (7, ?, ?, 1, 1, ?, 0, 'command')",
            (inbound_name(said), body_digest(said), write_inbound(said)),
        )
    with closing(open_database(path)) as db:
        db.execute("DELETE FROM inbound")  # as pruning does
        again = accept(db, PublicIds("old"), replace(said, once="here"), "s", FakeClock().now())
    assert (again.id, again.duplicate) == ("m-old-7", True)
