"""Measures one peer in a process of its own and prints one line of JSON.

python -m benchmarks.child PEER alone|speed|memory|cold QUICK(0|1)
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
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.meter import cpu_seconds, open_files, resident_bytes, written_bytes
from benchmarks.mock import Mock
from benchmarks.peers import PEERS
from benchmarks.peers.peer import Peer, mock_url

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

    def enough(self, turns: int, at_least: int) -> int:
        return max(at_least, turns // self.weight // (2 if self.quick else 1))

    async def ask(self, conversation: str, text: str, first: Callable[[], None] = lambda: None) -> None:
        answer = await self.peer.turn(conversation, text, first)
        if len(answer) < 500:
            raise RuntimeError(f"not the mock's answer: {answer!r}")


# ── turns ───────────────────────────────────────────────────────────────────────────────────────────────────


async def turns(bench: Bench, name: str, text: str, at_once: int, count: int) -> Result:
    """`at_once` workers, each with conversations of ten turns, until `count` turns are done and settled."""
    count = bench.enough(count, at_once)
    numbers = iter(range(count))
    waits: list[float] = []

    async def worker(who: int) -> None:
        for done, _ in enumerate(numbers):
            started = time.perf_counter()
            await bench.ask(f"{name}-{who}-{done // TURNS_A_CONVERSATION}", text)
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
    for batch in range(bench.enough(batches, 5)):
        await bench.peer.settle()
        window = Window(at_once)
        talk = batch // TURNS_A_CONVERSATION
        await asyncio.gather(*(bench.ask(f"{name}-{who}-{talk}", PLAIN, window.first) for who in range(at_once)))
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


async def alone(bench: Bench) -> Result:
    """One turn at a time. Between two the machine rests and is woken, which costs now more and now less."""
    return await _plain_and_tool(bench, 1)


async def _plain_and_tool(bench: Bench, at_once: int) -> Result:
    for text in (PLAIN, TOOL):
        await turns(bench, "warm", text, 8, 80)
    plain, tool, first = (f"{name}_{at_once}" for name in ("plain", "tool", "first"))
    return {
        plain: await turns(bench, plain, PLAIN, at_once, 600),
        tool: await turns(bench, tool, TOOL, at_once, 400),
        first: await first_token(bench, first, at_once, 40),
    }


async def speed(bench: Bench) -> Result:
    result = await _plain_and_tool(bench, 8)
    await turns(bench, "warm_64", PLAIN, 64, 64)
    result["plain_64"] = await turns(bench, "plain_64", PLAIN, 64, 768)
    result["paced_64"] = await paced(bench, "paced_64", 64, 384, 10_000)
    for length in (10, 5000):
        result[f"history_{length}"] = await history(bench, length, evicted=False, count=12)
    for length in (10, 5000):
        result[f"evicted_{length}"] = await history(bench, length, evicted=True, count=16)
    return result


# ── memory and start ────────────────────────────────────────────────────────────────────────────────────────


async def memory(bench: Bench) -> Result:
    """What stays of a conversation of one turn, and what a turn holds while its model has not said a word."""
    idle = bench.enough(2000, 200)
    await turns(bench, "warm", PLAIN, 16, 160)
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


MEASURES: dict[str, Callable[[Bench], Awaitable[Result]]] = {
    "alone": alone,
    "speed": speed,
    "memory": memory,
    "cold": cold,
}


async def measure(name: str, what: str, quick: bool) -> Result:
    entry = PEERS[name]
    bench = Bench(entry.make(), Mock(mock_url()), entry.weight, quick)
    await bench.peer.setup()
    result = await MEASURES[what](bench)
    await bench.peer.close()
    return result


def main() -> None:
    name, what, quick = sys.argv[1:]
    run: Callable[..., Result] = asyncio.run
    if os.environ.get("BENCH_UVLOOP"):
        run = importlib.import_module("uvloop").run
    print(json.dumps(run(measure(name, what, quick == "1"))))
    sys.stdout.flush()
    os._exit(0)  # some peers leave threads behind that would be waited for


if __name__ == "__main__":
    main()
