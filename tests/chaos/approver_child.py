"""A gateway of its own process, in which somebody in a group wants what only approvers may decide; it dies at will.

Run as `python -m tests.chaos.approver_child STATE SEEN PHASE`. What people could read goes to the file SEEN, one line
per unit; the platform knows tokens, so a unit that it is handed again is shown once.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Literal, cast

from tests.walks.deciding import wrote
from tests.walks.house import Parts
from tests.walks.tools import Desk

import finclaw
from finclaw.approvals.people import PersonSettings
from finclaw.clock import SystemClock
from finclaw.kernel.chunk import ModelRequest
from finclaw.kernel.envelope import Capabilities, Receipt
from finclaw.kernel.record import OutboxItem
from finclaw.testing import MemoryChannel, Reply, ScriptedProvider, arm_from_environment, call, reply

PEOPLE = tuple(
    PersonSettings(name=name, known_as=(f"memory:local:{name}",), roles=("approver",)) for name in ("mina", "jun")
)
Phase = Literal["meet", "ask", "rest"]


class Platform(MemoryChannel):
    """Remembers tokens and what was shown, whatever happens to this process."""

    def __init__(self, seen: Path) -> None:
        super().__init__(SystemClock(), capabilities=Capabilities(idempotent=True))
        self._seen = seen

    async def send(self, unit: OutboxItem) -> Receipt:
        shown = self._seen.read_text().splitlines() if self._seen.exists() else []
        if all(json.loads(line)["id"] != unit.id for line in shown):
            line = {"id": unit.id, "to": unit.conversation, "text": unit.outbound.text}
            with self._seen.open("a") as file:
                file.write(json.dumps(line) + "\n")
        return await super().send(unit)


def orders(request: ModelRequest) -> Reply:
    return reply(call("order", {"text": "10 AAPL"}))


async def live(state: Path, seen: Path, phase: Phase) -> None:
    channel = Platform(seen)
    settings = finclaw.Settings(state=state, people=PEOPLE)
    tools = [Desk().tool("order", transactional=True)]
    parts = [Parts(tools=tools)]
    provider = ScriptedProvider(orders)
    arm_from_environment()
    async with finclaw.build(settings, channels=[channel], provider=provider, extensions=parts) as app:
        if phase == "meet":
            for name in ("mina", "jun"):
                line = wrote("/whoami", name, conversation=name, message_id=f"hello-{name}")
                await app.handle(line)
        else:  # a platform gives again what nobody acknowledged
            await app.handle(wrote("buy 10 AAPL", "bob", message_id="wish"))
            await app.consents.sweep()
        await app.idle()


if __name__ == "__main__":
    _, state, seen, phase = sys.argv
    asyncio.run(live(Path(state), Path(seen), cast("Phase", phase)))
