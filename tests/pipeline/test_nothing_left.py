"""A turn that has ended is gone at once: nothing of it waits for the collector of cycles."""

import gc
from pathlib import Path

import pytest
from tests.demo.talk import FixedClock

from finclaw import Inbound, Settings, build

TURNS = 20


@pytest.mark.parametrize("text", ["Hello!", "What is AAPL trading at?"], ids=["plain", "with a tool"])
async def test_a_turn_leaves_no_cycle_behind(tmp_path: Path, text: str) -> None:
    async with build(Settings(state=tmp_path / "state"), clock=FixedClock(), threaded=False) as app:
        await app.handle(Inbound(text=text, conversation="first"))
        await app.idle()
        gc.collect()
        gc.disable()
        try:
            for number in range(TURNS):
                await app.handle(Inbound(text=text, conversation=f"c{number}"))
            await app.idle()
            assert gc.collect() < TURNS
        finally:
            gc.enable()
