"""Stores on a bench: every implementation with a clock of its own, for the contracts that all of them keep."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from finclaw.diagnostics.event_stream import EventStream
from finclaw.kernel.store_port import Store
from finclaw.storage.jsonl.store import open_jsonl_store
from finclaw.storage.sqlite.store import open_store
from finclaw.testing import FakeClock

Opener = Callable[[Path, FakeClock], Store]
OPENERS: dict[str, Opener] = {
    "sqlite-thread": lambda where, clock: open_store(where / "x.db", clock),
    "sqlite-loop": lambda where, clock: open_store(where / "x.db", clock, threaded=False),
    "jsonl-thread": lambda where, clock: open_jsonl_store(where, where / "x.db", clock, EventStream().emit),
    "jsonl-loop": lambda where, clock: open_jsonl_store(
        where, where / "x.db", clock, EventStream().emit, threaded=False
    ),
}


class BenchClock(FakeClock):
    """Time that the test sets, on a loop that runs in real time: a store that waits for something may do so."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


@dataclass
class Bench:
    """A store, and the same state opened again as after a stop."""

    store: Store
    clock: FakeClock
    where: Path
    opener: Opener

    async def reopen(self) -> Store:
        await self.store.close()
        self.store = self.opener(self.where, self.clock)
        return self.store
