"""The report of a chaos run: a line of progress now and then, and one table at the end.

`make chaos` and `make soak` take long; whoever starts them sees that they go on, and what came of them.
"""

import os
import sys
from collections.abc import Sequence
from typing import Final, NamedTuple

EVERY: Final = 10
"""Kills between two lines of progress."""


class Row(NamedTuple):
    test: str
    kills: int
    messages: int
    lost: int
    out_of_order: int
    doubled: int
    """Seen twice without a recorded doubt that excuses it."""
    in_doubt: int
    """Seen twice, and marked so: nobody knew whether it had arrived."""
    seconds: float


HEAD: Final = ("test", "kills", "messages", "lost", "out of order", "doubled", "in doubt", "seconds")
rows: list[Row] = []
"""What ended in this process. `make chaos` runs all of it in one."""


def current_test() -> str:
    """Its name as pytest tells it, without file and phase."""
    return os.environ.get("PYTEST_CURRENT_TEST", "?").rpartition("::")[2].partition(" ")[0]


def tell_progress(kills: int, written: int, told: int) -> None:
    """Seen where pytest does not capture the output, as in `make chaos`."""
    if kills % EVERY == 0:
        sys.stdout.write(f"  {current_test()}: {kills} kills, {written:,} messages written, {told:,} answered\n")
        sys.stdout.flush()


def format_table(found: Sequence[Row]) -> str:
    """All rows with a sum below them."""
    numbers = [[*(f"{each:,}" for each in row[1:-1]), f"{row.seconds:.0f}"] for row in found]
    sums = [*(f"{sum(each):,}" for each in zip(*(row[1:-1] for row in found), strict=True))]
    lines = [HEAD, *((row.test, *line) for row, line in zip(found, numbers, strict=True))]
    lines.append(("all", *sums, f"{sum(row.seconds for row in found):.0f}"))
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD))]
    return "\n".join(
        "  ".join(cell.ljust(width) if place == 0 else cell.rjust(width) for place, (cell, width) in enumerate(pairs))
        for pairs in (list(zip(line, widths, strict=True)) for line in lines)
    )
