"""Steering: which of the messages that wait in a lane a turn takes in."""

import asyncio
from contextlib import suppress
from datetime import UTC, datetime

from finclaw.kernel.envelope import Inbound
from finclaw.kernel.event import Event
from finclaw.kernel.message import Message, Source, Text
from finclaw.kernel.record import Accepted
from finclaw.kernel.scope import Ids
from finclaw.sessions.lane import ChosenMode, JoinOffer, Lane, Lanes
from finclaw.sessions.waiting import LaneWaiting
from finclaw.testing import FakeClock

AT = datetime(2026, 1, 5, 9, tzinfo=UTC)
IDS = Ids(agent="main", session="s", inbound_id="m-1", turn_id="t-1")


def accept(ticket: int) -> Accepted:
    inbound = Inbound(text=f"words {ticket}", conversation="c")
    return Accepted(id=f"m-{ticket}", session="s", ticket=ticket, inbound=inbound, accepted_at=AT)


def offer(lane: Lane, accepted: Accepted) -> "asyncio.Task[None]":
    """Let a message wait in the lane, ready to join the turn before it."""
    words = Message(accepted.id, "user", (Text(accepted.inbound.text),), Source("user"), AT)
    waiting = JoinOffer(accepted, words, ChosenMode("steer", "session"))
    return asyncio.create_task(lane.turn_or_join(accepted.ticket, waiting))


def ignore(event: Event) -> None:
    """Nobody observes."""


async def take_in_while_the_second_is_edited() -> list[str]:
    lanes, host = Lanes(), accept(1)
    for each in (host, accept(2), accept(3)):
        lanes.expect("s", each.ticket, each)
    lane = lanes.find("s")
    tasks = [offer(lane, accept(ticket)) for ticket in (2, 3)]
    await asyncio.sleep(0)
    taken: list[str] = []

    async def join(later: Accepted, words: Message) -> bool:
        taken.append(words.text)
        lane.withdraw_offer(3)  # an edit takes the third message out of the pipeline during this commit
        return True

    await LaneWaiting(lanes, FakeClock()).steer(host, "steer", join, ignore, IDS).take(1)
    for task in tasks:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    return taken


def test_old_words_do_not_join_while_their_message_is_edited() -> None:
    assert FakeClock().run(take_in_while_the_second_is_edited()) == ["words 2"]
