"""The store's ports on one SQLite database.

Each method hands a task to the writer; the SQL is in the modules beside it.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any

import apsw
from msgspec.structs import replace

from finclaw.diagnostics.crash_points import crash_point
from finclaw.kernel.context import current_turn
from finclaw.kernel.envelope import Attachment, Inbound, Outbound
from finclaw.kernel.fact import Fact
from finclaw.kernel.message import Message, TurnEvent
from finclaw.kernel.port import Clock
from finclaw.kernel.record import (
    Accepted,
    Claim,
    ClaimOnAccept,
    Cost,
    CostsBy,
    Counts,
    Finish,
    InboundRecord,
    IntegrityFinding,
    JoinedOutcome,
    OutboxItem,
    Pruned,
    Reserve,
    SessionPage,
    Spend,
    StopMark,
    TurnCalls,
    Unsolicited,
)
from finclaw.kernel.scope import Outcome
from finclaw.storage.sqlite import (
    approvals,
    carried_over,
    conversation,
    costs,
    inbox,
    joining,
    outbox,
    reservations,
    sessions,
    state,
)
from finclaw.storage.sqlite.approval_rows import ApprovalRows
from finclaw.storage.sqlite.approval_times import ApprovalTimes
from finclaw.storage.sqlite.codec import PublicIds, to_micros
from finclaw.storage.sqlite.database import begin_boot, close_quietly, explain, open_database
from finclaw.storage.sqlite.persons import PersonRows
from finclaw.storage.sqlite.transcript import ROWS, Transcript
from finclaw.storage.sqlite.turn_traces import TurnRows
from finclaw.storage.sqlite.writer import Ledger, LoopWriter, ThreadWriter, Writer
from finclaw.storage.upkeep.copying import copy_database
from finclaw.storage.upkeep.erasure_rows import ErasureRows
from finclaw.storage.upkeep.retention import Sweep, limit_prune_time


def open_store(
    path: Path, clock: Clock, *, threaded: bool = True, database: apsw.Connection | None = None
) -> "SqliteStore":
    """Open and migrate; raises ConfigError, StoreFailed or StoreCorrupt. Needs the state lock and a running loop."""
    writer, ids = open_writer(database or open_database(path), path, threaded=threaded)
    return SqliteStore(writer, clock, ids)


def open_writer(db: apsw.Connection, path: Path, *, threaded: bool) -> tuple[Writer, PublicIds]:
    """Take the database over from every earlier process."""
    try:
        name, boot = begin_boot(db, reservations.interrupt_all)
    except apsw.Error as error:
        close_quietly(db)
        raise explain(error, path) from error
    ledger = Ledger(db, path, boot)
    loop = asyncio.get_running_loop()
    return ThreadWriter(ledger, loop) if threaded else LoopWriter(ledger, loop), PublicIds(name)


class SqliteStore(ApprovalRows, PersonRows, TurnRows, ErasureRows):
    transcript: Transcript = ROWS

    def __init__(self, writer: Writer, clock: Clock, ids: PublicIds) -> None:
        super().__init__(writer, clock, ids)
        self._times = ApprovalTimes(clock)

    # ── inbox ───────────────────────────────────────────────────────────────────────────────────────────────

    async def accept(
        self,
        inbound: Inbound,
        session: str,
        then: Callable[[Accepted], None],
        claim_on_accept: ClaimOnAccept | None = None,
    ) -> Accepted:
        def run(db: apsw.Connection) -> Accepted:
            if claim_on_accept is None or self.writes_files:  # a claim reads files, and an acceptance does not wait
                return inbox.accept(db, self._ids, inbound, session, now)
            return conversation.accept(db, self._ids, self.transcript, inbound, session, claim_on_accept, now)

        def committed(accepted: Accepted) -> None:
            crash_point("accept:after_commit")
            if not accepted.duplicate:
                then(accepted)

        now = self._clock.now()
        return await self._commit(run, committed)

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
        now = self._clock.now()
        told = tuple(units)
        paid = tuple(spend)

        def run(db: apsw.Connection) -> bool:
            if not begun:
                conversation.take_back(db, self._ids, inbound_id)
            done = conversation.end(db, self._ids, self.transcript, inbound_id, outcome, told, paid, now)
            if done:
                row = inbox.must_row(self._ids, inbound_id)
                joining.end(db, self._ids, row, joined, now)
                if kept_line is not None:
                    carried_over.add(db, row, kept_line)
            return done

        return await self._commit(run, lambda done: then() if done else None)

    async def unfinished(self) -> Sequence[Accepted]:
        return await self._read(lambda db: inbox.unfinished(db, self._ids))

    async def carried_over(self) -> Sequence[tuple[Accepted, datetime, str | None]]:
        return await self._read(lambda db: carried_over.read(db, self._ids))

    async def nothing_runs(self) -> None:
        await self._commit(inbox.mark_all_received)

    async def mark_stopped(self, inbound_ids: Sequence[str], mark: StopMark) -> None:
        await self._commit(lambda db: inbox.mark_stopped(db, self._ids, inbound_ids, mark))
        crash_point("stop:after_commit")

    async def find_target(self, inbound: Inbound) -> Accepted | None:
        return await self._read(lambda db: inbox.find_target(db, self._ids, inbound))

    async def amend(self, inbound_id: str, inbound: Inbound) -> Accepted | None:
        amended = await self._commit(lambda db: inbox.amend(db, self._ids, inbound_id, inbound))
        crash_point("amend:after_commit")
        return amended

    async def find(self, inbound_id: str) -> InboundRecord | None:
        return await self._read(lambda db: inbox.find(db, self._ids, inbound_id))

    async def unasked(self, session: str, after: str | None) -> Unsolicited:
        return await self._read(lambda db: inbox.find_unsolicited(db, self._ids, session, after))

    # ── conversations ───────────────────────────────────────────────────────────────────────────────────────

    async def claim(
        self,
        accepted: Accepted,
        first: Sequence[TurnEvent],
        known_version: int | None,
        then: Callable[[Claim], None] | None = None,
        reserve: Reserve | None = None,
    ) -> Claim:
        now = self._clock.now()
        return await self._commit(
            lambda db: conversation.claim(db, self._ids, self.transcript, accepted, first, known_version, now, reserve),
            then,
        )

    async def record(
        self,
        claim: Claim,
        seq: int,
        events: Sequence[TurnEvent],
        then: Callable[[], None],
        calls: TurnCalls | None = None,
    ) -> None:
        await self._commit(
            lambda db: conversation.record(db, self._ids, self.transcript, claim, seq, events, calls), lambda _: then()
        )

    async def join(
        self, claim: Claim, accepted: Accepted, seq: int, events: Sequence[TurnEvent], then: Callable[[], None]
    ) -> bool:
        def committed(done: bool) -> None:
            if done:
                then()

        done = await self._commit(
            lambda db: conversation.join(db, self._ids, self.transcript, claim, accepted, seq, events), committed
        )
        crash_point("join:after_commit")
        return done

    async def finish(self, finish: Finish, then: Callable[[], None]) -> bool:
        def committed(done: bool) -> None:
            crash_point("finish:after_commit")
            if done:
                then()

        now = self._clock.now()
        return await self._commit(
            lambda db: conversation.finish(db, self._ids, self.transcript, finish, now), committed
        )

    async def mark_attempt(self, inbound_id: str) -> None:
        await self._commit(lambda db: conversation.mark_attempt(db, self._ids, inbound_id))

    async def release(self, inbound_id: str, calls: TurnCalls | None = None) -> None:
        await self._commit(lambda db: conversation.release(db, self._ids, inbound_id, calls))

    async def keep_attachments(self, inbound_id: str, kept: Sequence[Attachment]) -> None:
        await self._commit(lambda db: inbox.keep_attachments(db, self._ids, inbound_id, kept))

    async def messages(self, session: str) -> Sequence[Message]:
        def read(db: apsw.Connection) -> tuple[Message, ...]:
            row = conversation.session_row(db, session)
            return () if row is None else tuple(self.transcript.messages(db, row))  # opened here, not on the loop

        return await self._read(read)

    async def reset(self, session: str) -> None:
        def run(db: apsw.Connection) -> None:
            conversation.reset(db, self.transcript, session)
            approvals.forget_grants(db, session)
            state.forget_session(db, session)

        await self._commit(run)

    async def sessions(self, limit: int, after: str | None = None, containing: str = "") -> SessionPage:
        now = self._clock.now()
        return await self._read(lambda db: sessions.page(db, limit, after, containing, now))

    async def restore(self, session: str, messages: Sequence[Message], facts: Sequence[Fact] = ()) -> None:
        now = self._clock.now()
        await self._commit(lambda db: sessions.restore(db, session, messages, facts, now))

    async def repair(self, session: str, *, dry_run: bool = False) -> Sequence[IntegrityFinding]:
        return await self._commit(lambda db: sessions.repair(db, session, dry_run=dry_run))

    async def prune(self, before: datetime, *, dry_run: bool = False) -> Pruned:
        sweep = Sweep(to_micros(limit_prune_time(before, self._clock.now())), self.transcript, dry_run=dry_run)
        while await self._commit(sweep.messages, repeatable=False):
            pass  # in pieces, so that whoever else wants to write comes in between
        while await self._commit(sweep.sessions, repeatable=False):
            pass
        if not dry_run:
            await self._remove_unused_blobs()
        return sweep.total

    # ── outbox ──────────────────────────────────────────────────────────────────────────────────────────────

    def plan(
        self, accepted: Accepted, outbounds: Sequence[Outbound], turn_id: str | None, first: int = 0
    ) -> tuple[OutboxItem, ...]:
        return outbox.freeze(self._ids, accepted, outbounds, turn_id, first, self._clock.now())

    async def append_items(
        self, claim: Claim, items: Sequence[OutboxItem], then: Callable[[tuple[OutboxItem, ...]], None]
    ) -> None:
        await self._commit(lambda db: conversation.append_items(db, self._ids, claim, items), then)
        crash_point("items:after_commit")

    async def pending(self) -> Sequence[OutboxItem]:
        return await self._read(lambda db: outbox.pending(db, self._ids))

    async def find_item(self, item_id: str) -> OutboxItem | None:
        return await self._read(lambda db: outbox.find(db, self._ids, item_id))

    async def settle(self, *units: OutboxItem, lazy: bool = False) -> None:
        def run(db: apsw.Connection) -> None:
            for unit in units:
                outbox.settle(db, self._ids, unit)

        await self._commit(run, lazy=lazy)
        crash_point("receipt:after_commit")

    async def ask_again(self, stale: OutboxItem, then: Callable[[Accepted], None]) -> Accepted | None:
        now = self._clock.now()

        def run(db: apsw.Connection) -> Accepted | None:
            outbox.settle(db, self._ids, replace(stale, state="expired"))
            return inbox.accept_again(db, self._ids, stale.inbound_id, now)

        return await self._commit(run, lambda accepted: then(accepted) if accepted else None)

    # ── what extensions remember ────────────────────────────────────────────────────────────────────────────

    async def recall(self, extension: str, session: str) -> Any:
        return await self._read(lambda db: state.recall(db, extension, session))

    async def recall_sessions(self, extension: str) -> Mapping[str, Any]:
        return await self._read(lambda db: state.recall_sessions(db, extension))

    async def remember(self, extension: str, session: str, value: Any) -> None:
        if value is None:
            await self._commit(lambda db: state.forget(db, extension, session))
        else:
            text = state.encode(extension, value)
            turn = self._ids.row(current_turn.get() or "")
            await self._commit(lambda db: state.remember(db, extension, session, text, turn))

    # ── the whole ───────────────────────────────────────────────────────────────────────────────────────────

    async def counts(self) -> Counts:
        return await self._read(inbox.counts)

    async def costs(self, since: date, by: CostsBy) -> Sequence[Cost]:
        return await self._read(lambda db: costs.read_costs(db, since, by))

    async def copy_into(self, directory: Path) -> None:
        await self._copy_database(directory)

    async def _copy_database(self, directory: Path, at_the_snapshot: Callable[[], None] = lambda: None) -> None:
        path = Path(await self._read(lambda db: db.filename))
        async with self._blob_lock:
            await asyncio.to_thread(copy_database, path, directory / path.name, at_the_snapshot)
            await self._copy_blobs(directory)

    async def close(self) -> None:
        await self._writer.close()
