"""A gateway in memory, for tests of the HTTP door: it takes messages and ends them when told to."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import cast

from msgspec import convert, structs

from finclaw.approvals.display import summaries
from finclaw.diagnostics.event_stream import EventStream
from finclaw.errors import InboundConflict, SessionError
from finclaw.gateway import PersonRecord, QueuedMessage, StopReport, StopRequest, Summary, UndoneTurn, UnreachableChat
from finclaw.ids import new_id
from finclaw.kernel.approval import (
    Approval,
    ApprovalScope,
    ApprovalState,
    ApprovalVerdict,
    Refusal,
    RefusalReason,
    Standing,
)
from finclaw.kernel.chunk import Usage
from finclaw.kernel.envelope import Inbound
from finclaw.kernel.event import Observer
from finclaw.kernel.fact import Fact, SessionFact
from finclaw.kernel.message import Message, Source, Text
from finclaw.kernel.person import Person
from finclaw.kernel.port import ExtensionRoute
from finclaw.kernel.record import (
    Accepted,
    Cost,
    CostsBy,
    Counts,
    Erased,
    InboundRecord,
    IntegrityFinding,
    Pruned,
    SenderId,
    SessionPage,
    SessionRecord,
    Today,
    TurnRecord,
    TurnTrace,
    Unsolicited,
)
from finclaw.kernel.scope import Outcome, StageEntry, ToolUse
from finclaw.kernel.store_port import Store
from finclaw.pipeline.persons import check_fields
from finclaw.transcript.integrity import mend

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def answer(text: str = "AAPL is at 190.50 USD.") -> Outcome:
    return Outcome(
        kind="answered",
        reply=text,
        is_markdown=True,
        turn_id="turn-1",
        stages=(StageEntry("normalize", "continue", 0.1), StageEntry("gate", "continue", 0.2)),
        tools=(ToolUse("market__quote", "ok"),),
        facts=(Fact(subject="AAPL", field="price", value=Decimal("190.50"), as_of=AT, source="demo", currency="USD"),),
        usage=Usage(input=10, output=5),
        cost=Decimal("0.0012"),
        duration_ms=12.5,
        model="scripted/one",
    )


@dataclass
class MemoryPeople:
    """Implements gateway.PersonApi for one person."""

    person: Person = Person(id="web:owner:owner", name="owner", identities=("web:owner:owner",))

    async def list_people(self, limit: int, after: str = "") -> Sequence[PersonRecord]:
        return [] if after else [PersonRecord(person=self.person, roles=("owner",))]

    async def find(self, who: str) -> PersonRecord | None:
        known = who in (self.person.name, *self.person.identities)
        return PersonRecord(person=self.person, roles=("owner",)) if known else None

    async def change(self, who: str, fields: Mapping[str, str]) -> PersonRecord:
        checked = check_fields(fields)
        if await self.find(who) is None:
            raise SessionError(f"there is no person {who!r}")
        self.person = convert({**structs.asdict(self.person), **checked}, Person)
        return PersonRecord(person=self.person)


@dataclass
class MemoryGateway:
    """Implements gateway.Gateway. `fails` is raised by the next calls, to see how the door takes it."""

    ready: bool = True
    market: str = "demo"
    model: str = "offline/demo"
    persons: MemoryPeople = field(default_factory=MemoryPeople)
    routes: tuple[ExtensionRoute, ...] = ()
    fails: Exception | None = None
    unwritable: SessionError | None = None
    taken: list[Inbound] = field(default_factory=list[Inbound])
    events: EventStream = field(default_factory=EventStream)
    conversations: dict[str, tuple[Message, ...]] = field(default_factory=dict[str, tuple[Message, ...]])
    pruned: list[tuple[timedelta, bool]] = field(default_factory=list[tuple[timedelta, bool]])
    waiting: dict[str, Approval] = field(default_factory=dict[str, Approval])
    runs: dict[str, Outcome] = field(default_factory=dict[str, Outcome])
    """What came of approvals."""
    standing: dict[str, Standing] = field(default_factory=dict[str, Standing])
    busy: set[str] = field(default_factory=set[str])
    """Sessions in which a message waits for its answer."""
    forgotten: list[str] = field(default_factory=list[str])
    refuses: RefusalReason | None = None
    decisions: list[tuple[Inbound, str, str]] = field(default_factory=list[tuple[Inbound, str, str]])
    """By whom, how far, and why."""
    stoppable: list[str] = field(default_factory=list[str])
    """Messages on the part of their road that can be cut short, once."""
    stops: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    """Somebody has stopped a message."""
    awaited: asyncio.Event = field(default_factory=asyncio.Event)
    """Somebody waits for a message's end."""
    told: list[InboundRecord] = field(default_factory=list[InboundRecord])
    _records: dict[str, InboundRecord] = field(default_factory=dict[str, InboundRecord])
    _by_key: dict[tuple[str, ...], Accepted] = field(default_factory=dict[tuple[str, ...], Accepted])
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    @property
    def store(self) -> Store:
        return cast("Store", self)  # as much of it as the routes use

    @property
    def upkeep(self) -> "MemoryGateway":
        return self

    async def check_writable(self) -> SessionError | None:
        return self.unwritable

    def known_commands(self) -> Sequence[str]:
        return ("help", "reset", "approve")

    def observe(self, observer: Observer) -> Callable[[], None]:
        return self.events.observe(observer)

    async def approval(self, typed: str) -> Approval | None:
        self._maybe_fail()
        return self.waiting.get(typed)

    async def approvals(
        self, states: Collection[ApprovalState] = ("pending",), session: str | None = None, limit: int = 100
    ) -> Sequence[Approval]:
        self._maybe_fail()
        wanted = [each for each in self.waiting.values() if session in (None, each.session) and each.state in states]
        return wanted[:limit]

    async def decide(
        self,
        typed: str,
        verdict: ApprovalVerdict,
        evidence: Inbound,
        *,
        scope: ApprovalScope = "once",
        reason: str = "",
    ) -> Approval | Refusal:
        self._maybe_fail()
        if self.refuses is not None:
            return Refusal(self.refuses)
        self.decisions.append((evidence, scope, reason))
        self.waiting[typed] = structs.replace(self.waiting[typed], state=verdict)
        return self.waiting[typed]

    def summaries(self, approvals: Sequence[Approval]) -> Sequence[Summary]:
        return summaries(approvals)

    async def came_of(self, approval_id: str, seconds: float) -> Outcome | None:
        self._maybe_fail()
        return self.runs.get(approval_id)

    async def grants(self, limit: int = 100) -> Sequence[Standing]:
        self._maybe_fail()
        return list(self.standing.values())[:limit]

    async def revoke(self, typed: str, evidence: Inbound) -> Standing | Refusal:
        self._maybe_fail()
        if self.refuses is not None or typed not in self.standing:
            return Refusal(self.refuses or "unknown")
        self.decisions.append((evidence, "revoke", ""))
        return self.standing.pop(typed)

    async def accept(self, inbound: Inbound) -> Accepted:
        self._maybe_fail()
        key = (inbound.channel, inbound.account, inbound.conversation, inbound.message_id)
        known = self._by_key.get(key)
        if known is not None:
            if known.inbound != inbound:
                raise InboundConflict(f"{inbound.message_id} has another body")
            return structs.replace(known, duplicate=True)
        session = f"main:{inbound.channel}:{inbound.account}:direct:{inbound.conversation}"
        accepted = Accepted(id=new_id(), session=session, ticket=len(self.taken), inbound=inbound, accepted_at=AT)
        self._by_key[key] = accepted
        self.taken.append(inbound)
        self.remember(accepted.id, session, inbound.account)
        async with self._changed:
            self._changed.notify_all()
        return accepted

    def remember(self, inbound_id: str, session: str, account: str) -> None:
        self._records[inbound_id] = InboundRecord(
            inbound_id=inbound_id,
            session=session,
            channel="web",
            account=account,
            state="received",
            outcome=None,
            delivery="none",
            accepted_at=AT,
            attempts=0,
        )

    async def next_id(self) -> str:
        """The first message that has not ended, as soon as there is one."""
        async with self._changed:
            await self._changed.wait_for(lambda: any(not self._ended(each) for each in self._records))
            return next(each for each in self._records if not self._ended(each))

    async def end(self, inbound_id: str, outcome: Outcome) -> None:
        async with self._changed:
            record = self._records[inbound_id]
            self._records[inbound_id] = structs.replace(record, state="ended", outcome=outcome, delivery="delivered")
            self._changed.notify_all()

    async def wait(self, inbound_id: str, seconds: float) -> InboundRecord | None:
        self._maybe_fail()
        if seconds > 0:
            ending = asyncio.ensure_future(self._until_ended(inbound_id))
            self.awaited.set()
            await asyncio.wait([ending], timeout=seconds)
            ending.cancel()
        return self._records.get(inbound_id)

    async def _until_ended(self, inbound_id: str) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self._ended(inbound_id))

    async def turns(self, limit: int) -> Sequence[TurnRecord]:
        turn = TurnRecord(
            turn_id="turn-1",
            session="main:web:owner:direct:main",
            inbound_id="in-1",
            status="completed",
            started_at=AT,
            ended_at=AT,
            steps=2,
            usage=Usage(input=1),
            cost=Decimal("0.1"),
        )
        return [turn] * min(limit, 3)

    async def costs(self, days: int, by: CostsBy) -> Sequence[Cost]:
        self._maybe_fail()
        usage = Usage(input=10, output=5, cache_read=100)
        line = Cost(name=f"one {by}", calls=days, usage=usage, cost=Decimal("0.1"), saved=Decimal("-0.02"))
        return (line, structs.replace(line, name=f"another {by}"))

    async def today(self) -> Today:
        return Today(day=AT.date(), zone="UTC", cost=Decimal("0.1"), agent_day_usd=Decimal(3))

    async def turn(self, turn_id: str) -> TurnTrace | None:
        self._maybe_fail()
        (record,) = await self.turns(1)
        if turn_id not in (record.turn_id, record.inbound_id):
            return None
        asked = Message("q", "user", (Text("AAPL?"),), Source("user", "owner"), AT)
        return TurnTrace(
            record=record,
            inbound=Inbound(text="AAPL?", channel="web", message_id="1"),
            accepted_at=AT,
            outcome=answer(),
            before=(),
            messages=(asked,),
            whole=True,
        )

    async def unreachable(self) -> Sequence[UnreachableChat]:
        return (UnreachableChat(channel="telegram", conversation="42", reason="blocked the bot"),)

    async def counts(self) -> Counts:
        self._maybe_fail()
        return Counts(sessions=1, waiting=2, running=3, ended=4, units_pending=5, dead_letters=6, units_dead=7)

    async def sessions(self, limit: int, after: str | None = None, containing: str = "") -> SessionPage:
        self._maybe_fail()
        keys = [key for key in sorted(self.conversations) if containing in key and key > (after or "")]
        items = tuple(
            SessionRecord(key=key, created_at=AT, updated_at=AT, messages=len(self.conversations[key]), turns=1)
            for key in keys[:limit]
        )
        return SessionPage(items=items, after=items[-1].key if len(keys) > limit else None)

    def queue(self, session: str) -> Sequence[QueuedMessage]:
        return ()

    def clear_queue(self, session: str) -> int:
        return 0

    def stop_message(self, inbound_id: str, reason: str = "stopped by the person") -> bool:
        if self._ended(inbound_id) or inbound_id not in self.stoppable:
            return False
        self.stoppable.remove(inbound_id)
        self.stops.append((inbound_id, reason))
        self.stopping.set()
        return True

    async def stop_session(self, request: StopRequest) -> StopReport:
        wanted = [each for each in list(self.stoppable) if request.only in (None, each)]
        return StopReport(stopped=tuple(each for each in wanted if self.stop_message(each, request.reason)))

    async def undo_turn(self, accepted: Accepted, *, is_owner: bool, again: bool) -> UndoneTurn:
        return UndoneTurn(problem="nothing")

    def measure(self, messages: Sequence[Message], model: str | None) -> int:
        return len(messages)

    async def unasked(self, whose: Inbound, after: str | None) -> Unsolicited:
        self._maybe_fail()
        return Unsolicited(items=() if after is None else tuple(self.told), after=f"{whose.sender.id}-{len(self.told)}")

    async def messages(self, session: str) -> Sequence[Message]:
        return self.conversations.get(session, ())

    async def reset(self, session: str) -> None:
        self.conversations[session] = ()

    async def facts(self, session: str) -> Sequence[SessionFact]:
        return ()

    async def restore(self, session: str, messages: Sequence[Message], facts: Sequence[Fact] = ()) -> None:
        self._maybe_fail()
        if self.conversations.get(session):
            raise SessionError(f"session {session!r} has messages already")
        self.conversations[session] = tuple(messages)

    async def repair(self, session: str, *, dry_run: bool = False) -> Sequence[IntegrityFinding]:
        mended = mend(self.conversations[session])
        if not dry_run:
            self.conversations[session] = mended.messages
        return mended.findings

    async def erase_session(self, session: str, *, dry_run: bool = False) -> Erased:
        if session in self.busy:
            raise SessionError(f"session {session!r} has a message that is not answered yet")
        known = session in self.conversations
        if not dry_run:
            self.conversations.pop(session, None)
        return Erased(sessions=(session,), messages=1) if known else Erased()

    async def prepare_backup(self) -> str:
        return ".backup-1"

    async def forget_person(self, person: SenderId, *, dry_run: bool = False) -> Erased:
        if not dry_run:
            self.forgotten.append(str(person))
        return Erased(sessions=("s",), messages=1)

    async def prune(self, older_than: timedelta, *, dry_run: bool = False) -> Pruned:
        self.pruned.append((older_than, dry_run))
        return Pruned(messages=3, sessions=2)

    def _ended(self, inbound_id: str) -> bool:
        record = self._records.get(inbound_id)
        return record is None or record.state == "ended"

    def _maybe_fail(self) -> None:
        if self.fails is not None:
            raise self.fails
