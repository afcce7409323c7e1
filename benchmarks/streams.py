"""Many answers that stream at once into one process: the memory they take, and what one costs among many.

    python -m benchmarks.streams [most at once]

Each level runs in a process of its own, through the real provider, against the mock model at the pace of a real one.
A turn that costs more CPU among a thousand than among fifty would be one whose cost grows with the connections.
"""

import asyncio
import gc
import json
import resource
import subprocess
import sys
import time
from datetime import UTC, datetime
from typing import Any, Final

from benchmarks.meter import cpu_seconds, open_files
from benchmarks.mock import Mock, running
from finclaw.kernel.chunk import Done, Model, ModelRequest, TextDelta
from finclaw.kernel.message import Message, Source, Text
from finclaw.providers.anthropic.provider import AnthropicProvider
from finclaw.redaction import Secret

LEVELS: Final = (50, 200, 1_000)
CHUNK_MICROSECONDS: Final = 60_000
"""Between two chunks of fifty: slow enough that each is read alone at every level, as those of a real model are."""
TURNS: Final = 1_000
"""At least so many are measured at each level, so that the figures can be compared."""


async def turn(provider: AnthropicProvider, number: int) -> None:
    said = Message(str(number), "user", (Text("How is the market today?"),), Source("user"), datetime.now(UTC))
    request = ModelRequest(model=Model("anthropic", "mock"), system="Be brief.", messages=(said,))
    words, ended = 0, False
    async for chunk in provider.stream(request):
        words += len(chunk.text) if isinstance(chunk, TextDelta) else 0
        ended = isinstance(chunk, Done)
    if words < 500 or not ended:
        raise RuntimeError(f"not the mock's answer: {words} characters")


async def crowd(url: str, at_once: int) -> dict[str, float]:
    provider = AnthropicProvider(url, Secret("key"))

    async def worker(turns: int) -> None:
        for number in range(turns):
            await turn(provider, number)

    await asyncio.gather(*(worker(1) for _ in range(at_once)))  # every connection is open, every import done
    gc.collect()
    each = max(1, TURNS // at_once)
    files, cpu, began = open_files(), cpu_seconds(), time.perf_counter()
    await asyncio.gather(*(worker(each) for _ in range(at_once)))
    used, wall = cpu_seconds() - cpu, time.perf_counter() - began
    await provider.close()
    return {
        "at_once": at_once,
        "cpu_ms_a_turn": round(used / (each * at_once) * 1e3, 3),
        "cpu_share": round(used / wall, 2),
        "open_files": files,
        "peak_rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
    }


def level(url: str, at_once: int) -> dict[str, Any]:
    """In a process of its own: a peak cannot be taken back."""
    words = [sys.executable, "-m", "benchmarks.streams", str(at_once), url]
    return json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout)


def allow_files(wanted: int) -> None:
    """One for each connection. Raised here, it is raised for the mock and the levels too."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, enough), hard))


def main() -> None:
    most = int(sys.argv[1]) if len(sys.argv) > 1 else LEVELS[-1]
    if len(sys.argv) > 2:
        print(json.dumps(asyncio.run(crowd(sys.argv[2], most))))
        return
    allow_files(most + 1_000)
    levels = sorted({*(each for each in LEVELS if each < most), most})
    with running() as url:
        Mock(url).pace(chunk_us=CHUNK_MICROSECONDS)
        figures = [level(url, at_once) for at_once in levels]
    for each in figures:
        ratio = each["cpu_ms_a_turn"] / figures[0]["cpu_ms_a_turn"]
        print(
            f"{each['at_once']:>6} at once: {each['cpu_ms_a_turn']:.2f} ms CPU a turn ({ratio:.2f}×), "
            f"{each['cpu_share']:.0%} of a core, peak RSS {each['peak_rss_mb']:.0f} MB, {each['open_files']} files"
        )


if __name__ == "__main__":
    main()
