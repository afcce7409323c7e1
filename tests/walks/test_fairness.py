"""Fairness: one person's flood costs the others little, and that person hears of it once."""

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.walks.house import Gateway, House

from finclaw.kernel.chunk import ModelRequest
from finclaw.kernel.record import Accepted
from finclaw.pipeline.settings import PipelineSettings, PoolSettings
from finclaw.sessions.settings import QueueSettings, SessionSettings
from finclaw.testing import Reply, delay, reply

SESSIONS, SECONDS, FLOOD = 200, 10.0, 1_000


def think(request: ModelRequest) -> Reply:
    return reply(delay(0.2), "ok")


async def write_at(gateway: Gateway, at: float, text: str, **fields: Any) -> tuple[Accepted, float]:
    """Gives the message, and the seconds until it had its end."""
    await asyncio.sleep(at)
    accepted = await gateway.channel.write(text, **fields)
    written = asyncio.get_running_loop().time()
    await gateway.outcome(accepted)
    return accepted, asyncio.get_running_loop().time() - written


async def flood(gateway: Gateway, peak: list[int]) -> None:
    """A thousand messages of one person: half of them in one chat, the others in fifty rooms."""
    for number in range(FLOOD):
        room = {"chat_type": "group", "conversation": f"room {number % 50}", "mentions_us": True}
        fields: dict[str, Any] = room if number % 2 else {}
        await gateway.channel.write(f"flood {number}", sender="flooder", **fields)
        peak[0] = max(peak[0], len(asyncio.all_tasks()))
        await asyncio.sleep(SECONDS / FLOOD)


async def measure(house: House, *, flooded: bool) -> tuple[float, int, list[str]]:
    """The others' wait at the 99th percentile, the most tasks at a time, and what the flooder was told of it."""
    dice, peak = Random(7), [0]
    queue = SessionSettings(queue=QueueSettings(mode="queue", cap=5))
    pools = PipelineSettings(pools=PoolSettings(main=8))
    async with house.open(think, sessions=queue, pipeline=pools) as gateway:
        flooding = asyncio.create_task(flood(gateway, peak)) if flooded else None
        others = [
            write_at(gateway, dice.uniform(0, SECONDS), f"q{each}", sender=f"p{each}") for each in range(SESSIONS)
        ]
        waits = sorted(wait for _, wait in await asyncio.gather(*others))
        if flooding is not None:
            await flooding
        await gateway.app.idle()
        direct = [each for each in gateway.channel.sent if each.unit.conversation == "main"]
        notices = [each.text for each in direct if "leave some of it out" in each.text]
        return waits[int(len(waits) * 0.99)], peak[0], notices


@pytest.mark.spec("Q-17")
def test_a_flood_of_one_person_costs_the_others_little(tmp_path: Path) -> None:
    quiet = House(tmp_path / "quiet")
    loud = House(tmp_path / "loud")
    quiet.state.mkdir()
    loud.state.mkdir()
    before, _, _ = quiet.clock.run(measure(quiet, flooded=False))
    during, tasks, notices = loud.clock.run(measure(loud, flooded=True))
    assert during <= 3 * before, f"{during:.2f} s instead of {before:.2f} s"
    assert len(notices) == 1
    assert tasks < SESSIONS + 600, "what waits is bounded, whatever comes"
