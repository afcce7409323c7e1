"""Whether a process is alive, and the scope in which a worker runs."""

import asyncio
from pathlib import Path

from finclaw.kernel.envelope import Sender
from finclaw.kernel.port import ToolScope

SCOPE = ToolScope(session="s", turn_id="t", call_id="c", sender=Sender("u"), offered=("own__add",))


def alive(pid: int) -> bool:
    """A zombie is dead: nobody may have asked for it yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def dead(*pids: int) -> None:
    async with asyncio.timeout(60):
        while any(map(alive, pids)):  # noqa: ASYNC110  the system tells nobody
            await asyncio.sleep(0.01)
