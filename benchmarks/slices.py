"""Short measures of several peers in rotation, so that whatever slows the machine down slows all of them alike.

A machine that others share is now fast and now half as fast, for seconds at a time. Ratios of figures that were taken a
minute apart show that, and little else. So all peers stay alive, each measures some ten or fifty turns when it is its
turn, and a ratio is the median of the ratios of neighbours (`docs/decisions/0029-ratios-of-neighbours.md`).
"""

import json
import select
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, Self

SECONDS: Final = 300
"""After which a slice is given up."""


class Slice(NamedTuple):
    """So many turns at once, and so many in all; of `first` ones, so many batches."""

    at_once: int
    size: int


SLICES: Final = {
    "plain_8": Slice(8, 48),
    "tool_8": Slice(8, 32),
    "first_8": Slice(8, 3),
    "plain_1": Slice(1, 24),
    "tool_1": Slice(1, 16),
    "first_1": Slice(1, 4),
    "paced_64": Slice(64, 64),
}
PHASES: Final = (tuple(name for name in SLICES if not name.endswith("_64")), ("paced_64",))
"""Sixty-four turns at once come last: with the connections that they leave open, later turns of the SDKs cost more."""


class SliceFailed(Exception):
    """A peer's process ended, or took too long."""


class SliceProcess:
    """The process of one peer, which measures a slice whenever it is asked for one."""

    def __init__(self, command: list[str], root: Path, env: Mapping[str, str], out: Path) -> None:
        with ExitStack() as stack:
            data = stack.enter_context(tempfile.TemporaryDirectory(dir=out, prefix="data-"))
            self._errors: IO[str] = stack.enter_context(tempfile.TemporaryFile("w+"))
            self._process = subprocess.Popen(
                command,
                cwd=root,
                env={**env, "BENCH_DATA": data},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                text=True,
            )
            stack.callback(self._end)
            self._kept = stack.pop_all()

    def __enter__(self) -> Self:
        try:
            self._read()  # it says when it is ready
        except SliceFailed:
            self._kept.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._kept.close()

    def measure(self, name: str) -> dict[str, Any]:
        """Raises SliceFailed."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(name + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise SliceFailed(self._complaint()) from None
        return json.loads(self._read())

    def _read(self) -> str:
        assert self._process.stdout is not None
        readable, _, _ = select.select([self._process.stdout], [], [], SECONDS)
        if not readable:
            raise SliceFailed(f"not done after {SECONDS} s")
        line = self._process.stdout.readline()
        if not line:
            raise SliceFailed(self._complaint())
        return line

    def _complaint(self) -> str:
        self._process.wait()
        self._errors.seek(0)
        return (self._errors.read().strip().splitlines() or ["no reason given"])[-1]

    def _end(self) -> None:
        """Closing its input lets it end by itself; one that does not is killed."""
        try:
            self._process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
