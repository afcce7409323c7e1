"""Busy conversations in a gateway that is killed: messages join turns, and nothing is lost or answered twice."""

from collections import Counter
from pathlib import Path

import pytest
from tests.chaos.audit import find_talk_faults, read_books
from tests.chaos.gateway import CHILD
from tests.chaos.harness import PATIENT, Run

from finclaw.diagnostics.crash_points import JOIN_CRASH_POINTS
from finclaw.storage.kinds import StoreKind

pytestmark = [pytest.mark.chaos, pytest.mark.soak]  # how busy its conversations are depends on the machine

TIMES = {"short": 1, "full": 5, "soak": 25}


@pytest.mark.parametrize(
    ("storage", "mode"),
    [
        ("sqlite", "collect"),
        ("jsonl", "steer"),
        ("sqlite", "steer"),
        ("jsonl", "collect"),
    ],
)
async def test_messages_that_join_survive_every_crash_point(
    tmp_path: Path, storage: StoreKind, mode: str, pytestconfig: pytest.Config
) -> None:
    points = [*JOIN_CRASH_POINTS, "claim:after_commit", "finish:before_commit"]
    points *= TIMES[str(pytestconfig.getoption("--chaos"))]
    child = (CHILD, "--mode", mode)
    async with Run(tmp_path, storage=storage, conversations=2, max_attempts=PATIENT, child=child) as run:
        async with run.load(20):
            for point in points:
                await run.die_at(f"{point}:{run.dice.randint(1, 3)}")
        found = await run.drain()
        books = read_books(run.database)
    assert run.kills == len(points)
    assert not books.log_left
    ends = Counter((entry.state, entry.row.outcome) for entry in books.entries)
    # Whether a message joins in the end is a matter of time; that some did so is known by the crash points of it.
    assert set(ends) <= {("ended", "answered"), ("ended", "joined")}, ends
    assert list(find_talk_faults(books)) == []
    assert (found.verdict.duplicated, found.verdict.out_of_order) == ((), ())
    lost = [each for each in found.verdict.lost if "has no reply" not in each]  # of those that another's turn answers
    assert lost == []
    orders = Counter(line for line in run.worked() if line.startswith("order "))
    assert not orders or max(orders.values()) == 1
