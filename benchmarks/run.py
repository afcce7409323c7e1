"""`make bench`: every peer in processes of its own, round after round, against one mock model.

    python -m benchmarks.run [quick] [--uvloop] [--peers finclaw,anthropic-sdk] [--rounds 3]

Rounds are interleaved and every other one runs backwards, so that whatever else the machine does meets all alike. Turns
that are compared as ratios are measured in short slices (benchmarks/slices.py).
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import mock
from benchmarks.disk import syncs_per_second
from benchmarks.envs import Environment, environment
from benchmarks.figures import BLOCKS, Block, figures, shown, times, verdict
from benchmarks.meter import measure_slowness
from benchmarks.peers import JUDGED, OURS, PEERS, REFERENCE
from benchmarks.slices import PHASES, SliceFailed, SliceProcess

ROOT = Path(__file__).parents[1]
OUT = ROOT / "benchmarks" / "out"
LONGEST = {"speed": 900, "memory": 300, "cold": 60}
"""Seconds after which a measure is given up and reported as such."""
CLOSEST = (OURS, REFERENCE)
"""Of all peers the two that are nearest to each other: `quick` measures them twice, for their ratios decide."""
ROTATIONS = 24
"""Of slices. Half of the ratios of single neighbours lie within a tenth of their median."""
FEW_ROTATIONS = 4
"""For peers that are far from any goal."""


@dataclass
class Run:
    url: str
    quick: bool
    uvloop: bool
    environments: dict[str, Environment]
    results: dict[str, dict[str, list[dict[str, Any]]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    missing: dict[str, str] = field(default_factory=dict[str, str])
    slowness: list[float] = field(default_factory=list[float])
    """Of the machine, before each measure."""

    def measure(self, peer: str, what: str) -> None:
        """One measure in one process; a peer that fails is noted and asked no more."""
        if peer in self.missing:
            return
        print(f"bench:   {peer}, {what} … ", end="", file=sys.stderr, flush=True)
        self.slowness.append(measure_slowness())
        began = time.monotonic()
        result = _ask_cold() if (peer, what) == (OURS, "cold") else self._child(peer, what)
        print(f"{time.monotonic() - began:.0f} s", file=sys.stderr)
        if "failed" in result:
            self.missing[peer] = f"{what}: {result['failed']}"
            print(f"bench: {peer} is missing from here on: {self.missing[peer]}", file=sys.stderr)
        else:
            self.results[peer][what].append(result)

    def measure_slices(self, peers: Sequence[str], again: Collection[str]) -> None:
        """All peers at once, one of them working at a time. `again`: who takes part to the end."""
        with ExitStack() as stack:
            processes = dict[str, SliceProcess]()
            for peer in peers:
                if peer not in self.missing:
                    with self._report_failure(peer):
                        env = {**os.environ, **self._env()}
                        process = SliceProcess(self._command(peer, "slices"), ROOT, env, OUT)
                        processes[peer] = stack.enter_context(process)
            for names in PHASES:
                for number in range(ROTATIONS):
                    present = [each for each in processes if number < FEW_ROTATIONS or each in again]
                    self._rotate(processes, present if number % 2 == 0 else present[::-1], names)
                    print(".", end="", file=sys.stderr, flush=True)
        print(file=sys.stderr)

    def _rotate(self, processes: Mapping[str, SliceProcess], order: Sequence[str], names: Sequence[str]) -> None:
        for name in names:
            self.slowness.append(measure_slowness())
            for peer in order:
                if peer not in self.missing:
                    with self._report_failure(peer):
                        self.results[peer]["slices"].append({name: processes[peer].measure(name)})

    @contextmanager
    def _report_failure(self, peer: str) -> Generator[None]:
        try:
            yield
        except SliceFailed as error:
            mock.Mock(self.url).pace()
            self.missing[peer] = f"slices: {error}"
            print(f"bench: {peer} is missing from here on: {self.missing[peer]}", file=sys.stderr)

    def _command(self, peer: str, what: str) -> list[str]:
        return [str(self.environments[peer].python), "-m", "benchmarks.child", peer, what, str(int(self.quick))]

    def _env(self) -> dict[str, str]:
        return {"BENCH_MOCK": self.url, "BENCH_UVLOOP": "1" * self.uvloop}

    def _child(self, peer: str, what: str) -> dict[str, Any]:
        command = self._command(peer, what)
        with tempfile.TemporaryDirectory(dir=OUT, prefix="data-") as data:
            env = {**os.environ, **self._env(), "BENCH_DATA": data}
            try:
                done = subprocess.run(
                    command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=LONGEST[what], check=False
                )
            except subprocess.TimeoutExpired:
                mock.Mock(self.url).pace()
                return {"failed": f"not done after {LONGEST[what]} s"}
        if done.returncode:
            mock.Mock(self.url).pace()
            return {"failed": (done.stderr.strip().splitlines() or ["no reason given"])[-1]}
        return json.loads(done.stdout.splitlines()[-1])


def _ask_cold() -> dict[str, Any]:
    """`finclaw ask` on a new state directory, as a person runs it."""
    with tempfile.TemporaryDirectory(dir=OUT, prefix="data-") as state:
        command = [sys.executable, "-m", "finclaw", "ask", "--demo", "--state", state, "What is AAPL trading at?"]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        said = process.stderr.read() if process.stderr else ""
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        return {"failed": (said.strip().splitlines() or ["no reason given"])[-1]}
    return {"cpu_ms": (used.ru_utime + used.ru_stime) * 1e3, "rss_mb": used.ru_maxrss * 1024 / 1e6}


def rounds(run: Run, peers: Sequence[str], count: int, again: Collection[str]) -> None:
    """`again`: who is measured in every round, and not in the first alone."""
    print("bench: slices of turns in rotation ", end="", file=sys.stderr, flush=True)
    run.measure_slices(peers, again)
    for number in range(count):
        now = [peer for peer in peers if number == 0 or peer in again]
        order = now if number % 2 == 0 else now[::-1]
        print(f"bench: round {number + 1} of {count} …", file=sys.stderr)
        for what in ("speed", "cold"):
            for peer in order:
                run.measure(peer, what)
    print("bench: memory …", file=sys.stderr)
    for peer in peers:
        run.measure(peer, "memory")


def machine() -> str:
    model = next(
        (line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line),
        platform.processor(),
    )
    return f"{os.cpu_count()} cores of {model}, {platform.system()}, Python {platform.python_version()}"


def write(run: Run, *, syncs: tuple[float, float], load: tuple[float, float], seconds: float) -> None:
    rows = figures(run.results)
    (OUT / "latest.json").write_text(json.dumps(rows, indent=1) + "\n")
    about = {
        "at": time.strftime("%Y-%m-%d"),
        "machine": machine(),
        "loop": "uvloop" if run.uvloop else "asyncio",
        "quick": run.quick,
        "syncs_per_s": [round(each) for each in syncs],
        "load": load,
        "seconds": round(seconds),
        "slowness": round(statistics.median(run.slowness), 2),
    }
    whole = {"about": about, "missing": run.missing, "rounds": run.results}
    (OUT / "rounds.json").write_text(json.dumps(whole, indent=1) + "\n")
    told = {row["figure"]: row for row in rows}
    for block in BLOCKS:
        show(block, told, about["slowness"])
    for peer, why in run.missing.items():
        print(f"missing: {peer}: {why}")
    print(f"{about['machine']}; {about['loop']} for all; load {load[0]:.1f} to {load[1]:.1f}")
    print(f"a fixed calculation takes {about['slowness']:g} times (s) as long as where the goals were set")
    print(f"the disk syncs 4 kB {syncs[0]:,.0f} times a second before the run, {syncs[1]:,.0f} after it")


def show(block: Block, rows: Mapping[str, Mapping[str, Any]], slowness: float) -> None:
    head = f"{block.title:40}{'ours':>10}{block.reference:>16}{'ratio':>9}  {'unit':5}{'goal':10}met"
    print(head, "-" * len(head), sep="\n")
    for plan in block.plans:
        row, goal = rows[plan.figure], str(plan.goal or "")
        print(
            f"{plan.figure:40}{shown(row['ours']):>10}{shown(row['reference']):>16}{times(row['ratio']):>9}  "
            f"{plan.unit:5}{goal:10}{verdict(plan, row, slowness)}"
        )
    print()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("size", nargs="?", choices=("quick", "full"), default="full")
    parser.add_argument("--uvloop", action="store_true", help="for all of them (default: for none)")
    parser.add_argument("--peers", help="comma-separated; default: all, or for `quick` those a goal speaks of")
    parser.add_argument("--rounds", type=int)
    return parser.parse_args()


def main() -> None:
    args = arguments()
    quick = args.size == "quick"
    peers = tuple(args.peers.split(",")) if args.peers else JUDGED if quick else tuple(PEERS)
    OUT.mkdir(parents=True, exist_ok=True)
    for left in OUT.glob("data-*"):
        shutil.rmtree(left, ignore_errors=True)
    started, load = time.monotonic(), os.getloadavg()[0]
    environments = {peer: environment(PEERS[peer].environment, uvloop=args.uvloop) for peer in peers}
    with mock.running() as url:
        run = Run(url, quick, args.uvloop, environments)
        run.missing.update({peer: made.missing for peer, made in environments.items() if made.missing})
        before = syncs_per_second(OUT)
        rounds(run, peers, args.rounds or (2 if quick else 3), CLOSEST if quick else JUDGED)
        after = syncs_per_second(OUT)
    write(run, syncs=(before, after), load=(load, os.getloadavg()[0]), seconds=time.monotonic() - started)


if __name__ == "__main__":
    main()
