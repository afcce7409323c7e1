"""Whole sessions of the JSON Lines store: read, reset, filled, mended, pruned and erased, files and rows alike."""

import logging
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from msgspec.structs import replace

from finclaw.errors import SessionError, StoreFailed
from finclaw.kernel.erasure import Erased, PartOf, SenderId
from finclaw.kernel.event import Emit
from finclaw.kernel.fact import Fact
from finclaw.kernel.message import Append, Message, TurnEvent
from finclaw.kernel.port import Clock
from finclaw.kernel.record import IntegrityFinding, Pruned, SessionPage, SessionRecord
from finclaw.storage.jsonl.directories import SESSIONS, copy_sessions
from finclaw.storage.jsonl.files import Files
from finclaw.storage.jsonl.null_transcript import UNCOUNTED, NullTranscript, restore_count, set_count
from finclaw.storage.jsonl.open_sessions import OpenSessions
from finclaw.storage.jsonl.record import MessageLine
from finclaw.storage.jsonl.removal import Removal
from finclaw.storage.jsonl.tasks import FileTasks
from finclaw.storage.jsonl.transcript import copy_name
from finclaw.storage.sqlite import conversation
from finclaw.storage.sqlite.codec import PublicIds, to_micros
from finclaw.storage.sqlite.store import SqliteStore
from finclaw.storage.sqlite.writer import Writer
from finclaw.storage.upkeep.erasure import Target

log = logging.getLogger(__name__)

T = TypeVar("T")


class JsonlSessions(SqliteStore):
    """The part of the store that deals with sessions as wholes."""

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
        try:
            return await self._tasks.run(work)
        except StoreFailed as error:
            if error.why != "failed":  # of a file beside the database
                self._writer.health.change(error)
            raise

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
