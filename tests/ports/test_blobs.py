"""The contract of the BlobStore port: a file is there as long as something refers to it, and no longer."""

import hashlib
import random
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import apsw
import pytest
from msgspec.structs import replace
from tests.ports.bench import Bench
from tests.ports.nouns import ended, ending, nobody, nothing, said, take, written
from tests.ports.pictures import png
from tests.ports.state_search import found_in

from finclaw.errors import BlobRefused, SessionError
from finclaw.kernel.envelope import Attachment, Inbound, Outbound, OutboundFile
from finclaw.kernel.message import Append, Image, Message
from finclaw.kernel.record import Accepted, Blob, OutboxItem, TextRange
from finclaw.kernel.store_port import Store
from finclaw.storage.blobs.directory import BLOBS, MOST_BYTES
from finclaw.testing import SimulatedCrash, crash_at

SECRET = "a picture of the green elephant"


def with_picture(blob: Blob, *, id: str = "1") -> Inbound:
    picture = Attachment(id="a", kind="image", mime=blob.media_type, blob=blob.sha256)
    return replace(written("look", id=id), attachments=(picture,))


def shown(blob: Blob, *, id: str = "1") -> Message:
    message = said(f"q-{id}")
    return replace(message, blocks=(*message.blocks, Image(blob.media_type, blob=blob.sha256)))


async def answered(store: Store, blob: Blob, session: str = "s", *, id: str = "1") -> Accepted:
    """A message with a picture, which is in the conversation from then on, and its answer, which was sent."""
    accepted = await take(store, with_picture(blob, id=id), session)
    claim = await store.claim(accepted, [Append(shown(blob, id=id))], None)
    finish = ending(store, accepted, claim, "nice", events=[Append(said(f"a-{id}", role="assistant"))])
    assert await store.finish(finish, nothing)
    await store.settle(*(replace(unit, state="sent") for unit in finish.units))
    return accepted


async def prune(bench: Bench) -> None:
    """All that is old by now; the newest message of all stays in any case, so another comes."""
    bench.clock.advance(timedelta(days=400).total_seconds())
    newest = await take(bench.store, written(id=f"newest {bench.clock.now()}"), "other")
    await bench.store.end(newest.id, ended("skipped", None), (), nothing)
    await bench.store.prune(bench.clock.now() - timedelta(days=365))


def files(bench: Bench) -> set[str]:
    place = bench.where / BLOBS
    return {path.name for path in place.iterdir()} if place.is_dir() else set()


