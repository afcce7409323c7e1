"""CPU time of the stages before dispatch, by kind of message, with persons, commands and directives on.

The goal is less than 300 µs a message. Run it with `.venv/bin/python scripts/stage_cost.py`.
"""

import asyncio
import statistics
import tempfile
import time
from pathlib import Path

import finclaw
from finclaw.agent.settings import AgentSettings
from finclaw.approvals.people import PersonSettings
from finclaw.clock import SystemClock
from finclaw.kernel.envelope import Inbound, Sender
from finclaw.testing import MemoryChannel, ScriptedProvider

STAGES = ("normalize", "gate", "command", "ack", "context")
GOAL_US = 300
MESSAGES = 300
KINDS = {
    "plain": "What is AAPL trading at, and why did it fall?",
    "long plain": "What is AAPL trading at? https://example.com/a " * 40,
    "short word": "thanks!",
    "directive": "/think high /verbose why did AAPL fall?",
    "mention": "@finclaw what is AAPL trading at?",
    "path": "/usr/bin/env is a path",
    "command": "/whoami",
    "misspelled": "/stauts",
}


class CpuClock(SystemClock):
    """A clock that counts the CPU time of this process, so that the journal's stages are measured in it."""

    def monotonic(self) -> float:
        return time.process_time()


async def measure(text: str) -> float:
    """The median of the stages' CPU time, in microseconds."""
    people = (PersonSettings(name="Ada", known_as=("memory:local:ada",), roles=("owner",)),)
    with tempfile.TemporaryDirectory() as place:
        agent = AgentSettings(model="anthropic/claude-haiku-4-5", default_extensions=())
        settings = finclaw.Settings(state=Path(place), people=people, agent=agent)
        channel, clock = MemoryChannel(SystemClock()), CpuClock()
        provider = ScriptedProvider(*["ok"] * MESSAGES, clock=SystemClock())
        parts = {"channels": [channel], "provider": provider, "clock": clock, "threaded": False}
        async with finclaw.build(settings, **parts) as app:
            costs: list[float] = []
            for number in range(MESSAGES):
                inbound = Inbound(text=text, channel="memory", conversation=f"c-{number}", sender=Sender("ada"))
                outcome = await app.handle(inbound)
                costs.append(sum(each.ms for each in outcome.stages if each.name in STAGES) * 1000)
    return statistics.median(costs)


def main() -> int:
    worst = 0.0
    for kind, text in KINDS.items():
        cost = asyncio.run(measure(text))
        worst = max(worst, 0.0 if kind == "misspelled" else cost)
        print(f"{kind:12} {cost:7.1f} µs")
    print(f"the dearest but for a misspelled command: {worst:.1f} µs, goal {GOAL_US} µs")
    return 0 if worst < GOAL_US else 1


if __name__ == "__main__":
    raise SystemExit(main())
