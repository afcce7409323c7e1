"""The JSON Lines store: conversations in plain files, everything else in SQLite, which decides what has happened.

A commit comes in three steps under the session's write lock: the events are on disk, the database commits, the base
follows. Only the second decides. What a crash leaves of the third is done when the session is next used.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from datetime import datetime
from functools import wraps
from pathlib import Path
from types import CoroutineType
from typing import Any, Concatenate, ParamSpec, TypeVar

import apsw
from msgspec.structs import replace

from finclaw.cancellation import wait_shielded
from finclaw.errors import SessionError, StoreFailed
from finclaw.kernel.event import Emit
from finclaw.kernel.fact import Fact
from finclaw.kernel.message import Append, Message, TurnEvent
from finclaw.kernel.port import Clock
from finclaw.kernel.record import (
    Accepted,
    Claim,
    Erased,
    Finish,
    IntegrityFinding,
    PartOf,
    Pruned,
    Reserve,
    SenderId,
    SessionPage,
    SessionRecord,
    TurnCalls,
    TurnTrace,
)
from finclaw.storage.blobs.rows import blobs_in_events
from finclaw.storage.files import Files
from finclaw.storage.jsonl.base import MessageLine
from finclaw.storage.jsonl.directory import SESSIONS, copy_sessions
from finclaw.storage.jsonl.sessions import UNCOUNTED, OpenSessions, set_count
from finclaw.storage.jsonl.transcript import copy_name
from finclaw.storage.sqlite import conversation, inbox
from finclaw.storage.sqlite.codec import PublicIds, to_micros
from finclaw.storage.sqlite.database import open_database
from finclaw.storage.sqlite.sessions import fill
from finclaw.storage.sqlite.store import SqliteStore
from finclaw.storage.sqlite.transcript import Folded, Transcript
from finclaw.storage.sqlite.writer import Writer, open_writer
from finclaw.storage.upkeep.erasure import Target
from finclaw.transcript.fold import fold, touches_only_own

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")


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


def _to_the_end(
    method: Callable[Concatenate["JsonlStore", P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate["JsonlStore", P], "CoroutineType[Any, Any, T]"]:
    """Run the method to its end also when the caller is cancelled; the caller leaves when it is done. Such a method
    must not call another: a copy of the store waits for those that run, and holds back new ones."""

    @wraps(method)
    async def run(self: "JsonlStore", *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.run_to_the_end(lambda: method(self, *args, **kwargs))

    return run


class JsonlStore(SqliteStore):
    """Does the part of the files around the methods of the SQLite store."""

    writes_files = True

    def __init__(
        self, place: Path, writer: Writer, clock: Clock, ids: PublicIds, emit: Emit, *, threaded: bool, files: Files
    ) -> None:
        super().__init__(writer, clock, ids)
        self.transcript = NullTranscript()
        self._sessions = OpenSessions(place, self, clock, emit, files=files, threaded=threaded)
        self._place = place
        self._tasks: set[asyncio.Task[Any]] = set()
        self._resumed = asyncio.Event()
        """Cleared while a copy of the store holds back tasks."""
        self._resumed.set()
        self._closed = False

    @_to_the_end
    async def claim(
        self,
        accepted: Accepted,
        first: Sequence[TurnEvent],
        known_version: int | None,
        then: Callable[[Claim], None] | None = None,
        reserve: Reserve | None = None,
    ) -> Claim:
        row = self.ids.must_row(accepted.id)
        turn = self.ids.turn(row)
        async with self._sessions.hold(accepted.session) as locked:
            base = None
            if locked.files.version != known_version:  # read first: after the commit nothing may fail any more
                base = await locked.do(locked.files.messages)
            logged = locked.logs.events(turn)
            added = tuple(first)
            if logged:  # joined messages that go back to their places leave the log before the database says so
                added = await self.read(lambda db: inbox.unseen_words(db, row, logged))
            async with locked.logged(turn, len(logged), added):
                claim = await super().claim(accepted, (*logged, *added), known_version, reserve=reserve)
            claim = replace(claim, base=base)
            if then is not None:
                then(claim)
            return claim

    @_to_the_end
    async def record(
        self,
        claim: Claim,
        seq: int,
        events: Sequence[TurnEvent],
        then: Callable[[], None],
        calls: TurnCalls | None = None,
    ) -> None:
        async with self._sessions.hold(claim.session) as locked:
            await super().record(claim, seq, events, lambda: None, calls)
            if events:
                await locked.do(lambda: locked.logs.append(claim.turn_id, seq, events))
            try:
                then()
            except Exception:  # the events are on disk, whatever becomes of the callback
                log.exception("what was to follow a commit failed")

    @_to_the_end
    async def join(
        self, claim: Claim, accepted: Accepted, seq: int, events: Sequence[TurnEvent], then: Callable[[], None]
    ) -> bool:
        """Join a message to a turn. If a crash keeps its words from the log, the model has not seen it."""
        async with self._sessions.hold(claim.session) as locked:
            done = await super().join(claim, accepted, seq, events, lambda: None)
            if done:
                await locked.do(lambda: locked.logs.append(claim.turn_id, seq, events))
                then()
            return done

    @_to_the_end
    async def finish(self, finish: Finish, then: Callable[[], None]) -> bool:
        turn = finish.turn_id
        async with self._sessions.hold(finish.session) as locked:
            logged = locked.logs.events(turn)
            async with locked.logged(turn, len(logged), finish.events, ending=True):
                done = await super().finish(replace(finish, events=(*logged, *finish.events)), then)
            if done:
                await locked.afterwards(lambda: locked.files.fold(turn, locked.files.version + 1))
            else:
                await locked.afterwards(lambda: locked.logs.drop(turn))
            return done

    @_to_the_end
    async def end(self, inbound_id: str, *args: Any, **options: Any) -> bool:
        done = await super().end(inbound_id, *args, **options)
        found = await self.read(lambda db: conversation.turn_of(db, self.ids, inbound_id))
        if done and found is not None:
            turn, session = found
            try:
                async with self._sessions.hold(session) as locked:
                    await locked.afterwards(lambda: locked.logs.drop(turn))
            except SessionError as error:  # the end is committed; the next look recognises a log that is not needed
                log.warning("the log of turn %s is left for later: %s", turn, error)
        return done

    async def turn(self, turn_id: str) -> TurnTrace | None:
        trace = await super().turn(turn_id)
        return trace and await self._add_messages(trace)

    @_to_the_end
    async def _add_messages(self, trace: TurnTrace) -> TurnTrace:
        """The turn's messages are those whose lines name it; it began with those of earlier turns."""
        turn = trace.record.turn_id
        row = self.ids.must_row(turn)
        lines, logged = await self._lines(trace.record.session, turn)
        if trace.record.ended_at is None:
            own = tuple(fold((), logged))
            return replace(trace, before=tuple(line.message for line in lines), messages=own, whole=True)
        added = await self.read(lambda db: conversation.count_added(db, row))
        own = tuple(line.message for line in lines if line.turn == turn)
        before = tuple(line.message for line in lines if added and (self.ids.row(line.turn) or 0) < row)
        return replace(trace, before=before, messages=own, whole=0 < len(own) == added)

    @_to_the_end
    async def messages(self, session: str) -> Sequence[Message]:
        if not await self._has_files(session):
            return ()
        lines, _ = await self._lines(session)
        return tuple(line.message for line in lines)

    async def _has_files(self, session: str) -> bool:
        """A question about a session that does not exist must not leave files behind."""
        row = await self.read(lambda db: conversation.session_row(db, session))
        return row is not None and self._sessions.directory(session).is_dir()

    async def _lines(self, session: str, turn: str = "") -> tuple[Sequence[MessageLine], Sequence[TurnEvent]]:
        """Return the session's lines and the log of a turn, also from a disk that takes no writes."""
        try:
            async with self._sessions.hold(session) as locked:
                return await locked.do(locked.files.lines), locked.logs.events(turn)
        except StoreFailed as error:
            log.warning("session %r is read without repair: %s", session, error)
        return await self._sessions.look(session, turn)

    @_to_the_end
    async def reset(self, session: str) -> None:
        if not await self._has_files(session):
            await super().reset(session)
            return
        async with self._sessions.hold(session) as locked:
            await super().reset(session)
            await locked.afterwards(lambda: locked.files.rewrite((), locked.files.version + 1))

    async def sessions(self, limit: int, after: str | None = None, containing: str = "") -> SessionPage:
        page = await super().sessions(limit, after, containing)
        return replace(page, items=tuple([await self._count_messages(record) for record in page.items]))

    async def _count_messages(self, record: SessionRecord) -> SessionRecord:
        if record.messages != UNCOUNTED:
            return record
        messages = len(await self.messages(record.key))
        with suppress(StoreFailed):  # it is counted again next time
            await self.commit(lambda db: set_count(db, record.key, messages))
        return replace(record, messages=messages)

    @_to_the_end
    async def restore(self, session: str, messages: Sequence[Message], facts: Sequence[Fact] = ()) -> None:
        if len({message.id for message in messages}) < len(messages):
            raise SessionError("two of the messages have the same id; ids are unique in a conversation")
        now = self._clock.now()

        def commit(db: apsw.Connection) -> None:
            fill(db, session, messages, facts, now)
            set_count(db, session, len(messages))

        await self.commit(lambda db: conversation.begin_session(db, session, now))
        async with self._sessions.hold(session) as locked:
            if held := len(await locked.do(locked.files.messages)):
                raise SessionError(f"session {session!r} has {held} messages already; choose another key, or reset it")
            version = max(locked.files.version + 1, to_micros(now))
            turn = copy_name(version)
            async with locked.logged(turn, 0, tuple(map(Append, messages))):
                await self.commit(commit)
            await locked.afterwards(lambda: locked.files.fold(turn, version))

    @_to_the_end
    async def repair(self, session: str, *, dry_run: bool = False) -> Sequence[IntegrityFinding]:
        if not await self._has_files(session):
            return ()
        async with self._sessions.hold(session) as locked:
            found = await locked.do(locked.files.look)
            if found and not dry_run:
                await locked.do(locked.files.repair)
                # A copy in memory must be known to be out of date.
                await self.commit(lambda db: (conversation.touch(db, session), set_count(db, session, UNCOUNTED)))
                await locked.afterwards(lambda: locked.files.rewrite(locked.files.lines(), locked.files.version + 1))
            return found

    async def prune(self, before: datetime, *, dry_run: bool = False) -> Pruned:
        if dry_run:
            return await super().prune(before, dry_run=True)
        present = await self._sessions.present()
        pruned = await super().prune(before)
        await self.run_to_the_end(lambda: self._sessions.remove_missing(present, before))
        return pruned

    async def erase_session(self, session: str, *, dry_run: bool = False) -> Erased:
        erased = await super().erase_session(session, dry_run=dry_run)
        if not dry_run:
            await self.run_to_the_end(lambda: self._sessions.erase_missing(lambda key: key == session))
        return erased

    async def erase_person(self, person: SenderId, part_of: PartOf, *, dry_run: bool = False) -> Erased:
        erased = await super().erase_person(person, part_of, dry_run=dry_run)
        if not dry_run:
            await self.run_to_the_end(lambda: self._sessions.erase_missing(lambda key: part_of(key) == "own"))
        return erased

    @_to_the_end
    async def _erase(self, target: Target) -> int:
        return await self._sessions.erase(target, super()._erase)

    async def run_to_the_end(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        await self._resumed.wait()
        if self._closed:
            raise StoreFailed("the store is closed")
        task = asyncio.create_task(work())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            return await wait_shielded(task)
        except StoreFailed as error:
            if error.why != "failed":  # the error of a file beside the database
                self._writer.health.change(error)
            raise

    async def copy_into(self, directory: Path) -> None:
        """Copy database and files. No file changes from just before the database's snapshot until they are copied."""

        def copy_files() -> None:
            copy_sessions(self._place, directory / SESSIONS)
            self._loop.call_soon_threadsafe(self._resumed.set)

        while not self._resumed.is_set():
            await self._resumed.wait()
        self._resumed.clear()
        try:
            await self._finish_tasks()
            await self._copy_database(directory, copy_files)
        finally:
            self._resumed.set()

    async def _finish_tasks(self) -> None:
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def close(self) -> None:
        self._closed = True
        await self._finish_tasks()
        await self._sessions.close()
        await super().close()


class NullTranscript(Transcript):
    """A transcript for conversations in files: the database keeps only the number of a session's messages."""

    def begin(self, db: apsw.Connection, turn: int, first: Sequence[TurnEvent]) -> tuple[TurnEvent, ...]:
        return tuple(first)

    def append(self, db: apsw.Connection, turn: int, seq: int, events: Sequence[TurnEvent]) -> None: ...

    def fold(self, db: apsw.Connection, session: int, turn: int, last: Sequence[TurnEvent]) -> Folded:
        """All events come as the last ones; its messages are counted from 1, for they have no rows."""
        own = fold((), last)
        if touches_only_own(last):
            db.execute("UPDATE session SET messages = messages + ? WHERE id = ? AND messages >= 0", (len(own), session))
        else:
            db.execute("UPDATE session SET messages = ? WHERE id = ?", (UNCOUNTED, session))
        return Folded(1, len(own), len(last), blobs_in_events(last))

    def drop(self, db: apsw.Connection, turn: int) -> None: ...

    def messages(self, db: apsw.Connection, session: int) -> tuple[Message, ...]:
        return ()

    def clear(self, db: apsw.Connection, session: int) -> None:
        db.execute("UPDATE session SET messages = 0 WHERE id = ?", (session,))