def rows(bench: Bench) -> set[str]:
    db = apsw.Connection(str(bench.where / "x.db"), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return {str(name) for (name,) in db.execute("SELECT sha256 FROM blob")}
    finally:
        db.close()


# ── keeping ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_file_is_kept_under_its_hash_and_comes_back(bench: Bench):
    data = png(640, 480)
    blob = await bench.store.put_blob(data, "image/jpeg")
    assert blob == Blob(hashlib.sha256(data).hexdigest(), len(data), "image/png", 640, 480)
    path = bench.where / BLOBS / blob.sha256
    assert path.read_bytes() == data
    assert path.stat().st_mode & 0o077 == 0, "nobody else reads it"
    store = await bench.reopen()
    assert await store.read_blob(blob.sha256) == data


async def test_what_is_no_image_is_kept_as_it_is(store: Store):
    blob = await store.put_blob(b"%PDF-1.7", "application/pdf")
    assert (blob.media_type, blob.width, blob.height) == ("application/pdf", 0, 0)
    assert (await store.put_blob(b"anything")).media_type == "application/octet-stream"


async def test_the_same_content_is_kept_once(bench: Bench):
    first = await bench.store.put_blob(png())
    assert await bench.store.put_blob(png()) == first
    assert files(bench) == rows(bench) == {first.sha256}


@pytest.mark.parametrize(
    ("data", "media_type", "why"),
    [
        (b"", "image/png", "empty"),
        (bytes(MOST_BYTES + 1), "video/mp4", "20,000,000"),
        (png(50_000, 50_000), "image/png", "50,000 × 50,000 pixels"),
        (b"<html>", "image/png", "no image/png"),
        (png()[:20], "image/png", "cut off"),
    ],
    ids=["empty", "large", "pixels", "other", "cut"],
)
async def test_what_is_refused_leaves_nothing(bench: Bench, data: bytes, media_type: str, why: str):
    with pytest.raises(BlobRefused, match=why):
        await bench.store.put_blob(data, media_type)
    assert files(bench) == rows(bench) == set()


@pytest.mark.parametrize("name", ["", "0" * 64, "../x.db", "x" * 64])
async def test_what_is_not_there_is_none(store: Store, name: str):
    await store.put_blob(png())
    assert await store.read_blob(name) is None


# ── uses ────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_message_refers_only_to_what_is_kept(store: Store):
    unknown = Blob("0" * 64, 1, "image/png")
    with pytest.raises(SessionError, match="put it first"):
        await store.accept(with_picture(unknown), "s", nobody)
    assert await store.unfinished() == []


async def test_a_file_that_is_fetched_later_is_kept_with_its_message(bench: Bench):
    known = Attachment(id="a", kind="file", mime="text/csv", name="a.csv")
    other = Attachment(id="b", kind="audio")
    inbound = replace(written("look"), attachments=(known, other))
    accepted = await take(bench.store, inbound, "s")
    blob = await bench.store.put_blob(b"a,b", "text/csv")
    fetched = replace(known, blob=blob.sha256)
    for _ in range(2):  # as often as one likes
        await bench.store.keep_attachments(accepted.id, [fetched])
    store = await bench.reopen()
    (again,) = await store.unfinished()
    assert again.inbound == replace(inbound, attachments=(fetched, other))
    assert (await store.accept(inbound, "s", nobody)).duplicate, "the platform knows nothing of our copy"
    bench.clock.advance(7_200)
    assert await store.sweep_blobs() == 0
    await store.end(accepted.id, ended("skipped", None), (), nothing)
    await store.erase_session("s")
    assert files(bench) == rows(bench) == set()


async def test_files_of_a_message_that_has_ended_are_left_alone(bench: Bench):
    accepted = await take(bench.store, written(), "s")
    await bench.store.end(accepted.id, ended("skipped", None), (), nothing)
    await bench.store.keep_attachments(accepted.id, [Attachment(id="a", kind="file", blob="0" * 64)])


async def test_a_picture_goes_with_the_last_message_that_refers_to_it(bench: Bench):
    store = bench.store
    blob = await store.put_blob(png())
    for session in ("s", "t"):
        await answered(store, blob, session, id=session)
    assert (await store.erase_session("s")).messages == 1
    assert files(bench) == rows(bench) == {blob.sha256}
    await prune(bench)
    assert files(bench) == rows(bench) == set()


def chart(blob: Blob) -> Outbound:
    return Outbound(text="the chart", attachments=(OutboundFile(blob=blob.sha256, name="a.png", mime=blob.media_type),))


async def answered_with_chart(store: Store, blob: Blob, way: str) -> tuple[OutboxItem, ...]:
    """An answer with a file, which is planned: by the end of a turn, while it runs, or without a turn."""
    accepted = await take(store, written(), "s")
    if way == "end":
        items = store.plan(accepted, [chart(blob)], None)
        assert await store.end(accepted.id, ended("command"), items, nothing)
        return items
    claim = await store.claim(accepted, [Append(said("q"))], None)
    items = store.plan(accepted, [chart(blob)], claim.turn_id)
    if way == "append":
        items = tuple(replace(each, span=TextRange(0, 0, "the chart")) for each in items)
        await store.append_items(claim, items, lambda _: None)
    finish = ending(store, accepted, claim, events=[Append(said("a", role="assistant"))])
    assert await store.finish(replace(finish, units=() if way == "append" else items), nothing)
    return items


@pytest.mark.parametrize("way", ["finish", "append", "end"])
async def test_the_file_of_an_answer_is_there_until_the_answer_is_gone(bench: Bench, way: str, tmp_path: Path):
    blob = await bench.store.put_blob(png())
    items = await answered_with_chart(bench.store, blob, way)
    await bench.store.reset("s")
    await prune(bench)
    assert await bench.store.sweep_blobs() == 0
    store = await bench.reopen()
    (waiting,) = await store.pending()
    assert await store.read_blob(waiting.outbound.attachments[0].blob) == png(), "it is still to be sent"
    copy = tmp_path / "copy"
    copy.mkdir()
    await store.copy_into(copy)
    assert (copy / BLOBS / blob.sha256).read_bytes() == png()
    await store.settle(*(replace(each, state="sent") for each in items))
    await prune(bench)
    assert files(bench) == rows(bench) == set()


@pytest.mark.parametrize("way", ["finish", "append", "end"])
async def test_the_file_of_an_answer_is_erased_with_it(bench: Bench, way: str):
    blob = await bench.store.put_blob(png())
    await answered_with_chart(bench.store, blob, way)
    await bench.store.erase_session("s")
    assert files(bench) == rows(bench) == set()


async def test_the_file_of_an_extensions_own_words_waits_with_them(bench: Bench):
    """They may wait for hours: behind a long turn, or for the next start."""
    blob = await bench.store.put_blob(png())
    words = replace(written(), from_extension="alerts", saying=chart(blob))
    accepted = await take(bench.store, words, "s")
    bench.clock.advance(7_200)
    store = await bench.reopen()
    assert await store.sweep_blobs() == 0
    await store.end(accepted.id, ended("command"), store.plan(accepted, [chart(blob)], None), nothing)
    await store.erase_session("s")
    assert files(bench) == rows(bench) == set()


async def test_a_conversation_keeps_its_pictures_when_its_old_messages_are_pruned(bench: Bench):
    store = bench.store
    blob = await store.put_blob(png())
    await answered(store, blob)
    bench.clock.advance(timedelta(days=399).total_seconds())
    await take(store, written(id="2"), "s")  # the session is in use, and its conversation stays
    await prune(bench)
    assert [block for each in await store.messages("s") for block in each.blocks if isinstance(block, Image)]
    assert await store.read_blob(blob.sha256) == png()
    assert files(bench) == rows(bench) == {blob.sha256}


async def test_a_reset_lets_go_of_the_pictures_of_a_conversation(bench: Bench):
    store = bench.store
    blob = await store.put_blob(png())
    await answered(store, blob)
    await store.reset("s")
    assert await store.read_blob(blob.sha256), "the message itself still refers to it"
    await prune(bench)
    assert files(bench) == rows(bench) == set()


async def test_a_copied_conversation_refers_to_its_pictures_too(bench: Bench):
    store = bench.store
    blob = await store.put_blob(png())
    await answered(store, blob)
    await store.restore("copy", await store.messages("s"))
    await store.erase_session("s")
    assert await store.read_blob(blob.sha256)
    await store.erase_session("copy")
    assert files(bench) == rows(bench) == set()


async def test_what_was_erased_leaves_no_bytes(bench: Bench):
    store = bench.store
    blob = await store.put_blob(png(salt=SECRET))
    await answered(store, blob)
    assert found_in(bench.where, SECRET)
    await store.erase_session("s")
    await store.scrub()
    assert found_in(bench.where, SECRET) == []
    assert found_in(bench.where, blob.sha256) == []


async def test_a_look_at_an_erasure_erases_nothing(bench: Bench):
    blob = await bench.store.put_blob(png())
    await answered(bench.store, blob)
    await bench.store.erase_session("s", dry_run=True)
    bench.clock.advance(timedelta(days=400).total_seconds())
    await bench.store.prune(bench.clock.now(), dry_run=True)
    assert files(bench) == rows(bench) == {blob.sha256}


async def test_what_nobody_has_used_yet_waits_an_hour(bench: Bench):
    store = bench.store
    blob = await store.put_blob(png())
    bench.clock.advance(1_800)
    await prune_nothing(bench)
    assert await store.sweep_blobs() == 0
    bench.clock.advance(1_801)
    assert await store.sweep_blobs() == 1
    assert await store.read_blob(blob.sha256) is None
    assert files(bench) == set()


async def prune_nothing(bench: Bench) -> None:
    await bench.store.prune(bench.clock.now() - timedelta(days=365))


async def test_who_puts_it_again_waits_anew(bench: Bench):
    await bench.store.put_blob(png())
    bench.clock.advance(3_000)
    blob = await bench.store.put_blob(png())
    bench.clock.advance(3_000)
    assert await bench.store.sweep_blobs() == 0
    await answered(bench.store, blob)


# ── crashes ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_crash_before_the_row_leaves_a_file_that_is_swept(bench: Bench):
    with crash_at("blob:after_file"), suppress(SimulatedCrash):
        await bench.store.put_blob(png())
    assert len(files(bench)) == 1
    assert rows(bench) == set()
    assert await (await bench.reopen()).sweep_blobs() == 1
    assert files(bench) == set()


async def test_a_crash_behind_the_row_leaves_a_whole_blob(bench: Bench):
    with crash_at("blob:after_commit"), suppress(SimulatedCrash):
        await bench.store.put_blob(png())
    store = await bench.reopen()
    assert await store.sweep_blobs() == 0
    assert files(bench) == rows(bench) != set()


async def test_a_crash_before_a_file_goes_leaves_no_row_without_one(bench: Bench):
    blob = await bench.store.put_blob(png(salt=SECRET))
    await answered(bench.store, blob)
    with crash_at("blob:before_erase"), suppress(SimulatedCrash):
        await bench.store.erase_session("s")
    assert rows(bench) == set()
    assert files(bench) == {blob.sha256}
    assert await (await bench.reopen()).sweep_blobs() == 1
    await bench.store.scrub()
    assert found_in(bench.where, SECRET) == []


async def test_a_half_written_file_is_swept(bench: Bench):
    blob = await bench.store.put_blob(png())
    (bench.where / BLOBS / f".{'0' * 64}.new").write_bytes(b"half")
    assert await bench.store.sweep_blobs() == 1
    assert files(bench) == {blob.sha256}


async def test_a_file_that_somebody_took_away_is_told(bench: Bench, caplog: pytest.LogCaptureFixture):
    blob = await bench.store.put_blob(png())
    (bench.where / BLOBS / blob.sha256).unlink()
    assert await bench.store.sweep_blobs() == 0
    assert await bench.store.read_blob(blob.sha256) is None
    assert "is missing" in caplog.text


@pytest.mark.parametrize("seed", range(4))
async def test_whatever_is_done_files_and_rows_are_the_same(bench: Bench, seed: int):
    dice, kept = random.Random(seed), list[Blob]()
    for step in range(40):
        await do_anything(bench, dice, kept, f"{seed}-{step}")
        assert files(bench) == rows(bench)
        for session in "stu":
            blocks = [block for message in await bench.store.messages(session) for block in message.blocks]
            assert {block.blob for block in blocks if isinstance(block, Image)} <= rows(bench)


async def do_anything(bench: Bench, dice: random.Random, kept: list[Blob], name: str) -> None:
    store, session = bench.store, dice.choice("stu")
    match dice.choice(("put", "ask", "ask", "reset", "erase", "prune", "sweep", "reopen")):
        case "put":
            kept.append(await store.put_blob(png(salt=str(dice.randint(0, 5)))))
        case "ask" if kept:
            with suppress(SessionError):  # of a blob that is gone by now
                await answered(store, dice.choice(kept), session, id=name)
        case "reset":
            await store.reset(session)
        case "erase":
            await store.erase_session(session)
        case "prune":
            await prune(bench)
        case "sweep":
            await store.sweep_blobs()
        case _:
            await bench.reopen()


# ── copies ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_copy_of_the_state_has_its_blobs(bench: Bench, tmp_path: Path):
    blob = await bench.store.put_blob(png())
    await answered(bench.store, blob)
    (bench.where / BLOBS / ("1" * 64)).write_bytes(b"without a row")
    copy = tmp_path / "copy"
    copy.mkdir()
    await bench.store.copy_into(copy)
    assert [path.name for path in (copy / BLOBS).iterdir()] == [blob.sha256]
    assert (copy / BLOBS / blob.sha256).read_bytes() == png()
