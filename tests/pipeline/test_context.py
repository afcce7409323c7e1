"""Stages 5 and 6 built with fakes: what they need is handed to them, and that is all they need."""

from pathlib import Path

import pytest

from finclaw.agent.budget.call_ledger import Payer, most_of
from finclaw.diagnostics.event_stream import EventStream
from finclaw.kernel.chunk import Model
from finclaw.kernel.envelope import Capabilities, Inbound, Sender
from finclaw.kernel.record import Accepted, Reserve
from finclaw.kernel.scope import Ids
from finclaw.pipeline.context import Contexts
from finclaw.pipeline.dispatch import Dispatch
from finclaw.pipeline.gate import normalize
from finclaw.pipeline.message_run import MessageRun
from finclaw.pipeline.stage import Deadline, Journal
from finclaw.sessions.carried_over import SessionOpening
from finclaw.sessions.lane import Lanes
from finclaw.sessions.pool import Pools
from finclaw.sessions.waiting import LaneWaiting
from finclaw.storage.sqlite.store import open_store
from finclaw.testing import FakeClock, MemoryChannel
from finclaw.testing.clock import EPOCH
from finclaw.transcript.conversation import RecentConversations


def reserve(_: Inbound, __: str) -> Reserve:
    return lambda context: most_of(Model("scripted", "one"), context, 1, Payer(), EPOCH)


def accepted(inbound: Inbound) -> Accepted:
    return Accepted(id="m-1", session="s", ticket=1, inbound=inbound, accepted_at=EPOCH)


@pytest.mark.spec("P-33", "M-13", "M-11")
def test_the_context_stage_needs_its_arguments_only(tmp_path: Path) -> None:
    clock = FakeClock()
    channel = MemoryChannel(clock, capabilities=Capabilities(max_length=99, embeds=True))

    async def main() -> None:
        store = open_store(tmp_path / "x.db", clock, threaded=False)
        contexts = Contexts("analyst", {"memory": channel}, store, clock)
        known = Inbound(text="hi", channel="memory", sender=Sender("ada"))
        context = contexts.build(accepted(known), normalize(known), known.sender)
        assert (context.agent, context.session_key, context.inbound_id) == ("analyst", "s", "m-1")
        assert context.capabilities == Capabilities(max_length=99, embeds=True)
        unknown = Inbound(text="hi", channel="gone")
        assert contexts.build(accepted(unknown), normalize(unknown), unknown.sender).capabilities == Capabilities()
        await store.close()

    clock.run(main())


@pytest.mark.spec("P-33", "P-31", "M-28", "M-29")
def test_dispatch_completes_the_context_from_the_store_it_was_given(tmp_path: Path) -> None:
    clock = FakeClock()

    async def main() -> None:
        store = open_store(tmp_path / "x.db", clock, threaded=False)
        lanes = Lanes()
        opening = SessionOpening(store, RecentConversations(), clock)
        dispatch = Dispatch(store, LaneWaiting(lanes, clock), Pools(), opening, clock, reserve)
        inbound = Inbound(text="hi")
        mine = await store.accept(inbound, "s", lambda each: lanes.expect(each.session, each.ticket))
        ids = Ids(agent="a", session="s", inbound_id=mine.id, turn_id="")
        walk = MessageRun(
            ids=ids,
            emit=EventStream().emit,
            inbound=inbound,
            accepted=mine,
            journal=Journal(clock, EventStream().emit, ids),
            deadline=Deadline(10),
            patience=Deadline(20),
            lanes=lanes,
        )
        context = Contexts("main", {}, store, clock).build(mine, normalize(inbound), inbound.sender)
        context, turn = await dispatch.admit(walk, context)
        assert (context.is_new_session, context.session_started_at) == (True, EPOCH)
        assert turn is walk.log
        assert walk.ids["turn_id"] == turn.claim.turn_id
        await store.close()

    clock.run(main())
