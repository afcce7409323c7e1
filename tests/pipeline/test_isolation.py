"""The crash isolation and the lanes together: exclusive messages run alone, and every message gets through."""

import asyncio
import random
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.machine import examples

from finclaw.kernel.envelope import Inbound
from finclaw.kernel.record import Accepted
from finclaw.pipeline.recovery import CrashIsolation, Entry, ExclusiveEntry, OneAtATimeEntry
from finclaw.sessions.lane import Lanes

NOW = datetime(2026, 1, 1, tzinfo=UTC)
Kind = Literal["shared", "suspect", "exclusive"]
MOST_STEPS = 2_000
"""Steps of the event loop after which a model run that has not ended counts as a deadlock."""


def message(session: str, ticket: int) -> Accepted:
    return Accepted(id=f"{session}{ticket}", session=session, ticket=ticket, inbound=Inbound(text=""), accepted_at=NOW)


class Model:
    """Messages that enter the isolation, run their first stages, wait for their lane and run their turn."""

    def __init__(self) -> None:
        self.isolation = CrashIsolation()
        self.lanes = Lanes()
        self.active: dict[str, Kind] = {}
        self.overlaps: set[tuple[str, str]] = set()
        self.turns: list[str] = []
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.suspended: set[str] = set()
        self.has_turn: set[str] = set()

    def submit(self, accepted: Accepted, kind: Kind, *, first: int = 1, turn: int = 1) -> "asyncio.Task[None]":
        self.lanes.expect(accepted.session, accepted.ticket, accepted)
        task = asyncio.create_task(self._run(accepted, kind, first, turn))
        self.tasks[accepted.id] = task
        task.add_done_callback(lambda _: self._leave(accepted))  # also of one that was cancelled before it began
        return task

    def _leave(self, accepted: Accepted) -> None:
        if accepted.id not in self.suspended:
            self.lanes.leave(accepted.session, accepted.ticket)

    async def edit(self, accepted: Accepted, kind: Kind) -> None:
        """Take a waiting message out and submit it again, as an edit of it does."""
        task = self.tasks[accepted.id]
        if task.done() or accepted.id in self.has_turn:
            return
        self.suspended.add(accepted.id)
        task.cancel()
        await asyncio.wait([task])
        await asyncio.sleep(0)  # its callback has run
        self.suspended.discard(accepted.id)
        self.submit(accepted, kind)

    async def _run(self, accepted: Accepted, kind: Kind, first: int, turn: int) -> None:
        async with self._enter(kind) as entry:
            await self._work(accepted.id, kind, first)
            await entry.wait_outside(self.lanes.turn_of(accepted.session, accepted.ticket))
            self.has_turn.add(accepted.id)
            await self._work(accepted.id, kind, turn)
            self.turns.append(accepted.id)

    def _enter(self, kind: Kind) -> Entry:
        kinds: dict[Kind, type[Entry]] = {"shared": Entry, "suspect": OneAtATimeEntry, "exclusive": ExclusiveEntry}
        return kinds[kind](self.isolation)

    async def _work(self, name: str, kind: Kind, steps: int) -> None:
        with self._activity(name, kind):
            for _ in range(steps):
                await asyncio.sleep(0)

    @contextmanager
    def _activity(self, name: str, kind: Kind) -> Generator[None]:
        for other, other_kind in self.active.items():
            if "exclusive" in (kind, other_kind) or kind == other_kind == "suspect":
                self.overlaps.add((name, other))
        self.active[name] = kind
        try:
            yield
        finally:
            del self.active[name]

    async def drain(self) -> None:
        for _ in range(MOST_STEPS):
            if all(task.done() for task in self.tasks.values()):
                return
            await asyncio.sleep(0)
        waiting = [name for name, task in self.tasks.items() if not task.done()]
        pytest.fail(f"deadlock: {waiting} wait, {list(self.active)} run")


async def test_exclusive_message_waits_for_those_inside_and_keeps_later_ones_out() -> None:
    model = Model()
    model.submit(message("a", 1), "shared", turn=5)
    model.submit(message("b", 1), "exclusive", turn=3)
    model.submit(message("c", 1), "shared")
    await model.drain()
    assert not model.overlaps
    assert set(model.turns) == {"a1", "b1", "c1"}


async def test_shared_messages_run_side_by_side() -> None:
    model = Model()
    for session in "abc":
        model.submit(message(session, 1), "shared", first=3)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert set(model.active) == {"a1", "b1", "c1"}
    await model.drain()


