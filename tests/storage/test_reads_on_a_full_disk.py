"""Reading does not depend on what others write: a disk that refuses every write refuses no read."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import date
from pathlib import Path

import aiohttp
import pytest
from tests.ports.nouns import answer, take, written
from tests.support.disk import Disk

from finclaw.channels.mailbox import MailboxChannel
from finclaw.composition.gateway import build
from finclaw.config.schema import Settings, StorageSettings
from finclaw.diagnostics.event_stream import EventStream
from finclaw.errors import StoreFailed
from finclaw.kernel.envelope import Inbound, Sender
from finclaw.kernel.store_port import Store
from finclaw.redaction import Secret
from finclaw.storage.jsonl.store import open_jsonl_store
from finclaw.storage.kinds import StoreKind
from finclaw.storage.sqlite.database import open_database
from finclaw.storage.sqlite.store import open_store
from finclaw.testing import FakeClock
from finclaw.web.server import serve_web
from finclaw.web.settings import WebServerSettings


@asynccontextmanager
async def on_disk(disk: Disk, state: Path, kind: str) -> AsyncGenerator[Store]:
    path, clock = state / "finclaw.db", FakeClock()
    db = open_database(path, vfs=disk.name)
    if kind == "jsonl":
        store: Store = open_jsonl_store(state, path, clock, EventStream().emit, database=db)
    else:
        store = open_store(path, clock, database=db)
    try:
        yield store
    finally:
        disk.heal()
        await store.close()


def every_read(store: Store, inbound_id: str, session: str) -> Sequence[Callable[[], Awaitable[object]]]:
    return (
        lambda: store.find(inbound_id),
        lambda: store.turns(10),
        lambda: store.turn(inbound_id),
        lambda: store.sessions(10),
        lambda: store.messages(session),
        lambda: store.unasked(session, None),
        store.counts,
        lambda: store.costs(date(2026, 1, 1), "day"),
        lambda: store.approvals(("pending",)),
        lambda: store.approval("ap-none"),
        store.grants,
        lambda: store.recall("some", session),
        store.pending,
        store.unfinished,
    )


@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
async def test_a_full_disk_refuses_no_read(tmp_path: Path, kind: str) -> None:
    """Each read is asked for in the same round of the loop as a write, so that they would share a commit."""
    with Disk(f"full-{kind}") as disk:
        async with on_disk(disk, tmp_path, kind) as store:
            first = await take(store, written("hello", id="1"))
            await answer(store, first)
            disk.fail(error="full", ops=("write", "sync", "truncate"), forever=True)
            for number, read in enumerate(every_read(store, first.id, first.session)):
                refused, found = await asyncio.gather(
                    take(store, written(id=f"w{number}")), read(), return_exceptions=True
                )
                assert isinstance(refused, StoreFailed)
                assert not isinstance(found, BaseException), f"read {number}: {found!r}"
            record = await store.find(first.id)
            assert record is not None
            assert record.state == "ended"
            assert [each.messages for each in (await store.sessions(10)).items] == [2]


@pytest.mark.parametrize("threaded", [True, False])
async def test_a_read_sees_what_was_written_before_it(tmp_path: Path, threaded: bool) -> None:
    store = open_store(tmp_path / "finclaw.db", FakeClock(), threaded=threaded)
    for number in range(20):
        accepted = await take(store, written(id=str(number)), f"s{number}")
        assert await store.find(accepted.id) is not None
        assert (await store.counts()).waiting == number + 1
    await store.close()


async def test_reads_of_one_round_fail_alone(tmp_path: Path) -> None:
    """A question that cannot be answered takes neither the other reads nor the writes with it."""
    store = open_store(tmp_path / "finclaw.db", FakeClock())
    one, other, bad, counts = await asyncio.gather(
        take(store, written(id="1"), "a"),
        take(store, written(id="2"), "b"),
        store.sessions(10, after="nonsense"),
        store.counts(),
        return_exceptions=True,
    )
    assert isinstance(bad, Exception)
    assert not isinstance(one, BaseException)
    assert not isinstance(other, BaseException)
    assert not isinstance(counts, BaseException)
    await store.close()


@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
async def test_the_api_answers_every_get_while_the_disk_is_full(tmp_path: Path, kind: StoreKind) -> None:
    """Each GET is sent together with a message that cannot be taken. `finclaw status` asks the last of them."""
    asked = Inbound(text="What is AAPL trading at?", channel="web", account="owner", sender=Sender("owner"))
    token = "t" * 43
    settings = Settings(state=tmp_path, storage=StorageSettings(kind=kind))
    with Disk(f"full-api-{kind}", default=True) as disk:
        async with (
            build(settings, channels=[MailboxChannel("web")]) as app,
            serve_web(app, WebServerSettings(port=0), Secret(token)) as server,
            aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"}) as http,
        ):
            assert (await app.handle(asked)).kind == "answered"
            (turn,) = await app.turns(1)
            await app.idle()
            disk.fail(error="full", ops=("write", "sync", "truncate"), forever=True)

            async def get(path: str) -> int:
                async with http.get(f"{server.url}/api/v1/{path}") as response:
                    await response.read()
                    return response.status

            async def post(number: int) -> int:
                body = {"message_id": f"late-{number}", "text": "hello"}
                async with http.post(f"{server.url}/api/v1/messages", json=body) as response:
                    return response.status

            message = f"messages/{turn.inbound_id}"
            paths = (message, "messages", "sessions", "turns", f"turns/{turn.turn_id}", "approvals", "costs", "status")
            for number, path in enumerate(paths):
                assert await asyncio.gather(post(number), get(path)) == [503, 200], path
            disk.heal()
