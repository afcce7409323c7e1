"""User trial H6: reservations of model calls on disk, from the schema before them, and who settles what is left."""

from datetime import date
from decimal import Decimal
from pathlib import Path

import apsw
import pytest
from msgspec.structs import replace
from tests.ports.nouns import adds, begin, ended, ending, nothing, take, written

from finclaw.agent.budget.call_ledger import from_metadata
from finclaw.errors import Superseded
from finclaw.kernel.chunk import Usage
from finclaw.kernel.message import Append, Message, Source, Text
from finclaw.kernel.record import ClaimOnAccept, Spend, TurnCalls
from finclaw.storage.sqlite.codec import write
from finclaw.storage.sqlite.database import DATABASE
from finclaw.storage.sqlite.schema import MIGRATIONS
from finclaw.storage.sqlite.store import open_store
from finclaw.testing import FakeClock
from finclaw.testing.clock import EPOCH

DAY = date(2026, 3, 4)
BEFORE_RESERVATIONS = 7
"""How many migrations there were."""


def spent(cost: str = "0.1", tokens: int = 100) -> Spend:
    return Spend(
        day=DAY,
        agent="main",
        user="web:ada",
        model="a/one",
        calls=1,
        usage=Usage(tokens, 50),
        cost=Decimal(cost),
        saved=Decimal(0),
    )


def reserve(context: int) -> Spend:
    return spent("0.5", 10 + context)


def older_database(path: Path) -> None:
    """A message that an older release was answering when it died: one answer is in the log, and in no book."""
    answer = Message(
        "a-1", "assistant", (Text("half"),), Source("assistant", "0"), EPOCH, {"usage": [70, 7, 0, 0], "cost": "0.2"}
    )
    question = Message("u-1", "user", (Text("hi"),), Source("user"), EPOCH)
    db = apsw.Connection(str(path))
    for migration in MIGRATIONS[:BEFORE_RESERVATIONS]:
        db.execute(migration)
    db.execute("INSERT INTO meta VALUES ('name', 'older'), ('boot', 7)")
    db.execute("INSERT INTO session (id, key, created_at, version) VALUES (1, 's', 5, 0)")
    db.execute(
        "INSERT INTO inbound (id, name, digest, session, ticket, body, accepted_at, state, attempts) "
        "VALUES (1, x'01', x'00', 1, 1, ?, 7, 'running', 1)",
        (write(written(id="1")),),
    )
    db.execute("INSERT INTO turn (id, session, epoch, status, started_at) VALUES (1, 1, 0, 'running', 7)")
    for place, event in enumerate((Append(question), Append(answer))):
        db.execute("INSERT INTO event VALUES (?, ?)", ((1 << 16) + place, write(event)))
    db.execute(
        "INSERT INTO spend (day, agent, user, model, calls, input, output, cache_read, cache_write, cost, saved) "
        "VALUES ('2026-03-04', 'main', 'web:ada', 'a/one', 3, 30, 15, 0, 0, '0.3', '0')"
    )
    db.execute(f"PRAGMA user_version = {BEFORE_RESERVATIONS}")
    db.close()


async def test_a_state_of_before_keeps_its_books_and_its_turns_go_on(tmp_path: Path) -> None:
    older_database(tmp_path / DATABASE)
    store = open_store(tmp_path / DATABASE, FakeClock())
    (line,) = await store.costs(DAY, "day")
    assert (line.calls, line.cost, line.interrupted, line.interrupted_cost) == (3, Decimal("0.3"), 0, 0)
    (accepted,) = await store.unfinished()
    claim = await store.claim(accepted, adds("u-2"), None, reserve=reserve)
    assert not claim.booked, "the log's answer is for the caller to book"
    assert claim.reserved == (), "its log has more than a question, so tools may come before the next call"
    assert [from_metadata(event.message).cost for event in claim.events[1:] if isinstance(event, Append)] == [
        Decimal("0.2")
    ]
    await store.close()
    store = open_store(tmp_path / DATABASE, FakeClock())
    (accepted,) = await store.unfinished()
    claim = await store.claim(accepted, adds("u-2"), None)
    assert not claim.booked, "and still, when the first that took it up has booked nothing"
    await store.record(claim, 2, adds("x"), nothing, TurnCalls(spend=(spent("0.2"),)))
    assert (await store.claim(accepted, adds("u-2"), None)).booked
    await store.close()


