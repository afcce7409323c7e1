"""Whatever happens in whatever order: used at most once, never unless granted, in time and exactly that action."""

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.machine import examples
from tests.ports.approval_nouns import ADA, SESSION, said, wish

from finclaw.approvals.announce import unheard
from finclaw.approvals.approvals import Approvals
from finclaw.approvals.people import People
from finclaw.approvals.remote_approvers import NoChats
from finclaw.approvals.settings import ApprovalSettings
from finclaw.kernel.approval import Approval, Refusal
from finclaw.kernel.envelope import Inbound, Sender
from finclaw.kernel.record import Accepted
from finclaw.kernel.store_port import Store
from finclaw.storage.sqlite.store import open_store
from finclaw.testing import FakeClock

Op = (
    tuple[Literal["approve", "deny"], str]
    | tuple[Literal["use"], str, bool]
    | tuple[Literal["wait"], float]
    | tuple[Literal["expire", "remind", "restart", "ask", "crowd"]]
    | tuple[Literal["fail"], str]
)

OPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["approve", "deny"]), st.sampled_from(["ada", "eve"])),
        st.tuples(st.just("use"), st.sampled_from(["t-1", "t-2"]), st.booleans()),
        st.tuples(st.just("wait"), st.sampled_from([1.0, 149.0, 150.0, 299.0, 300.0])),
        st.tuples(st.sampled_from(["expire", "remind", "restart", "ask", "crowd"])),
        st.tuples(st.just("fail"), st.sampled_from(["t-1", "t-2"])),
    ),
    max_size=14,
)


@dataclass
class Life:
    """One approval, and what it was seen to do."""

    where: Path
    clock: FakeClock = field(default_factory=FakeClock)
    decided: list[str] = field(default_factory=list[str])
    users: set[str] = field(default_factory=set[str])
    told: list[str] = field(default_factory=list[str])
    over: bool = False
    """Something was seen after which it must never run."""
    store: Store = field(init=False)
    asked: Approval = field(init=False)

    async def begin(self) -> None:
        self.store = open_store(self.where / "x.db", self.clock, threaded=False)
        self.asked = await self.store.ask(wish(self.clock.now()))

    @property
    def in_time(self) -> bool:
        return self.clock.now() < self.asked.expires_at

    def hear(self, accepted: Accepted) -> None:
        assert accepted.session == SESSION
        self.told.append(accepted.inbound.from_extension or "runs")

    def approvals(self) -> Approvals:
        settings, people = ApprovalSettings(), People()
        return Approvals(self.store, people, settings, self.clock, self.hear, NoChats(), unheard())

    async def decide(self, verdict: Literal["granted", "denied"], who: str) -> None:
        evidence = Inbound(text="", channel="memory", conversation="ada", sender=Sender(who))
        answer = await self.approvals().decide(self.asked.id, verdict, evidence)
        if isinstance(answer, Refusal):
            return
        assert who == "ada", "a stranger's word counted"
        assert self.in_time, "a word counted that came too late"
        assert answer.decided_by == ADA
        self.decided.append(verdict)
        assert len(self.decided) == 1, "two words counted"

    async def use(self, turn: str, *, right: bool) -> None:
        if not await self.store.use(self.asked.id, turn, self.asked.hash if right else "0" * 64):
            return
        assert right, "another action was run"
        assert self.decided == ["granted"], "it ran without a yes"
        assert self.in_time, "it ran too late"
        assert not self.over, "it ran after it was over"
        self.users.add(turn)
        assert len(self.users) == 1, "two turns ran it"

    async def do(self, op: Sequence[object]) -> None:
        match op:
            case ("approve" | "deny", str(who)):
                await self.decide("granted" if op[0] == "approve" else "denied", who)
            case ("use", str(turn), bool(right)):
                await self.use(turn, right=right)
            case ("fail", str(turn)):
                self.over |= await self.store.fail(self.asked.id, turn)
            case ("wait", float(seconds)):
                self.clock.advance(seconds)
            case ("expire",):
                self.over |= bool(await self.store.expire(said, self.hear))
            case ("remind",):
                await self.store.remind(said, self.hear)
            case ("ask",):
                assert (await self.store.ask(wish(self.clock.now()))).id == self.asked.id
            case ("restart",):
                await self.store.close()
                self.store = open_store(self.where / "x.db", self.clock, threaded=False)
            case _:  # all at once
                await asyncio.gather(
                    self.decide("granted", "ada"),
                    self.use("t-1", right=True),
                    self.decide("denied", "ada"),
                    self.use("t-2", right=True),
                )


@pytest.mark.spec("DX-22")
@settings(max_examples=examples(100))
@given(OPS)
@example([("approve", "ada"), ("wait", 300.0), ("use", "t-1", True)])
@example([("approve", "ada"), ("use", "t-1", True), ("wait", 300.0), ("use", "t-1", True)])
@example([("approve", "ada"), ("wait", 300.0), ("expire",), ("restart",), ("use", "t-1", True), ("approve", "ada")])
@example([("wait", 300.0), ("approve", "ada"), ("use", "t-1", True)])
@example([("approve", "ada"), ("use", "t-1", True), ("fail", "t-1"), ("use", "t-1", True)])
def test_any_order_of_events(ops: list[Op]) -> None:
    async def live(where: Path) -> None:
        life = Life(where)
        await life.begin()
        for op in ops:
            await life.do(op)
        waiting = await life.store.unfinished()
        await life.store.close()
        assert life.told.count("runs") == (life.decided == ["granted"])
        assert len(waiting) == len(life.told) <= 3
        assert len([each for each in waiting if each.inbound.limits is not None]) == life.told.count("runs")

    with tempfile.TemporaryDirectory() as where:
        asyncio.run(live(Path(where)))
