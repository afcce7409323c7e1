"""Busy conversations in a gateway that is killed: each message has one end, nothing is answered twice or mixed up."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.chaos.audit import read_books
from tests.chaos.busy_run import BusyRun

from finclaw.diagnostics.crash_points import FILE_CRASH_POINTS, JOIN_CRASH_POINTS, STOP_CRASH_POINTS
from finclaw.storage.kinds import StoreKind

pytestmark = pytest.mark.chaos

TIMES = {"short": 1, "full": 1, "soak": 10}
RATE = 12
"""Messages a second, kill or no kill."""
OF_ANY_TURN = (
    "accept:after_commit",
    "pipeline:started",
    "claim:before_commit",
    "claim:after_commit",
    "model:first_chunk",
    "items:after_commit",
    "tools:started",
    "tools:money_moved",
    "results:after_commit",
    "finish:before_commit",
    "finish:after_commit",
    "send:after",
    "next_unit:after_commit",
    "receipt:before_commit",
)


@pytest.mark.soak  # how busy its conversations are depends on the machine
@pytest.mark.parametrize("storage", ["sqlite", "jsonl"])
@pytest.mark.parametrize(
    ("mode", "debounce", "cap"),
    [("steer", 0, 1_000), ("collect", 120, 1_000), ("interrupt", 0, 1_000), ("steer-backlog", 120, 6)],
)
async def test_busy_conversations_survive_kills(
    tmp_path: Path, storage: StoreKind, mode: str, debounce: int, cap: int, pytestconfig: pytest.Config
) -> None:
    """Two of three lives die at a crash point, soon after their start or once they have caught up."""
    times = TIMES[str(pytestconfig.getoption("--chaos"))]
    points = [*JOIN_CRASH_POINTS, *STOP_CRASH_POINTS] * times
    points += [*OF_ANY_TURN, *(FILE_CRASH_POINTS if storage == "jsonl" else ())] * times
    async with BusyRun(tmp_path, storage, mode, debounce=debounce, cap=cap) as run:
        run.dice.shuffle(points)
        run.platform.fault = run.moods
        async with run.load(RATE):
            for life, point in enumerate(points):
                die = run.die_at if life % 2 else run.die_later_at
                await die(f"{point}:{run.dice.randint(1, 3)}")
                if life % 2:
                    await run.live_for(run.dice.uniform(0.0, 1.5))
        found = await run.drain_busy()
    assert not found.faults, str(found)
    orders = Counter(line for line in run.worked() if line.startswith("order "))
    assert max(orders.values(), default=0) <= 1, f"moved money twice: {orders.most_common(3)}"
    assert run.kills == len(points) + len(points) // 2
    for end in ("answered", "joined", "stopped", "command"):
        assert found.outcomes[end], f"no message ended {end}, so nothing was proved about it"


# ── the same by script: what joins and what is stopped is known beforehand ──────────────────────────────────────


class Scene(NamedTuple):
    """A conversation that is written before a gateway starts, and where that one dies."""

    write: Callable[[BusyRun, str], None]
    waits: int
    """Messages that wait behind the first one's tool until it ends."""
    point: str


def steer(run: BusyRun, place: str) -> None:
    run.ask_slowly(place)
    run.ask(place, "/queue steer")
    run.ask(place, "/queue steer")


def collect(run: BusyRun, place: str) -> None:
    run.ask_slowly(place)
    run.ask(place, "/queue collect")
    run.ask(place, "/queue collect")


def stop(run: BusyRun, place: str) -> None:
    run.ask_slowly(place)
    run.ask(place, "/queue followup")
    run.stop(place)


def edit(run: BusyRun, place: str) -> None:
    run.edit_waiting(place)


NEVER = 99
STEERED = [Scene(steer, 2, point) for point in ("join:before_commit:1", "join:before_commit:2", "join:after_commit:2")]
COLLECTED = [Scene(collect, 2, point) for point in ("join:before_commit:1", "join:after_commit:1")]
STOPPED = [Scene(stop, NEVER, f"{point}:1") for point in STOP_CRASH_POINTS if point.startswith("stop:")]
EDITED = [Scene(edit, NEVER, f"{point}:1") for point in STOP_CRASH_POINTS if point.startswith("amend:")]
SCENES = {
    "short": {
        "sqlite": [STEERED[1], STOPPED[0]],
        "jsonl": [STEERED[2], EDITED[1]],
    },
    "full": {store: [*STEERED, *COLLECTED, *STOPPED, *EDITED] for store in ("sqlite", "jsonl")},
}


@pytest.mark.parametrize("storage", ["sqlite", "jsonl"])
async def test_scenes_of_busy_conversations(tmp_path: Path, storage: StoreKind, pytestconfig: pytest.Config) -> None:
    """Each scene has a conversation of its own, and the next life goes on with what the last one left."""
    dose = str(pytestconfig.getoption("--chaos"))
    scenes = SCENES["full" if dose == "soak" else dose][storage]
    async with BusyRun(tmp_path, storage, "followup") as run:
        for number, scene in enumerate(scenes):
            run.hold = (scene.waits, f"p{number}")
            scene.write(run, f"p{number}")
            await run.die_at(scene.point)
        run.hold = (2, "last")
        steer(run, "last")
        found = await run.drain_busy()
        books = read_books(run.database)
    assert not found.faults, str(found)
    ends = {entry.row.message_id: entry.row.outcome for entry in books.entries}
    assert sorted(ends[f"last-{n}"] or "" for n in (1, 2, 3)) == ["answered", "joined", "joined"]
    for number, scene in enumerate(scenes):
        if scene.write is stop:
            assert [ends[f"p{number}-{n}"] for n in (1, 2, 3)] == ["stopped", "stopped", "command"]
            assert not [reply for reply in run.platform.replies_in(f"p{number}") if "<" in reply.text]
    assert run.kills == len(scenes)
