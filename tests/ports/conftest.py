"""Every store that there is, on a bench."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from tests.ports.bench import OPENERS, Bench, BenchClock

from finclaw.kernel.store_port import Store


@pytest.fixture(params=OPENERS)
async def bench(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Bench]:
    opener = OPENERS[str(request.param)]
    clock = BenchClock()
    bench = Bench(opener(tmp_path, clock), clock, tmp_path, opener)
    yield bench
    await bench.store.close()


@pytest.fixture
def store(bench: Bench) -> Store:
    return bench.store
