"""Measures one peer in a process of its own and prints one line of JSON.

python -m benchmarks.child PEER slices|speed|memory|cold QUICK(0|1)

With `slices` it stays, and measures one slice for each name of one that it reads (see benchmarks/slices.py).
"""

import asyncio
import gc
import importlib
import json
import math
import os
import statistics
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from benchmarks.meter import cpu_seconds, open_files, resident_bytes, written_bytes
from benchmarks.mock import Mock
from benchmarks.peers import PEERS
from benchmarks.peers.peer import Peer, mock_url
from benchmarks.slices import SLICES

PLAIN = "How is the market today? Give FIGURES."
TOOL = "Use a TOOL to quote AAPL."
TURNS_A_CONVERSATION = 10
Result = dict[str, Any]


@dataclass(frozen=True)
class Bench:
    peer: Peer
    mock: Mock
    weight: int
    quick: bool
    turns_of: Counter[str] = field(default_factory=Counter[str])

    def enough(self, turns: int, at_least: int) -> int:
        return max(at_least, turns // self.weight // (2 if self.quick else 1))

    def conversation(self, worker: str) -> str:
        """That of a worker's next turn: it begins a new one after every ten."""
        number = self.turns_of[worker]
        self.turns_of[worker] += 1
        return f"{worker}-{number // TURNS_A_CONVERSATION}"

    async def ask(self, conversation: str, text: str, first: Callable[[], None] = lambda: None) -> None:
        answer = await self.peer.turn(conversation, text, first)
        if len(answer) < 500:
            raise RuntimeError(f"not the mock's answer: {answer!r}")


# ── turns ───────────────────────────────────────────────────────────────────────────────────────────────────


async def turns(bench: Bench, name: str, text: str, at_once: int, count: int) -> Result:
    """`at_once` workers, each with conversations of ten turns, until `count` turns are done and settled."""
    numbers = iter(range(count))
    waits: list[float] = []

    async def worker(who: int) -> None:
        for _ in numbers:
            started = time.perf_counter()
            await bench.ask(bench.conversation(f"{name}-{who}"), text)
            waits.append(time.perf_counter() - started)

    bench.mock.reset()
    gc.collect()
    written, cpu, began = written_bytes(), cpu_seconds(), time.perf_counter()
    await asyncio.gather(*(worker(who) for who in range(at_once)))
    wall = time.perf_counter() - began
    await bench.peer.settle()
    return {
        "cpu_ms": (cpu_seconds() - cpu) / count * 1e3,
        "turns_per_s": count / wall,
        "p50_ms": statistics.median(waits) * 1e3,
        "written_kb": (written_bytes() - written) / count / 1e3,
        "requests": bench.mock.stats()["reqs"] / count,
    }


class Window:
    """The CPU used from now until so many first texts have come."""

    def __init__(self, awaited: int) -> None:
        self._awaited = awaited
        self._began = cpu_seconds()
        self.cpu = math.nan

    def first(self) -> None:
        self._awaited -= 1
        if self._awaited == 0:
            self.cpu = cpu_seconds() - self._began


async def first_token(bench: Bench, name: str, at_once: int, batches: int) -> Result:
    """CPU until every one of `at_once` turns that start together has its first text, for one of them.

    The mock pauses after the first text, so that nothing of the rest of an answer falls into the window.
    """
    spent: list[float] = []
    bench.mock.pace(first_ms=20, gap_ms=40)
    for _ in range(batches):
        await bench.peer.settle()
        window = Window(at_once)
        talks = [bench.conversation(f"{name}-{who}") for who in range(at_once)]
        await asyncio.gather(*(bench.ask(talk, PLAIN, window.first) for talk in talks))
        spent.append(window.cpu / at_once)
    bench.mock.pace()
    return {"cpu_ms": statistics.median(spent) * 1e3}


async def paced(bench: Bench, name: str, at_once: int, count: int, chunk_us: int) -> Result:
    bench.mock.pace(chunk_us=chunk_us)
    result = await turns(bench, name, PLAIN, at_once, count)
    bench.mock.pace()
    return result


async def history(bench: Bench, length: int, *, evicted: bool, count: int) -> Result:
    name = f"history-{length}-{evicted}"
    await bench.peer.seed(name, length)
    await bench.ask(name, PLAIN)
    spent: list[float] = []
    count = bench.enough(count, 3)
    written = sent = 0
    for _ in range(count):
        await bench.peer.settle()
        if evicted:
            await bench.peer.evict()
            await bench.ask("warm", PLAIN)
            await bench.peer.settle()
        bench.mock.reset()
        gc.collect()
        began, started = written_bytes(), cpu_seconds()
        await bench.ask(name, PLAIN)
        await bench.peer.settle()
        spent.append(cpu_seconds() - started)
        written += written_bytes() - began
        sent += bench.mock.stats()["bytes_in"]
    return {
        "cpu_ms": statistics.median(spent) * 1e3,
        "written_kb": written / count / 1e3,
        "sent_kb": sent / count / 1e3,
    }


async def measure_slice(bench: Bench, name: str) -> Result:
    """A few turns of one kind. Some go before, for the connections may have been closed while others were measured."""
    at_once, size = SLICES[name]
    await turns(bench, "warm", PLAIN, 8, 8)
    if name.startswith("first"):
        return await first_token(bench, name, at_once, max(1, size // bench.weight))
    if name.startswith("paced"):
        return await paced(bench, name, at_once, size, 10_000)
    text = TOOL if name.startswith("tool") else PLAIN
    return await turns(bench, name, text, at_once, max(at_once, size // bench.weight))


async def speed(bench: Bench) -> Result:
    await turns(bench, "warm", PLAIN, 8, bench.enough(80, 8))
    await turns(bench, "warm_64", PLAIN, 64, 64)
    result = {"plain_64": await turns(bench, "plain_64", PLAIN, 64, bench.enough(768, 64))}
    for length in (10, 5000):
        result[f"history_{length}"] = await history(bench, length, evicted=False, count=12)
    for length in (10, 5000):
        result[f"evicted_{length}"] = await history(bench, length, evicted=True, count=16)
    return result


# ── memory and start ────────────────────────────────────────────────────────────────────────────────────────


async def memory(bench: Bench) -> Result:
    """What stays of a conversation of one turn, and what a turn holds while its model has not said a word."""
    idle = bench.enough(2000, 200)
    await turns(bench, "warm", PLAIN, 16, bench.enough(160, 16))
    gc.collect()
    before, files = resident_bytes(), open_files()
    numbers = iter(range(idle))

    async def talk() -> None:
        for who in numbers:
            await bench.ask(f"idle-{who}", PLAIN)

    await asyncio.gather(*(talk() for _ in range(16)))
    await bench.peer.settle()
    gc.collect()
    kept, files = resident_bytes() - before, open_files() - files
    return {
        "kb_idle_session": kept / idle / 1e3,
        "files_a_session": files / idle,
        "kb_in_flight": await _in_flight(bench, bench.enough(1000, 100)),
    }


async def _in_flight(bench: Bench, count: int) -> float:
    gc.collect()
    before = resident_bytes()
    bench.mock.reset()
    bench.mock.hold()
    asked = [asyncio.create_task(bench.ask(f"flight-{who}", PLAIN)) for who in range(count)]
    while bench.mock.stats()["reqs"] < count:
        await asyncio.sleep(0.05)
        for early in (task for task in asked if task.done()):
            early.result()  # no answer can have come, so it failed: say how
    held = resident_bytes() - before
    bench.mock.pace()
    await asyncio.gather(*asked)
    return held / count / 1e3


async def cold(bench: Bench) -> Result:
    await bench.ask("cold", PLAIN)
    return {"cpu_ms": cpu_seconds() * 1e3, "rss_mb": resident_bytes() / 1e6}


MEASURES: dict[str, Callable[[Bench], Awaitable[Result]]] = {"speed": speed, "memory": memory, "cold": cold}


async def set_up(name: str, quick: bool) -> Bench:
    entry = PEERS[name]
    bench = Bench(entry.make(), Mock(mock_url()), entry.weight, quick)
    await bench.peer.setup()
    return bench


def measure_slices(runner: asyncio.Runner, bench: Bench) -> None:
    """The event loop stands still between two slices: what a peer does beside its turns costs the others nothing."""
    for text in (PLAIN, TOOL):
        runner.run(turns(bench, "warm", text, 8, bench.enough(80, 8)))
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(runner.run(measure_slice(bench, line.strip()))), flush=True)


def main() -> None:
    name, what, quick = sys.argv[1:]
    uses_uvloop = bool(os.environ.get("BENCH_UVLOOP"))
    runner = asyncio.Runner(loop_factory=importlib.import_module("uvloop").new_event_loop if uses_uvloop else None)
    bench = runner.run(set_up(name, quick == "1"))
    if what == "slices":
        measure_slices(runner, bench)
    else:
        print(json.dumps(runner.run(MEASURES[what](bench))), flush=True)
    runner.run(bench.peer.close())
    os._exit(0)  # some peers leave threads behind that would be waited for


if __name__ == "__main__":
    main()