async def test_whoever_opens_the_state_settles_what_the_last_process_left_once(tmp_path: Path) -> None:
    store = open_store(tmp_path / DATABASE, FakeClock())
    accepted = await store.accept(written(id="1"), "s", lambda _: None, ClaimOnAccept(None, reserve))
    assert accepted.claim is not None
    assert [line.cost for line in accepted.claim.reserved] == [Decimal("0.5")]
    assert list(await store.costs(DAY, "day")) == [], "nothing is spent yet"
    for _ in range(3):
        await store.close()
        store = open_store(tmp_path / DATABASE, FakeClock())
        (line,) = await store.costs(DAY, "day")
        assert (line.calls, line.interrupted, line.cost) == (1, 1, Decimal("0.5"))
    (left,) = await store.unfinished()
    claim = await store.claim(left, adds("u"), None, reserve=reserve)
    assert [each.interrupted for each in claim.beside] == [1], "the turn itself knows of it"
    assert await store.finish(ending(store, left, claim, "ok", events=adds("a", role="assistant")), nothing)
    (line,) = await store.costs(DAY, "day")
    assert (line.calls, line.interrupted) == (1, 1), "what the second claim reserved was never used"
    await store.close()


async def test_a_process_that_was_taken_over_books_nothing_more(tmp_path: Path) -> None:
    old = open_store(tmp_path / DATABASE, FakeClock())
    accepted = await old.accept(written(id="1"), "s", lambda _: None, ClaimOnAccept(None, reserve))
    assert accepted.claim is not None
    new = open_store(tmp_path / DATABASE, FakeClock())
    with pytest.raises(Superseded):
        await old.record(accepted.claim, 0, adds("x"), nothing, TurnCalls(spend=(spent(),)))
    with pytest.raises(Superseded):
        await old.release(accepted.id, TurnCalls(spend=(spent(),)))
    (line,) = await new.costs(DAY, "day")
    assert (line.calls, line.interrupted, line.cost) == (1, 1, Decimal("0.5"))
    await old.close()
    await new.close()


async def test_a_turn_that_is_put_back_is_booked_once(tmp_path: Path) -> None:
    store = open_store(tmp_path / DATABASE, FakeClock())
    accepted = await take(store, written(id="1"), "s")
    await begin(store, accepted)
    for _ in range(2):  # the second time there is nothing to put back
        await store.release(accepted.id, TurnCalls(beside=(spent(),), spend=(spent(),)))
    (line,) = await store.costs(DAY, "day")
    assert line.calls == 1
    assert [each.cost for each in (await store.claim(accepted, adds("u"), None)).beside] == [Decimal("0.1")]
    assert await store.end(accepted.id, ended("failed"), (), nothing)
    await store.close()


async def test_the_next_reservation_knows_how_long_the_conversation_is(tmp_path: Path) -> None:
    store = open_store(tmp_path / DATABASE, FakeClock())
    accepted = await take(store, written(id="1"), "s")
    claim = await begin(store, accepted)
    finish = ending(store, accepted, claim, "ok", events=adds("a", role="assistant"))
    assert await store.finish(replace(finish, context=900), nothing)
    accepted = await take(store, written(id="2"), "s")
    claim = await store.claim(accepted, adds("u"), None, reserve=reserve)
    assert [line.usage.input for line in claim.reserved] == [910]
    await store.reset("s")
    accepted = await store.accept(written(id="3"), "other", lambda _: None, ClaimOnAccept(None, reserve))
    assert accepted.claim is not None
    assert [line.usage.input for line in accepted.claim.reserved] == [10]
    await store.close()
