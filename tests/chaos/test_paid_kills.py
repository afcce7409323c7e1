"""User trial H6: however often the process dies in a model call, the call is in the books and the budget holds.

The model server charges for what it has sent, also to those who are gone; nobody but the books knows of that.
"""

import asyncio
import json
import os
import random
import secrets
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Final

import pytest
from tests.chaos.gateway import Gateway
from tests.chaos.paid_child import REFUSED
from tests.chaos.paid_provider import PaidProvider
from tests.cli.terminal import finclaw

from finclaw.storage.kinds import StoreKind

pytestmark = pytest.mark.chaos

CHILD: Final = Path(__file__).with_name("paid_child.py")
POINTS: Final = (
    "claim:after_commit",
    "model:reserved",
    "model:first_chunk",
    "model:ended",
    "model:settled",
    "tools:before_commit",
    "tools:started",
    "results:after_commit",
    "finish:before_commit",
    "finish:after_commit",
)
EACH_KILL: Final = Decimal("0.020")
"""Of the budget: what two conversations may have reserved when they die, and a little for what is answered."""
SPARE: Final = Decimal("0.100")
"""Of the budget: a few kills may cost more than the mean, and a run of six has no mean."""


@dataclass
class Lives:
    """One state directory and one model server, and gateways that die at it."""

    place: Path
    url: str
    storage: StoreKind
    budget: Decimal
    seed: int = field(default_factory=lambda: int(os.environ.get("CHAOS_SEED") or secrets.randbits(32)))
    kills: int = 0

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self.state = self.place / "state"
        self.gateway: Gateway | None = None

    async def close(self) -> None:
        if self.gateway is not None:
            await self.gateway.kill()

    async def start(self, crash: str | None = None) -> Gateway:
        command: Sequence[str | Path] = [
            *(CHILD, "--state", self.state, "--url", self.url),
            *("--budget", str(self.budget), "--storage", self.storage),
        ]
        self.gateway = await Gateway.spawn(command, self.place / "gateway.log", crash=crash)
        return self.gateway

    async def die_at_a_point(self, point: str) -> None:
        gateway = await self.start(f"{point}:{self.dice.randint(1, 3)}")
        assert await gateway.ended_or_said(REFUSED.encode()) in (-9, None), f"it did not die at {point}\n{gateway.said}"
        await gateway.kill()  # also one whose budget was used up before it came to its point
        self.kills += 1

    async def die_at_an_instant(self) -> None:
        gateway = await self.start()
        await gateway.ready()
        await asyncio.sleep(self.dice.uniform(0.0, 0.8))
        assert gateway.alive, gateway.said
        await gateway.kill()
        self.kills += 1

    async def ask_until_refused(self) -> None:
        gateway = await self.start()
        await gateway.ready(REFUSED.encode())
        await gateway.stop()


@pytest.mark.parametrize("storage", ["sqlite", "jsonl"])
async def test_the_budget_holds_over_any_number_of_kills(
    tmp_path: Path, storage: StoreKind, pytestconfig: pytest.Config
) -> None:
    """Then it is used up to its end: what the server charged, for every call that it saw, is within it."""
    times = {"short": 6, "full": 100, "soak": 400}[str(pytestconfig.getoption("--chaos"))]
    provider = PaidProvider()
    lives = Lives(tmp_path, await provider.start(), storage, EACH_KILL * times + SPARE)
    try:
        points = [POINTS[number % len(POINTS)] for number in range(times // 2)]
        lives.dice.shuffle(points)
        for life in range(times):
            await (lives.die_at_a_point(points.pop()) if life % 2 and points else lives.die_at_an_instant())
        killed = provider.cut_off
        await lives.ask_until_refused()
    except BaseException as error:
        error.add_note(f"CHAOS_SEED={lives.seed}, the gateways' words in {tmp_path / 'gateway.log'}")
        raise
    finally:
        await lives.close()
        await provider.stop()
    variables = {"FINCLAW_STORAGE__KIND": storage}
    command = partial(finclaw, "costs", "--json", "--days", "2", "--state", lives.state, **variables)
    ended = await asyncio.to_thread(command)
    assert ended.code == 0, ended.err
    total = json.loads(ended.out)["total"]
    booked, interrupted, cost = int(total["calls"]), int(total["interrupted"]), Decimal(total["cost"])
    sys.stdout.write(
        f"{lives.kills} kills ({storage}), {provider.calls} calls seen by the server, {killed} of them cut off; "
        f"{booked} in the books, {interrupted} of them interrupted; charged ${provider.charged:.4f}, "
        f"booked ${cost:.4f}, budget ${lives.budget:.2f}, seed {lives.seed}\n"
    )
    assert lives.kills == times
    assert killed >= times // 3, "most died elsewhere than in a call, so little was proved"
    assert provider.calls <= booked <= provider.calls + interrupted, "no call is missing; some may never have left"
    assert interrupted >= killed
    assert provider.charged <= cost <= lives.budget
