"""The store on one SQLite database. Each method hands its work to the writer; the SQL is in the other modules."""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar

import apsw
from msgspec.structs import replace

from finclaw.cancellation import UncancellableFuture
from finclaw.diagnostics.crash_points import crash_point
from finclaw.errors import SessionError
from finclaw.kernel.approval import Approval, ApprovalState, Decision, Grant, Refusal
from finclaw.kernel.context import current_turn
from finclaw.kernel.envelope import Attachment, Inbound, Outbound
from finclaw.kernel.fact import Fact, SessionFact
from finclaw.kernel.message import Message, TurnEvent
from finclaw.kernel.person import ContactHistory, Person
from finclaw.kernel.port import Clock
from finclaw.kernel.record import (
    Accepted,
    Blob,
    Claim,
    ClaimOnAccept,
    Cost,
    CostsBy,
    Counts,
    Erased,
    Finish,
    InboundRecord,
    IntegrityFinding,
    JoinedOutcome,
    OutboxItem,
    PartOf,
    Pruned,
    Reserve,
    SenderId,
    SessionPage,
    Spend,
    StopMark,
    TurnCalls,
    TurnRecord,
    TurnTrace,
    Unsolicited,
)
from finclaw.kernel.scope import Outcome
from finclaw.storage.blobs import rows as blobs
from finclaw.storage.blobs.directory import BLOBS, BlobDirectory, describe_blob
from finclaw.storage.sqlite import (
    approvals,
    conversation,
    costs,
    facts,
    inbox,
    outbox,
    persons,
    sessions,
    state,
    turn_traces,
)
from finclaw.storage.sqlite.approvals import ApprovalTimes, Words
from finclaw.storage.sqlite.codec import PublicIds, to_micros
from finclaw.storage.sqlite.database import copy_database, open_database
from finclaw.storage.sqlite.transcript import ROWS, Transcript
from finclaw.storage.sqlite.writer import Writer, WriterTask, open_writer, write_probe
from finclaw.storage.upkeep import erasure
from finclaw.storage.upkeep.retention import Sweep, limit_prune_time

log = logging.getLogger(__name__)

T = TypeVar("T")

BLOB_GRACE: Final = timedelta(hours=1)
"""How long a blob may wait for its first use."""


def open_store(
    path: Path, clock: Clock, *, threaded: bool = True, database: apsw.Connection | None = None
) -> "SqliteStore":
    """Open and migrate; raises ConfigError, StoreFailed or StoreCorrupt. Needs the state lock and a running loop."""
    writer, ids = open_writer(database or open_database(path), path, threaded=threaded)
    return SqliteStore(writer, clock, ids)


