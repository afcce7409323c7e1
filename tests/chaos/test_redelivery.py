"""A platform that delivers a message again and again, side by side and across restarts, gets one answer to it."""

from pathlib import Path

import pytest
from tests.chaos.audit import read_books
from tests.chaos.harness import Run
from tests.support.history import Acked

pytestmark = pytest.mark.chaos


@pytest.mark.parametrize("ending", ["stopped", "killed", "killed in the middle"])
async def test_five_times_at_once_and_five_times_after_a_restart(tmp_path: Path, ending: str) -> None:
    async with Run(tmp_path) as run:
        message_id = run.write("c")
        run.platform.repeat(message_id, times=4)
        if ending == "killed in the middle":  # nobody is told yet, and the platform has no word that we have it
            await run.die_at("model:first_chunk:1")
        else:
            gateway = await run.start()
            await run.all_told(gateway)
            await (gateway.stop() if ending == "stopped" else gateway.kill())
        run.platform.repeat(message_id, times=5)

        found = await run.drain()
        assert found.clean, str(found)
        assert (found.messages, found.units, len(run.platform.replies_in("c"))) == (1, 1, 1 + found.repeats)
        assert len(read_books(run.database).rows.turns) == 1
        assert sum(isinstance(event, Acked) for event in run.audience.events) == 10
