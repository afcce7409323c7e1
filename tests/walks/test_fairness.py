"""Fairness: one person's flood costs the others little, and that person hears of it once."""

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.walks.house import Gateway, House

from finclaw.kernel.chunk import ModelRequest
from finclaw.kernel.event import QueueChanged
from finclaw.kernel.record import Accepted
from finclaw.pipeline.settings import PipelineSettings, PoolSettings
from finclaw.sessions.settings import QueueSettings, SessionSettings
from finclaw.testing import Reply, delay, reply

SESSIONS, SECONDS, FLOOD = 200, 10.0, 1_000
MINA = {"conversation": "mina", "sender": "mina"}


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


def test_who_waits_for_a_seat_sees_why_and_behind_how_many(tmp_path: Path) -> None:
    house, events = House(tmp_path), list[tuple[str, int]]()

    async def walk() -> None:
        pools = PipelineSettings(pools=PoolSettings(main=2))
        async with house.open(lambda _: reply(delay(30), "ok"), pipeline=pools) as gateway:
            people = ("ada", "grace", "linus", "mina")
            asked = [await gateway.channel.write("hello", conversation=each, sender=each) for each in people]
            await asyncio.sleep(1)
            (seat,) = gateway.app.queue(asked[-1].session)
            assert (seat.state, seat.waits_for, seat.before) == ("waiting", "seat", 1)
            said = [await tell(gateway, text, **MINA) for text in ("/queue", "/대기")]
            assert [each.splitlines()[:2] for each in said] == [
                ["Waiting: 1", "All seats are taken. Conversations that wait before this one: 1"],
                ["대기 중: 1개", "동시에 답변할 수 있는 자리가 모두 찼습니다. 먼저 기다리는 대화: 1개"],
            ]
            await gateway.app.idle()
            assert await tell(gateway, "/queue", **MINA) == said[1].replace(
                "\n".join(said[1].splitlines()[:2]), "답변을 기다리는 메시지가 없습니다."
            )
            told = [each for each in gateway.events if isinstance(each, QueueChanged)]
            events.extend((each.waits_for, each.position) for each in told)

    house.clock.run(walk())
    assert events == [("seat", 0), ("seat", 1)]


def test_who_has_their_share_of_the_seats_sees_it(tmp_path: Path) -> None:
    house = House(tmp_path)

    async def walk() -> None:
        pools = PipelineSettings(pools=PoolSettings(main=8))
        async with house.open(lambda _: reply(delay(30), "ok"), pipeline=pools) as gateway:
            asked = [await gateway.channel.write("hello", conversation=f"c{number}") for number in range(7)]
            await asyncio.sleep(1)
            (share,) = gateway.app.queue(asked[-1].session)
            assert (share.state, share.waits_for, share.before) == ("waiting", "share", 0)
            said = await tell(gateway, "/queue", conversation="c6")
            assert said.splitlines()[1].startswith(
                "Your other conversations have all the seats that one person may have"
            )

    house.clock.run(walk())


async def tell(gateway: Gateway, text: str, **fields: Any) -> str:
    """What the gateway answers at once, while others wait."""
    outcome = await gateway.outcome(await gateway.channel.write(text, **fields))
    return outcome.reply or ""
