"""The JSON Lines store: conversations in plain files, everything else in SQLite, which decides what has happened.

A commit comes in three steps under the session's write lock: the events are on disk, the database commits, the base
follows. Only the second decides. Whatever the third leaves undone is done when the session is next looked at.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path

import apsw
from msgspec.structs import replace

from finclaw.errors import SessionError
from finclaw.kernel.envelope import Inbound
from finclaw.kernel.event import Emit
from finclaw.kernel.message import TurnEvent
from finclaw.kernel.port import Clock
from finclaw.kernel.record import (
    Accepted,
    Claim,
    ClaimOnAccept,
    Finish,
    JoinedOutcome,
    OutboxItem,
    Reserve,
    Spend,
    TurnCalls,
    TurnTrace,
)
from finclaw.kernel.scope import Outcome
from finclaw.storage.jsonl.directories import SESSIONS
from finclaw.storage.jsonl.files import Files
from finclaw.storage.jsonl.whole_sessions import JsonlSessions
from finclaw.storage.sqlite import conversation, inbox, joining
from finclaw.storage.sqlite.database import open_database
from finclaw.storage.sqlite.store import open_writer
from finclaw.transcript.fold import fold

log = logging.getLogger(__name__)

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


class JsonlStore(JsonlSessions):
    """The store. What it adds here are turns, whose logs are in files."""

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
        row = inbox.must_row(self._ids, accepted.id)
        turn = self._ids.turn(row)
        async with self._sessions.hold(accepted.session) as hands:
            # Read before the commit: once it stands, nothing may fail any more.
            base = None if hands.files.version == known else await hands.do(hands.files.messages)
            logged = hands.logs.events(turn)
            # Words of joined messages that go back to their places are out of the log before the database says so.
            added = await self._read(lambda db: joining.unseen_words(db, row, logged)) if logged else first
            await hands.do(lambda: hands.logs.append(turn, len(logged), added))
            try:
                claim = await super().claim(accepted, (*logged, *added), known, reserve=reserve)
            except Exception:
                await hands.do(lambda: hands.logs.undo(turn, added))
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

    async def join(self, claim: Claim, accepted: Accepted, seq: int, events: Sequence[TurnEvent], then: _Then) -> bool:
        return await self._whole(self._join(claim, accepted, seq, tuple(events), then))

    async def _join(
        self, claim: Claim, accepted: Accepted, seq: int, events: tuple[TurnEvent, ...], then: _Then
    ) -> bool:
        """A message whose words a crash keeps from the log is one that the model has not seen."""
        async with self._sessions.hold(claim.session) as hands:
            done = await super().join(claim, accepted, seq, events, lambda: None)
            if done:
                await hands.do(lambda: hands.logs.append(claim.turn_id, seq, events))
                then()
            return done

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
        joined: Sequence[JoinedOutcome] = (),
        kept_line: str | None = None,
    ) -> bool:
        end = partial(super().end, inbound_id, outcome, units, then, spend)
        commit = partial(end, begun=begun, joined=joined, kept_line=kept_line)
        return await self._whole(self._end(inbound_id, commit))

    async def _end(self, inbound_id: str, commit: Callable[[], Awaitable[bool]]) -> bool:
        done = await commit()
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
