"""The JSON Lines store: conversations in plain files, everything else in SQLite, which decides what has happened.

A commit comes in three steps under the session's write lock: the events are on disk, the database commits, the base
follows. Only the second decides. Whatever the third leaves undone is done when the session is next looked at.
"""

import logging
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import apsw
from msgspec.structs import replace

from finclaw.errors import SessionError, StoreFailed
from finclaw.kernel.envelope import Inbound
from finclaw.kernel.erasure import Erased, PartOf, SenderId
from finclaw.kernel.event import Emit
from finclaw.kernel.fact import Fact
from finclaw.kernel.message import Append, Message, TurnEvent
from finclaw.kernel.port import Clock
from finclaw.kernel.record import (
    Accepted,
    Claim,
    ClaimOnAccept,
    Finish,
    IntegrityFinding,
    OutboxItem,
    Pruned,
    Reserve,
    SessionPage,
    SessionRecord,
    Spend,
    TurnCalls,
    TurnTrace,
)
from finclaw.kernel.scope import Outcome
from finclaw.storage.jsonl.directories import SESSIONS, copy_sessions
from finclaw.storage.jsonl.files import Files
from finclaw.storage.jsonl.null_transcript import UNCOUNTED, NullTranscript, restore_count, set_count
from finclaw.storage.jsonl.open_sessions import OpenSessions
from finclaw.storage.jsonl.record import MessageLine
from finclaw.storage.jsonl.removal import Removal
from finclaw.storage.jsonl.tasks import FileTasks
from finclaw.storage.jsonl.transcript import copy_name
from finclaw.storage.sqlite import conversation, inbox
from finclaw.storage.sqlite.codec import PublicIds, to_micros
from finclaw.storage.sqlite.database import open_database
from finclaw.storage.sqlite.erasure import Target
from finclaw.storage.sqlite.store import SqliteStore, open_writer
from finclaw.storage.sqlite.writer import Writer
from finclaw.transcript.fold import fold

log = logging.getLogger(__name__)

T = TypeVar("T")
_Then = Callable[[], None]


def open_jsonl_store(
    state: Path,
    path: Path,
    clock: Clock,
    emit: Emit,
    *,
    threaded: bool = True,
    database: apsw.Connection | None = None,
    files: Files | None = None,
) -> "JsonlStore":
    """As `open_store`; the conversations are in the state directory, the rest in the database at `path`."""
    writer, ids = open_writer(database or open_database(path), path, threaded=threaded)
    return JsonlStore(state / SESSIONS, writer, clock, ids, emit, threaded=threaded, files=files or Files())