class SqliteStore:
    """The store. `JsonlStore` derives from it and keeps the conversations in files."""

    transcript: Transcript = ROWS
    writes_files: ClassVar[bool] = False
    """Whether its tasks change more than the database, and so must not be run a second time."""

    def __init__(self, writer: Writer, clock: Clock, ids: PublicIds) -> None:
        self._writer = writer
        self._clock = clock
        self.ids = ids
        self._loop = asyncio.get_running_loop()
        self._times = ApprovalTimes(clock)
        self._blob_lock = asyncio.Lock()
        """Held while blobs change, so that no file is removed that somebody is about to refer to."""

    async def accept(
        self,
        inbound: Inbound,
        session: str,
        then: Callable[[Accepted], None],
        claim_on_accept: ClaimOnAccept | None = None,
    ) -> Accepted:
        def run(db: apsw.Connection) -> Accepted:
            if claim_on_accept is None or self.writes_files:  # a claim reads files, and an acceptance does not wait
                return inbox.accept(db, self.ids, inbound, session, now)
            return conversation.accept(db, self.ids, self.transcript, inbound, session, claim_on_accept, now)

        def committed(accepted: Accepted) -> None:
            crash_point("accept:after_commit")
            _tell_new(accepted, then)

        now = self._clock.now()
        return await self.commit(run, committed)

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
                conversation.take_back(db, self.ids, inbound_id)
            if not conversation.end(db, self.ids, self.transcript, inbound_id, outcome, told, paid, now):
                return False
            row = self.ids.must_row(inbound_id)
            inbox.end_joined(db, self.ids, row, joined, now)
            if kept_line is not None:
                conversation.carry_over(db, row, kept_line)
            return True

        return await self.commit(run, _if_done(then))

    async def unfinished(self) -> Sequence[Accepted]:
        return await self.read(lambda db: inbox.unfinished(db, self.ids))

    async def carried_over(self) -> Sequence[tuple[Accepted, datetime, str | None]]:
        return await self.read(lambda db: conversation.find_carried_over(db, self.ids))

    async def nothing_runs(self) -> None:
        await self.commit(inbox.mark_all_received)

    async def mark_stopped(self, inbound_ids: Sequence[str], mark: StopMark) -> None:
        await self.commit(lambda db: inbox.mark_stopped(db, self.ids, inbound_ids, mark))
        crash_point("stop:after_commit")

    async def find_target(self, inbound: Inbound) -> Accepted | None:
        return await self.read(lambda db: inbox.find_target(db, self.ids, inbound))

    async def amend(self, inbound_id: str, inbound: Inbound) -> Accepted | None:
        amended = await self.commit(lambda db: inbox.amend(db, self.ids, inbound_id, inbound))
        crash_point("amend:after_commit")
        return amended

    async def find(self, inbound_id: str) -> InboundRecord | None:
        return await self.read(lambda db: inbox.find(db, self.ids, inbound_id))

    async def unasked(self, session: str, after: str | None) -> Unsolicited:
        return await self.read(lambda db: inbox.find_unsolicited(db, self.ids, session, after))

    async def claim(
        self,
        accepted: Accepted,
        first: Sequence[TurnEvent],
        known_version: int | None,
        then: Callable[[Claim], None] | None = None,
        reserve: Reserve | None = None,
    ) -> Claim:
        now = self._clock.now()
        return await self.commit(
            lambda db: conversation.claim(db, self.ids, self.transcript, accepted, first, known_version, now, reserve),
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
        await self.commit(
            lambda db: conversation.record(db, self.ids, self.transcript, claim, seq, events, calls), lambda _: then()
        )

    async def join(
        self, claim: Claim, accepted: Accepted, seq: int, events: Sequence[TurnEvent], then: Callable[[], None]
    ) -> bool:
        done = await self.commit(
            lambda db: conversation.join(db, self.ids, self.transcript, claim, accepted, seq, events),
            _if_done(then),
        )
        crash_point("join:after_commit")
        return done

    async def finish(self, finish: Finish, then: Callable[[], None]) -> bool:
        def committed(done: bool) -> None:
            crash_point("finish:after_commit")
            if done:
                then()

        now = self._clock.now()
        return await self.commit(lambda db: conversation.finish(db, self.ids, self.transcript, finish, now), committed)

    async def mark_attempt(self, inbound_id: str) -> None:
        await self.commit(lambda db: conversation.mark_attempt(db, self.ids, inbound_id))

    async def release(self, inbound_id: str, calls: TurnCalls | None = None) -> None:
        await self.commit(lambda db: conversation.release(db, self.ids, inbound_id, calls))

    async def keep_attachments(self, inbound_id: str, kept: Sequence[Attachment]) -> None:
        await self.commit(lambda db: inbox.keep_attachments(db, self.ids, inbound_id, kept))

    async def messages(self, session: str) -> Sequence[Message]:
        def read(db: apsw.Connection) -> tuple[Message, ...]:
            row = conversation.session_row(db, session)
            return () if row is None else tuple(self.transcript.messages(db, row))  # opened here, not on the loop

        return await self.read(read)

    async def reset(self, session: str) -> None:
        def run(db: apsw.Connection) -> None:
            conversation.reset(db, self.transcript, session)
            approvals.forget_grants(db, session)
            state.forget_session(db, session)

        await self.commit(run)

    async def sessions(self, limit: int, after: str | None = None, containing: str = "") -> SessionPage:
        now = self._clock.now()
        return await self.read(lambda db: sessions.page(db, limit, after, containing, now))

    async def restore(self, session: str, messages: Sequence[Message], facts: Sequence[Fact] = ()) -> None:
        now = self._clock.now()
        await self.commit(lambda db: sessions.restore(db, session, messages, facts, now))

    async def repair(self, session: str, *, dry_run: bool = False) -> Sequence[IntegrityFinding]:
        return await self.commit(lambda db: sessions.repair(db, session, dry_run=dry_run))

    async def prune(self, before: datetime, *, dry_run: bool = False) -> Pruned:
        sweep = Sweep(to_micros(limit_prune_time(before, self._clock.now())), self.transcript, dry_run=dry_run)
        for remove_piece in (sweep.messages, sweep.sessions):
            while await self.commit(remove_piece, repeatable=False):
                pass  # in pieces, so that whoever else wants to write comes in between
        if not dry_run:
            await self._remove_unused_blobs()
        return sweep.total

    def plan(
        self, accepted: Accepted, outbounds: Sequence[Outbound], turn_id: str | None, first: int = 0
    ) -> tuple[OutboxItem, ...]:
        return outbox.freeze(self.ids, accepted, outbounds, turn_id, first, self._clock.now())

    async def append_items(
        self, claim: Claim, items: Sequence[OutboxItem], then: Callable[[tuple[OutboxItem, ...]], None]
    ) -> None:
        await self.commit(lambda db: conversation.append_items(db, self.ids, claim, items), then)
        crash_point("items:after_commit")

    async def pending(self) -> Sequence[OutboxItem]:
        return await self.read(lambda db: outbox.pending(db, self.ids))

    async def find_item(self, item_id: str) -> OutboxItem | None:
        return await self.read(lambda db: outbox.find(db, self.ids, item_id))

    async def settle(self, *units: OutboxItem, lazy: bool = False) -> None:
        def run(db: apsw.Connection) -> None:
            for unit in units:
                outbox.settle(db, self.ids, unit)

        await self.commit(run, lazy=lazy)
        crash_point("receipt:after_commit")

    async def ask_again(self, stale: OutboxItem, then: Callable[[Accepted], None]) -> Accepted | None:
        now = self._clock.now()

        def run(db: apsw.Connection) -> Accepted | None:
            outbox.settle(db, self.ids, replace(stale, state="expired"))
            return inbox.accept_again(db, self.ids, stale.inbound_id, now)

        return await self.commit(run, lambda accepted: _tell_new(accepted, then))

    async def ask(self, approval: Approval) -> Approval:
        asked = await self.commit(lambda db: approvals.ask(db, approval))
        self._times.see([asked])
        return asked

    async def approval(self, approval_id: str) -> Approval | None:
        expiry = self._times.now()
        found = await self.read(lambda db: approvals.find(db, approval_id, expiry))
        if found is not None:
            self._times.see([found])
        return found

    async def approvals(
        self, states: Collection[ApprovalState] = ("pending",), session: str | None = None, limit: int = 100
    ) -> Sequence[Approval]:
        expiry = self._times.now()
        found = await self.read(lambda db: approvals.list_approvals(db, states, session, limit, expiry))
        self._times.see(found)
        return found

    async def decide(
        self, approval_id: str, decision: Decision, inbound: Inbound | None, then: Callable[[Accepted], None]
    ) -> Approval | Refusal:
        def committed(decided: tuple[Approval, Accepted | None] | Refusal) -> None:
            if not isinstance(decided, Refusal):
                _tell_new(decided[1], then)

        now = self._clock.now()
        expiry = self._times.now()
        decided = await self.commit(
            lambda db: approvals.decide(db, self.ids, approval_id, decision, inbound, now, expiry), committed
        )
        if isinstance(decided, Refusal):
            return decided
        if decided[0].state == "denied":
            self._times.forget([approval_id])
        return decided[0]

    async def use(self, approval_id: str, turn_id: str, action: str) -> bool:
        expiry = self._times.now()
        used = await self.commit(lambda db: approvals.use(db, approval_id, turn_id, action, expiry))
        if used:
            self._times.forget([approval_id])
        return used

    async def fail(self, approval_id: str, turn_id: str) -> bool:
        failed = await self.commit(lambda db: approvals.fail(db, approval_id, turn_id))
        if failed:
            self._times.forget([approval_id])
        return failed

    async def expire(self, words: Words, then: Callable[[Accepted], None]) -> Sequence[Approval]:
        now = self._clock.now()
        expiry = self._times.now()
        gone, _ = await self.commit(lambda db: approvals.expire(db, self.ids, words, now, expiry), _tell_each_new(then))
        self._times.forget([each.id for each in gone])
        return gone

    async def remind(self, words: Words, then: Callable[[Accepted], None]) -> Sequence[Approval]:
        now = self._clock.now()
        expiry = self._times.now()
        late, _ = await self.commit(lambda db: approvals.remind(db, self.ids, words, now, expiry), _tell_each_new(then))
        return late

    async def find_grant(self, tool: str, action: str, requester: str, session: str) -> Grant | None:
        return await self.read(lambda db: approvals.find_grant(db, tool, action, requester, session))

    async def grants(self, limit: int = 100) -> Sequence[Grant]:
        return await self.read(lambda db: approvals.list_grants(db, limit))

    async def revoke(self, grant_id: str) -> bool:
        return await self.commit(lambda db: approvals.revoke_grant(db, grant_id))

    async def find_person(self, who: str) -> Person | None:
        return await self.read(lambda db: persons.find_person(db, who))

    async def people(self, limit: int = 1_000, after: str = "") -> Sequence[Person]:
        return await self.read(lambda db: persons.list_people(db, limit, after))

    async def contact_history(self, person: Person) -> ContactHistory:
        return await self.read(lambda db: persons.read_history(db, person))

    async def last_texts(self, person: Person) -> Sequence[str]:
        return await self.read(lambda db: persons.read_last_texts(db, person))

    async def known_people(self) -> Sequence[Person]:
        return await self.read(persons.known_people)

    async def save_person(self, person: Person) -> None:
        now = self._clock.now()
        await self.commit(lambda db: persons.save(db, person, now))

    async def seed_people(self, entries: Sequence[persons.Entry]) -> None:
        now = self._clock.now()
        if entries and not await self.read(lambda db: persons.is_seeded(db, entries)):
            await self.commit(lambda db: persons.seed(db, entries, now))

    async def turns(self, limit: int) -> Sequence[TurnRecord]:
        return await self.read(lambda db: turn_traces.turns(db, self.ids, limit))

    async def turn(self, turn_id: str) -> TurnTrace | None:
        return await self.read(lambda db: turn_traces.turn(db, self.ids, turn_id))

    async def last_turn(self, session: str) -> TurnTrace | None:
        found = await self.read(lambda db: turn_traces.find_last(db, self.ids, session))
        return None if found is None else await self.turn(found)

    async def facts(self, session: str, subject: str | None = None, limit: int = facts.MOST) -> Sequence[SessionFact]:
        return await self.read(lambda db: facts.find(db, self.ids, session, subject, limit))

    async def erase_session(self, session: str, *, dry_run: bool = False) -> Erased:
        targets = await self.read(lambda db: erasure.targets_of_session(db, self.ids, session))
        return await self._erase_all(targets, dry_run)

    async def erase_person(self, person: SenderId, part_of: PartOf, *, dry_run: bool = False) -> Erased:
        own = await self._targets_of_person(person, part_of)
        targets = await self.read(lambda db: erasure.with_helpers(db, self.ids, own))
        erased = await self._erase_all(targets, dry_run)
        if dry_run:
            return erased
        told = await self.commit(lambda db: erasure.erase_decisions(db, person))
        await self.commit(lambda db: persons.forget(db, str(person)))
        return replace(erased, messages=erased.messages + told)

    async def scrub(self) -> None:
        decision: UncancellableFuture[None] = UncancellableFuture(loop=self._loop)
        self._writer.submit(WriterTask(erasure.scrub, decision, mode="alone"))
        await decision

    async def _targets_of_person(self, person: SenderId, part_of: PartOf) -> list[erasure.Target]:
        """Where nobody else wrote, the session is theirs alone, whatever its kind."""
        wrote = await self.read(lambda db: erasure.sessions_written_in(db, person))
        found: list[erasure.Target] = []
        for row, key in await self.read(erasure.all_sessions):
            part = part_of(key)
            if part == "own":
                found.append(erasure.Target(row, key))
            elif row in wrote or part == "shared":
                # A conversation may be older than the records of who wrote in it: its messages tell as well.
                speakers = erasure.senders(await self.messages(key))
                if row in wrote or person.sender in speakers:
                    others = await self.read(lambda db: erasure.others_wrote_in(db, row, person))  # noqa: B023  awaited
                    is_shared = others or bool(speakers - {person.sender})
                    found.append(erasure.Target(row, key, person if is_shared else None))
        return found

    async def _erase_all(self, targets: Sequence[erasure.Target], dry_run: bool) -> Erased:
        """Erase each session in one all-or-nothing task."""
        messages = 0
        for target in targets:
            if dry_run:
                messages += await self.read(lambda db: erasure.count(db, target))  # noqa: B023  awaited at once
            else:
                messages += await self._erase(target)
        if not dry_run:
            await self._remove_unused_blobs()
        return Erased(
            sessions=tuple(target.key for target in targets if target.person is None),
            shared=tuple(target.key for target in targets if target.person is not None),
            messages=messages,
        )

    async def _erase(self, target: erasure.Target) -> int:
        return await self.commit(lambda db: erasure.erase(db, self.transcript, target))

    # ── blobs: a file is on disk before its row, and its row is gone before the file goes ───────────────────

    async def put_blob(self, data: bytes, media_type: str = "") -> Blob:
        blob = await asyncio.to_thread(describe_blob, data, media_type)
        files = await self._blob_files()
        now = to_micros(self._clock.now())
        async with self._blob_lock:
            await asyncio.to_thread(files.write, blob.sha256, data)
            crash_point("blob:after_file")
            await self.commit(lambda db: blobs.add(db, blob, now))
        crash_point("blob:after_commit")
        return blob

    async def read_blob(self, sha256: str) -> bytes | None:
        if not await self.read(lambda db: blobs.is_known(db, sha256)):
            return None
        return await asyncio.to_thread((await self._blob_files()).read, sha256)

    async def sweep_blobs(self) -> int:
        files = await self._blob_files()
        if not files.is_there:
            return 0
        removed = await self._remove_unused_blobs()
        async with self._blob_lock:
            known = await self.read(blobs.names)
            present = await asyncio.to_thread(files.names)
            for name in present - known:
                await asyncio.to_thread(files.erase, name)
        for name in known - present:
            log.error("blob %s is missing in %s; put that file back from a backup", name, BLOBS)
        return removed + len(present - known)

    async def _remove_unused_blobs(self) -> int:
        """What the last to use it has left. Raises StoreFailed; what stays of files then the next sweep removes."""
        before = to_micros(self._clock.now() - BLOB_GRACE)
        async with self._blob_lock:
            unused = await self.commit(lambda db: blobs.remove_unused(db, before))
            if unused:
                crash_point("blob:before_erase")
                files = await self._blob_files()
                for name in unused:
                    await asyncio.to_thread(files.erase, name)
        return len(unused)

    async def _blob_files(self) -> BlobDirectory:
        return BlobDirectory(Path(await self.read(lambda db: db.filename)).parent / BLOBS)

    async def recall(self, extension: str, session: str) -> Any:
        return await self.read(lambda db: state.recall(db, extension, session))

    async def recall_sessions(self, extension: str) -> Mapping[str, Any]:
        return await self.read(lambda db: state.recall_sessions(db, extension))

    async def remember(self, extension: str, session: str, value: Any) -> None:
        if value is None:
            await self.commit(lambda db: state.forget(db, extension, session))
        else:
            text = state.encode(extension, value)
            turn = self.ids.row(current_turn.get() or "")
            await self.commit(lambda db: state.remember(db, extension, session, text, turn))

    async def counts(self) -> Counts:
        return await self.read(inbox.counts)

    async def costs(self, since: date, by: CostsBy) -> Sequence[Cost]:
        return await self.read(lambda db: costs.read_costs(db, since, by))

    async def copy_into(self, directory: Path) -> None:
        await self._copy_database(directory)

    async def _copy_database(self, directory: Path, at_the_snapshot: Callable[[], None] = lambda: None) -> None:
        path = Path(await self.read(lambda db: db.filename))
        async with self._blob_lock:
            await asyncio.to_thread(copy_database, path, directory / path.name, at_the_snapshot)
            if names := await self.read(blobs.names):
                await asyncio.to_thread((await self._blob_files()).copy_into, directory / BLOBS, names)

    async def close(self) -> None:
        await self._writer.close()

    def watch_writes(self, tell: Callable[[SessionError | None], None]) -> None:
        self._writer.health.on_change = tell

    async def check_writable(self) -> SessionError | None:
        health = self._writer.health
        if health.begin_look():
            try:
                health.change(await self.commit(write_probe))
            except SessionError as error:
                health.change(error)
        return health.failure

    async def commit(
        self,
        run: Callable[[apsw.Connection], T],
        then: Callable[[T], None] | None = None,
        *,
        lazy: bool = False,
        repeatable: bool = True,
    ) -> T:
        """One piece of the next group. A cancelled caller leaves only after the commit has been decided."""
        decision: UncancellableFuture[T] = UncancellableFuture(loop=self._loop)
        repeatable = repeatable and not self.writes_files
        self._writer.submit(WriterTask(run, decision, then, repeatable=repeatable), lazy=lazy)
        return await decision

    async def read(self, run: Callable[[apsw.Connection], T]) -> T:
        """Read what is committed, outside of the commit group: a write that fails does not fail it."""
        answer: asyncio.Future[T] = self._loop.create_future()
        self._writer.submit(WriterTask(run, answer, mode="read"))
        return await answer


def _if_done(then: Callable[[], None]) -> Callable[[bool], None]:
    def committed(done: bool) -> None:
        if done:
            then()

    return committed


def _tell_new(accepted: Accepted | None, then: Callable[[Accepted], None]) -> None:
    if accepted is not None and not accepted.duplicate:
        then(accepted)


def _tell_each_new(then: Callable[[Accepted], None]) -> Callable[[tuple[list[Approval], list[Accepted]]], None]:
    def committed(changed: tuple[list[Approval], list[Accepted]]) -> None:
        for accepted in changed[1]:
            _tell_new(accepted, then)

    return committed
