"""What a layer costs: ten that do nothing around a core that does nothing. `python -m benchmarks.onion`"""

import asyncio
import statistics
from typing import Final

from benchmarks.meter import cpu_seconds
from finclaw.kernel.event import Event
from finclaw.kernel.middleware import Layer, compose
from finclaw.kernel.scope import Ids, Scope

LAYERS: Final = 10
CALLS: Final = 20_000
RUNS: Final = 5
GOAL: Final = 15.0
"""Microseconds of CPU that ten layers may add to a call."""


async def core(ctx: Scope[str]) -> str:
    return "core"


async def nothing(ctx: Scope[str]) -> str:
    return await ctx.next()


def unheard(event: Event) -> None:
    pass


async def microseconds(layers: int) -> float:
    """CPU of one call through a ring of so many layers."""
    ring = compose("bench", [Layer("nothing", nothing)] * layers, core, str)
    ctx = Scope[str](ids=Ids(agent="a", session="s", inbound_id="m", turn_id="t"), emit=unheard)
    before = cpu_seconds()
    for _ in range(CALLS):
        await ring(ctx)
    return (cpu_seconds() - before) / CALLS * 1e6


async def added() -> float:
    runs = [await microseconds(LAYERS) - await microseconds(0) for _ in range(RUNS)]
    return statistics.median(runs)


if __name__ == "__main__":
    cost = asyncio.run(added())
    print(f"{LAYERS} layers add {cost:.1f} µs to a call (goal: below {GOAL:g} µs)")
