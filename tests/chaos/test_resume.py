"""A turn is taken up where it was: what is in its log is neither paid again nor run again."""

from pathlib import Path

import pytest
from tests.chaos.harness import Run

from finclaw.storage.kinds import StoreKind

pytestmark = pytest.mark.chaos

ASK, LOOK = "model 3", "tool 3"


@pytest.mark.parametrize(
    ("point", "before", "after"),
    [
        ("claim:after_commit", [], [ASK, LOOK, ASK]),
        ("tools:before_commit", [ASK], [ASK, LOOK, ASK]),
        ("tools:started", [ASK], [LOOK, ASK]),
        ("tools:ended", [ASK, LOOK], [LOOK, ASK]),
        ("results:after_commit", [ASK, LOOK], [ASK]),
        ("finish:after_commit", [ASK, LOOK, ASK], []),
    ],
)
async def test_taken_up_where_it_was(tmp_path: Path, point: str, before: list[str], after: list[str]) -> None:
    async with Run(tmp_path) as run:
        run.written = 2  # the next is the third, which asks a tool first
        run.write("c")
        await run.die_at(point)
        found = await run.drain()
        assert found.clean, str(found)
        assert run.worked() == before + after


@pytest.mark.parametrize(
    ("point", "before", "after"),
    [
        ("tools:started", [ASK], [LOOK, ASK]),
        ("results:after_commit", [ASK, LOOK], [ASK]),
        ("finish:before_commit", [ASK, LOOK, ASK], [ASK]),  # its events are on disk, and do not count without it
        ("fold:after_append", [ASK, LOOK, ASK], []),
    ],
)
async def test_taken_up_from_files(tmp_path: Path, point: str, before: list[str], after: list[str]) -> None:
    async with Run(tmp_path, storage="jsonl") as run:
        run.written = 2
        run.write("c")
        await run.die_at(point)
        found = await run.drain()
        assert found.clean, str(found)
        assert run.worked() == before + after


@pytest.mark.parametrize("storage", ["sqlite", "jsonl"])
@pytest.mark.parametrize(
    ("point", "resumed"),
    [
        ("items:before_commit", False),  # nobody has seen anything: all of it is written anew
        ("items:after_commit:1", True),
        ("items:after_commit:2", True),
        ("model:ended", True),
        ("finish:before_commit", True),
        ("finish:after_commit", False),
    ],
)
async def test_what_was_seen_of_an_answer_is_not_written_again(
    tmp_path: Path, point: str, resumed: bool, storage: StoreKind
) -> None:
    async with Run(tmp_path, storage=storage) as run:
        run.written = 4  # the next is the fifth, whose answer is long
        run.write("c")
        await run.die_at(point)
        found = await run.drain()
        assert found.clean, str(found)  # among others: the parts together are the answer, each once
        assert found.early > 0
        assert ("resumed 5" in run.worked()) == resumed