class JsonlStore(SqliteStore):
    transcript = NullTranscript()
    writes_files = True

    def __init__(
        self, place: Path, writer: Writer, clock: Clock, ids: PublicIds, emit: Emit, *, threaded: bool, files: Files
    ) -> None:
        super().__init__(writer, clock, ids)
        self._sessions = OpenSessions(place, clock, emit, ids, self._commit, self._read, files=files, threaded=threaded)
        self._removal = Removal(self._sessions, self._read, ids.database)
        self._tasks = FileTasks()
        self._place = place

    # ── turns ───────────────────────────────────────────────────────────────────────────────────────────────

    async def accept(
        self,
        inbound: Inbound,
        session: str,
        then: Callable[[Accepted], None],
        claim_on_accept: ClaimOnAccept | None = None,
    ) -> Accepted:
        """No head start: a turn's claim looks into the session's files, which an acceptance does not wait for."""
        return await super().accept(inbound, session, then)

    async def claim(
        self,
        accepted: Accepted,
        first: Sequence[TurnEvent],
        known_version: int | None,
        then: Callable[[Claim], None] | None = None,
        reserve: Reserve | None = None,
    ) -> Claim:
        return await self._whole(self._claim(accepted, tuple(first), known_version, then, reserve))

    async def _claim(
        self,
        accepted: Accepted,
        first: tuple[TurnEvent, ...],
        known: int | None,
        then: Callable[[Claim], None] | None,
        reserve: Reserve | None,
    ) -> Claim:
        turn = self._ids.turn(inbox.must_row(self._ids, accepted.id))
        async with self._sessions.hold(accepted.session) as hands:
            # Read before the commit: once it stands, nothing may fail any more.
            base = None if hands.files.version == known else await hands.do(hands.files.messages)
            logged = hands.logs.events(turn)
            begun = () if logged else first
            await hands.do(lambda: hands.logs.append(turn, len(logged), begun))
            try:
                claim = await super().claim(accepted, logged or first, known, reserve=reserve)
            except Exception:
                await hands.do(lambda: hands.logs.undo(turn, begun))
                raise
            claim = replace(claim, base=base)
            if then is not None:
                then(claim)
            return claim

    async def record(
        self, claim: Claim, seq: int, events: Sequence[TurnEvent], then: _Then, calls: TurnCalls | None = None
    ) -> None:
        await self._whole(self._record(claim, seq, tuple(events), then, calls))

    async def _record(
        self, claim: Claim, seq: int, events: tuple[TurnEvent, ...], then: _Then, calls: TurnCalls | None
    ) -> None:
        async with self._sessions.hold(claim.session) as hands:
            await super().record(claim, seq, events, lambda: None, calls)
            if events:
                await hands.do(lambda: hands.logs.append(claim.turn_id, seq, events))
            try:
                then()
            except Exception:  # the events are on disk, whatever becomes of who is told
                log.exception("what was to follow a commit failed")

    async def finish(self, finish: Finish, then: Callable[[], None]) -> bool:
        return await self._whole(self._finish(finish, finish.turn_id, finish.events, then))

    async def _finish(self, finish: Finish, turn: str, last: tuple[TurnEvent, ...], then: _Then) -> bool:
        async with self._sessions.hold(finish.session) as hands:
            logged = hands.logs.events(turn)
            await hands.do(lambda: hands.logs.append(turn, len(logged), last, ending=True))
            try:
                done = await super().finish(replace(finish, events=(*logged, *last)), then)
            except Exception:
                await hands.do(lambda: hands.logs.undo(turn, last))
                raise
            if done:
                await hands.afterwards(lambda: hands.files.fold(turn, hands.files.version + 1))
            else:
                await hands.afterwards(lambda: hands.logs.drop(turn))
            return done

    async def end(
        self,
        inbound_id: str,
        outcome: Outcome,
        units: Sequence[OutboxItem],
        then: Callable[[], None],
        spend: Sequence[Spend] = (),
        *,
        begun: bool = True,
    ) -> bool:
        return await self._whole(self._end(inbound_id, outcome, units, then, spend, begun=begun))

    async def _end(
        self,
        inbound_id: str,
        outcome: Outcome,
        units: Sequence[OutboxItem],
        then: Callable[[], None],
        spend: Sequence[Spend],
        *,
        begun: bool,
    ) -> bool:
        done = await super().end(inbound_id, outcome, units, then, spend, begun=begun)
        turn = await self._read(lambda db: conversation.turn_of(db, self._ids, inbound_id)) if done else None
        if turn is not None:
            await self._forget_log(*turn)
        return done

    async def _forget_log(self, turn: str, session: str) -> None:
        try:
            async with self._sessions.hold(session) as hands:
                await hands.afterwards(lambda: hands.logs.drop(turn))
        except SessionError as error:  # the end stands; a log of no use is recognised at the next look
            log.warning("the log of turn %s is left for later: %s", turn, error)

    async def turn(self, turn_id: str) -> TurnTrace | None:
        story = await super().turn(turn_id)
        return None if story is None else await self._whole(self._add_messages(story))

    async def _add_messages(self, story: TurnTrace) -> TurnTrace:
        """The turn's messages are those whose lines name it, and what it began with are those of earlier turns."""
        turn = story.record.turn_id
        row = inbox.must_row(self._ids, turn)
        lines, logged = await self._lines(story.record.session, turn)
        if story.record.ended_at is None:
            own = tuple(fold((), logged))
            return replace(story, before=tuple(line.message for line in lines), messages=own, whole=True)
        added = await self._read(lambda db: conversation.count_added(db, row))
        own = tuple(line.message for line in lines if line.turn == turn)
        before = tuple(line.message for line in lines if (self._ids.row(line.turn) or 0) < row)
        return replace(story, before=before if added else (), messages=own, whole=0 < len(own) == added)

    # ── whole sessions ──────────────────────────────────────────────────────────────────────────────────────

    async def messages(self, session: str) -> Sequence[Message]:
        return await self._whole(self._messages(session))

    async def _messages(self, session: str) -> tuple[Message, ...]:
        if not await self._has_files(session):
            return ()
        lines, _ = await self._lines(session)
        return tuple(line.message for line in lines)

    async def _lines(self, session: str, turn: str = "") -> tuple[Sequence[MessageLine], Sequence[TurnEvent]]:
        """What was said, and the log of a turn; also from a disk that takes no writes, not even a lock's."""
        try:
            async with self._sessions.hold(session) as hands:
                return await hands.do(hands.files.lines), hands.logs.events(turn)
        except StoreFailed as error:
            log.warning("session %r is read as it stands: %s", session, error)
        return await self._sessions.look(session, turn)

    async def reset(self, session: str) -> None:
        await self._whole(self._reset(session))

    async def _reset(self, session: str) -> None:
        if not await self._has_files(session):
            await super().reset(session)
            return
        async with self._sessions.hold(session) as hands:
            await super().reset(session)
            await hands.afterwards(lambda: hands.files.rewrite((), hands.files.version + 1))

    async def sessions(self, limit: int, after: str | None = None, containing: str = "") -> SessionPage:
        page = await super().sessions(limit, after, containing)
        return replace(page, items=tuple([await self._count_messages(each) for each in page.items]))

    async def _count_messages(self, record: SessionRecord) -> SessionRecord:
        if record.messages != UNCOUNTED:
            return record
        messages = len(await self.messages(record.key))
        with suppress(StoreFailed):  # it is counted again next time
            await self._commit(lambda db: set_count(db, record.key, messages))
        return replace(record, messages=messages)

    async def restore(self, session: str, messages: Sequence[Message], facts: Sequence[Fact] = ()) -> None:
        await self._whole(self._restore(session, tuple(messages), facts))

    async def _restore(self, session: str, messages: tuple[Message, ...], facts: Sequence[Fact]) -> None:
        if len({message.id for message in messages}) < len(messages):
            raise SessionError("two of the messages have the same id; ids are unique in a conversation")
        now = self._clock.now()
        await self._commit(lambda db: conversation.begin_session(db, session, now))
        async with self._sessions.hold(session) as hands:
            if held := len(await hands.do(hands.files.messages)):
                raise SessionError(f"session {session!r} has {held} messages already; choose another key, or reset it")
            version = max(hands.files.version + 1, to_micros(now))
            turn, events = copy_name(version), tuple(map(Append, messages))
            await hands.do(lambda: hands.logs.append(turn, 0, events))
            try:
                await self._commit(lambda db: restore_count(db, session, messages, facts, now))
            except Exception:
                await hands.do(lambda: hands.logs.undo(turn, events))
                raise
            await hands.afterwards(lambda: hands.files.fold(turn, version))

    async def repair(self, session: str, *, dry_run: bool = False) -> Sequence[IntegrityFinding]:
        return await self._whole(self._repair(session, dry_run))

    async def _repair(self, session: str, dry_run: bool) -> tuple[IntegrityFinding, ...]:
        if not await self._has_files(session):
            return ()
        async with self._sessions.hold(session) as hands:
            found = await hands.do(hands.files.look)
            if found and not dry_run:
                await hands.do(hands.files.repair)
                # Whoever has a copy in memory must know that it is not current any more.
                await self._commit(lambda db: (conversation.touch(db, session), set_count(db, session, UNCOUNTED)))
                await hands.afterwards(lambda: hands.files.rewrite(hands.files.lines(), hands.files.version + 1))
            return found

    async def prune(self, before: datetime, *, dry_run: bool = False) -> Pruned:
        if dry_run:
            return await super().prune(before, dry_run=True)
        present = await self._removal.present()
        pruned = await super().prune(before)
        await self._whole(self._removal.remove(present, before))
        return pruned

    async def erase_session(self, session: str, *, dry_run: bool = False) -> Erased:
        erased = await super().erase_session(session, dry_run=dry_run)
        if not dry_run:
            await self._whole(self._removal.erase_left(lambda key: key == session))
        return erased

    async def erase_person(self, person: SenderId, part_of: PartOf, *, dry_run: bool = False) -> Erased:
        erased = await super().erase_person(person, part_of, dry_run=dry_run)
        if not dry_run:
            await self._whole(self._removal.erase_left(lambda key: part_of(key) == "own"))
        return erased

    async def _erase(self, target: Target) -> int:
        return await self._whole(self._removal.erase(target, super()._erase))

    async def _has_files(self, session: str) -> bool:
        """A question about a session that is not there must not leave anything behind."""
        row = await self._read(lambda db: conversation.session_row(db, session))
        return row is not None and self._sessions.directories.of(session).is_dir()

    # ── the whole ───────────────────────────────────────────────────────────────────────────────────────────────

    async def _whole(self, work: Coroutine[Any, Any, T]) -> T:
        """Do all of it, also when the caller is cancelled meanwhile; the caller leaves when it is done."""
        return await self._tasks.run(work)

    async def copy_into(self, directory: Path) -> None:
        """Nobody is at the files from just before the database's snapshot until they are copied."""
        async with self._tasks.pause() as resume:

            def copy_files() -> None:
                copy_sessions(self._place, directory / SESSIONS)
                resume()

            await self._copy_database(directory, copy_files)

    async def close(self) -> None:
        await self._tasks.close()
        await self._sessions.close()
        await super().close()
