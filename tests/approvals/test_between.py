"""Between a yes and the run behind it: who gave it must still be somebody who may."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from tests.ports.nouns import nobody

from finclaw.approvals.action import Action
from finclaw.approvals.announce import unheard
from finclaw.approvals.approvals import Approvals
from finclaw.approvals.people import People, PersonSettings
from finclaw.approvals.remote_approvers import NoChats
from finclaw.approvals.settings import ApprovalSettings
from finclaw.errors import ToolDenied
from finclaw.kernel.approval import Approval
from finclaw.kernel.envelope import Inbound, Sender
from finclaw.kernel.store_port import Store
from finclaw.storage.sqlite.store import open_store
from finclaw.testing import FakeClock

pytestmark = pytest.mark.spec("DX-22")

MINA = PersonSettings(name="Mina", known_as=("memory:local:mina",), roles=("approver",))
JUN = PersonSettings(name="Jun", known_as=("memory:local:jun",), roles=("approver",))
ROOM = Inbound(text="buy", channel="memory", conversation="room", sender=Sender("bob"), chat_type="group")
HERE = Inbound(text="buy", channel="memory", conversation="bob", sender=Sender("bob"))
CLOCK = FakeClock()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncGenerator[Store]:
    store = open_store(tmp_path / "x.db", CLOCK, threaded=False)
    yield store
    await store.close()


def approvals(store: Store, *people: PersonSettings, settings: ApprovalSettings | None = None) -> Approvals:
    """As a gateway has them after a restart with these settings."""
    return Approvals(store, People(people), settings or ApprovalSettings(), CLOCK, nobody, NoChats(), unheard())


async def granted(store: Store, inbound: Inbound, by: Inbound, *people: PersonSettings) -> Approval:
    before = approvals(store, *people)
    asked = await before.ask(
        Action(
            tool="broker__order",
            args={"n": 1},
            inbound=inbound,
            session="s",
            inbound_id="m",
            turn_id="t",
            call_id="c",
        )
    )
    decided = await before.decide(asked.id, "granted", by)
    assert isinstance(decided, Approval)
    return decided


async def test_a_yes_of_somebody_who_has_lost_their_role_runs_nothing(store: Store) -> None:
    mina = Inbound(text="", channel="memory", conversation="mina", sender=Sender("mina"))
    given = await granted(store, ROOM, mina, MINA, JUN)
    with pytest.raises(ToolDenied, match="memory:local:mina may no longer approve it; broker__order was not run"):
        await approvals(store, JUN).take(given.id, "t-2", "s")
    kept = await store.approval(given.id)
    assert kept is not None
    assert kept.state == "failed", "and does not come back with her role"


async def test_ones_own_yes_runs_nothing_when_others_have_to_decide_meanwhile(store: Store) -> None:
    given = await granted(store, HERE, HERE, MINA)
    with pytest.raises(ToolDenied, match="may no longer approve it"):
        await approvals(store, MINA, settings=ApprovalSettings(own="never")).take(given.id, "t-2", "s")


@pytest.mark.parametrize("inbound", [ROOM, HERE], ids=["another's", "one's own"])
async def test_a_yes_that_still_counts_runs_once(store: Store, inbound: Inbound) -> None:
    by = HERE if inbound is HERE else Inbound(text="", channel="memory", conversation="mina", sender=Sender("mina"))
    given = await granted(store, inbound, by, MINA)
    after = approvals(store, MINA)
    assert (await after.take(given.id, "t-2", "s")).id == given.id
    with pytest.raises(ToolDenied, match="is used"):
        await after.take(given.id, "t-3", "s")
