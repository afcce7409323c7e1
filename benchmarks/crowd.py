"""Many sessions on disk: how long a start takes with them, the first page of their list, and the memory it costs.

    python -m benchmarks.crowd [sqlite|jsonl] [sessions] [messages]

Each session is made through the store as an import would make it; then a gateway is started in a process of its own.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import finclaw
from finclaw.clock import SystemClock
from finclaw.config.schema import StorageSettings
from finclaw.kernel.message import Message, Source, Text
from finclaw.storage.kinds import StoreKind, open_kind


async def fill(kind: StoreKind, state: Path, sessions: int, messages: int) -> None:
    store = open_kind(kind, state, SystemClock(), lambda _: None)
    at = datetime(2026, 1, 5, 9, tzinfo=UTC)
    room = asyncio.Semaphore(64)

    async def one(number: int) -> None:
        talk = [
            Message(
                f"{number}-{place}",
                "user" if place % 2 == 0 else "assistant",
                (Text("word " * 20),),
                Source("user"),
                at,
            )
            for place in range(messages)
        ]
        async with room:
            await store.restore(f"main:web:owner:direct:crowd-{number}+owner", talk)

    await asyncio.gather(*(one(number) for number in range(sessions)))
    await store.close()


async def look(kind: StoreKind, state: Path) -> dict[str, float]:
    settings = finclaw.Settings(state=state, storage=StorageSettings(kind=kind))
    began = time.perf_counter()
    async with finclaw.build(settings) as app:
        started = time.perf_counter()
        page = await app.sessions(50)
        listed = time.perf_counter()
        assert len(page.items) == 50
        second = await app.sessions(50, page.after)
        again = time.perf_counter()
        assert len(second.items) == 50
        memory = resident_kb()
        return {
            "start_ms": round((started - began) * 1000, 1),
            "first_page_ms": round((listed - started) * 1000, 1),
            "second_page_ms": round((again - listed) * 1000, 1),
            "rss_mb": round(memory / 1024, 1),
        }


def resident_kb() -> int:
    told = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in told if line.startswith("VmRSS")).split()[1])


def main() -> None:
    kind = cast("StoreKind", sys.argv[1] if len(sys.argv) > 1 else "sqlite")
    if len(sys.argv) > 4:
        print(json.dumps(asyncio.run(look(kind, Path(sys.argv[4])))))
        return
    sessions, messages = (int(each) for each in (*sys.argv[2:4], "10000", "10")[:2])
    with tempfile.TemporaryDirectory() as place:
        began = time.perf_counter()
        asyncio.run(fill(kind, Path(place), sessions, messages))
        print(f"{kind}: {sessions} sessions of {messages} messages made in {time.perf_counter() - began:.1f} s")
        looked = [sys.executable, "-m", "benchmarks.crowd", kind, str(sessions), str(messages), place]
        print(subprocess.run(looked, check=True, capture_output=True, text=True).stdout.strip())


if __name__ == "__main__":
    main()
