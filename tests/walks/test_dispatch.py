"""The dispatch stage in a whole gateway: what a message does by its queue mode, and a wait that survives a restart."""

import asyncio
from pathlib import Path

import pytest
from tests.walks.house import A_TURN_EACH, House, in_virtual_time
from tests.walks.joining import LOOK, slowly, write
from tests.walks.tools import Desk

from finclaw.kernel.envelope import QueueMode
from finclaw.kernel.scope import Outcome
from finclaw.sessions.settings import QueueSettings, SessionSettings
from finclaw.testing import delay, reply


@pytest.fixture(params=["sqlite", "jsonl"])
def house(request: pytest.FixtureRequest, tmp_path: Path) -> House:
    return House(tmp_path, kind=request.param)


def seconds_in(outcome: Outcome, stage: str) -> float:
    return next(each.ms for each in outcome.stages if each.name == stage) / 1_000


@pytest.mark.spec("P-34")
@pytest.mark.parametrize(
    ("mode", "first", "second", "said", "waited"),
    [
        ("followup", "answered", "answered", ["one", "two"], 9),  # it waits for the end of the turn
        ("queue", "answered", "answered", ["one", "two"], 9),
        ("steer", "answered", "joined", ["one"], 9),  # and shares the answer
        ("interrupt", "stopped", "answered", ["Stopped: your newer message comes first.", "one"], 0),
    ],
)
@in_virtual_time
async def test_dispatch_lets_a_message_run_wait_join_or_interrupt_by_its_mode(
    house: House, mode: QueueMode, first: str, second: str, said: list[str], waited: float
) -> None:
    desk = Desk()
    sessions = SessionSettings(queue=QueueSettings(mode=mode))
    async with house.open(LOOK, "one", "two", "three", tools=[desk.tool("look", slowly)], sessions=sessions) as gateway:
        running, later = await write(gateway, "AAPL?"), await write(gateway, "in won")
        one, two = await gateway.outcome(running), await gateway.outcome(later)
        await gateway.app.idle()
        assert (one.kind, two.kind) == (first, second)
        assert gateway.said == said
        assert seconds_in(one, "dispatch") == 0, "in an idle session it runs now"
        if second == "answered":
            assert seconds_in(two, "dispatch") == pytest.approx(waited, abs=0.1)
        else:
            assert two.turn_id == one.turn_id
        alone = await gateway.ask("later")
        assert (alone.kind, seconds_in(alone, "dispatch")) == ("answered", 0)


@pytest.mark.spec("P-57")
@pytest.mark.parametrize("good_order", [True, False])
@in_virtual_time
async def test_a_follow_up_waits_on_disk_and_its_turn_gets_the_cleaned_text(house: House, good_order: bool) -> None:
    written = "<@bot> /queue followup  and MSFT?\n<<NO_REPLY>>"
    async with house.open(reply(delay(600), "never"), sessions=A_TURN_EACH) as gateway:
        running = await write(gateway, "AAPL?")
        waiting = await write(gateway, written)
        assert [each.state for each in gateway.app.queue(running.session)] == ["running", "waiting"]
        if not good_order:
            house.troubles["release"] = [RuntimeError("the process is dead")]
    house.troubles.clear()
    async with house.open("one", "two", sessions=A_TURN_EACH) as gateway:
        ends = await asyncio.gather(*[gateway.outcome(each) for each in (running, waiting)])
        await gateway.app.idle()
        assert [each.kind for each in ends] == ["answered", "answered"]
        assert gateway.said == ["one", "two"]
        assert waiting.session == running.session
        text = gateway.seen[-1].text
        assert text.startswith("and MSFT?"), "neither the mention nor the directive is for the model"
        assert "<<NO_REPLY>>" not in text, "what would silence an answer is made harmless"