async def test_exclusive_message_lets_earlier_ones_of_its_session_pass() -> None:
    model = Model()
    for ticket in (3, 7):  # as a start makes all of them known before anything moves
        model.lanes.expect("a", ticket)
    model.submit(message("a", 7), "exclusive")
    await asyncio.sleep(0)
    model.submit(message("b", 1), "shared")
    model.submit(message("a", 3), "shared", turn=4)
    await model.drain()
    assert not model.overlaps
    assert [name for name in model.turns if name.startswith("a")] == ["a3", "a7"]


@pytest.mark.parametrize("cancelled", ["the one inside", "the exclusive one", "the next exclusive one", "one outside"])
async def test_cancelled_message_blocks_nobody(cancelled: str) -> None:
    model = Model()
    tasks = {
        "the one inside": model.submit(message("a", 1), "shared", first=1_000_000_000),
        "the exclusive one": model.submit(message("b", 1), "exclusive", turn=3),
        "the next exclusive one": model.submit(message("c", 1), "exclusive", turn=3),
        "one outside": model.submit(message("d", 1), "shared"),
    }
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    tasks[cancelled].cancel()
    await asyncio.sleep(0)
    tasks["the one inside"].cancel()
    await model.drain()
    ended = [name for name in tasks if not tasks[name].cancelled()]
    assert ended == [name for name in tasks if name not in (cancelled, "the one inside")]
    model.submit(message("e", 1), "exclusive")
    await model.drain()
    assert model.turns[-1] == "e1"


async def test_giving_up_exclusivity_lets_everybody_in() -> None:
    model = Model()
    model.submit(message("a", 1), "shared", first=1_000_000_000)
    model.submit(message("b", 1), "exclusive")
    model.submit(message("c", 1), "shared")
    for _ in range(5):
        await asyncio.sleep(0)
    assert model.turns == []
    model.isolation.give_up_exclusivity()
    for _ in range(20):
        await asyncio.sleep(0)
    assert sorted(model.turns) == ["b1", "c1"]
    assert model.isolation.is_open
    model.tasks["a1"].cancel()
    await model.drain()
    model.overlaps.clear()
    model.submit(message("d", 1), "exclusive", turn=3)
    model.submit(message("e", 1), "shared")
    await model.drain()
    assert not model.overlaps


SHARES: tuple[Kind, ...] = ("shared", "shared", "suspect", "exclusive")
KINDS = st.sampled_from(SHARES)
MESSAGES = st.lists(st.tuples(st.sampled_from("abcd"), KINDS, st.integers(1, 4)), min_size=1, max_size=16)


@settings(max_examples=examples(600), deadline=None)
@given(MESSAGES, st.randoms(use_true_random=False))
def test_no_order_of_events_deadlocks_or_breaks_exclusivity(
    planned: list[tuple[str, Kind, int]], dice: random.Random
) -> None:
    """Random sessions, tickets, arrivals, edits and stops, of messages that a crash left and of new ones."""

    async def run() -> Model:
        model = Model()
        messages = [message(session, ticket) for ticket, (session, _, _) in enumerate(planned, start=1)]
        kinds: dict[str, Kind] = {accepted.id: kind for accepted, (_, kind, _) in zip(messages, planned, strict=True)}
        work = {accepted.id: steps for accepted, (_, _, steps) in zip(messages, planned, strict=True)}
        recovered = messages[: dice.randrange(len(messages) + 1)]
        stopped = set[str]()
        for accepted in recovered:
            model.lanes.expect(accepted.session, accepted.ticket, accepted)
        for accepted in sorted(recovered, key=lambda each: each.session):
            model.submit(accepted, kinds[accepted.id], first=work[accepted.id], turn=work[accepted.id])
        for accepted in messages[len(recovered) :]:
            model.submit(accepted, "shared", first=work[accepted.id], turn=work[accepted.id])
        for _ in range(len(messages)):
            for _ in range(dice.randrange(6)):
                await asyncio.sleep(0)
            target = dice.choice(messages)
            match dice.randrange(3):
                case 0 if target.id not in stopped:
                    await model.edit(target, kinds[target.id])
                case 1:
                    stopped.add(target.id)
                    model.tasks[target.id].cancel()
                case _:
                    pass
        await model.drain()
        assert {name for name, task in model.tasks.items() if task.cancelled()} <= stopped
        return model

    model = asyncio.run(run())
    assert not model.overlaps
    for session in "abcd":
        tickets = [int(name[1:]) for name in model.turns if name.startswith(session)]
        assert tickets == sorted(tickets)
