"""A message that kills the process is tried three times and then set aside; nobody waits behind it for ever."""

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.chaos.audit import read_books
from tests.chaos.harness import Run

from finclaw.pipeline.notice import notice
from finclaw.kernel.envelope import Inbound

pytestmark = pytest.mark.chaos

POISON = notice("poison", Inbound(text="poison")).text


async def test_a_message_that_kills_three_times(tmp_path: Path) -> None:
    async with Run(tmp_path) as run:
        bad = run.platform.write("c", "poison")
        run.write("c")
        for _ in range(3):
            gateway = await run.start(crash=NEVER)
            assert await gateway.ended() == -signal.SIGKILL, gateway.said
            await gateway.kill()
        gateway = await run.start()
        await run.all_told(gateway)
        await gateway.stop()

        told, answered = run.platform.shown("c")
        assert (told.reply_to, told.text) == (bad, POISON)
        assert answered.text.startswith("<1 ")
        assert [entry.row.outcome for entry in read_books(run.database).entries] == ["failed", "answered"]
        assert dead_letters(run.state) == 1
