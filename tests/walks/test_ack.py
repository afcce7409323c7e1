"""The sender sees that work has begun, and it never costs the answer."""

import asyncio
from typing import Any

import pytest
from tests.walks.house import House, in_virtual_time, until

from finclaw.errors import ChannelError, Overloaded
from finclaw.kernel.envelope import Capabilities, Inbound
from finclaw.pipeline.settings import PipelineSettings
from finclaw.testing import MemoryChannel, fails, hold, reply


@pytest.mark.spec("P-28", "P-29")
@in_virtual_time
async def test_row_05_one_reaction_while_working(house: House) -> None:
    answer = asyncio.Event()
    async with house.open(reply(hold(answer), "done")) as gateway:
        accepted = await gateway.channel.write("hi", message_id="m-1")
        await until(lambda: gateway.provider.streaming == 1)
        assert gateway.channel.reactions == [("m-1", "👀")]
        assert gateway.channel.typing_log == [("m-1", True)]
        answer.set()
        await gateway.outcome(accepted)
        assert gateway.channel.reactions == [("m-1", "👀"), ("m-1", None)]
        assert gateway.channel.typing_log == [("m-1", True), ("m-1", False)]


@pytest.mark.spec("P-28", "P-29")
@in_virtual_time
async def test_row_05_switched_off_the_channel_is_never_asked(house: House) -> None:
    async with house.open("done", pipeline=PipelineSettings(enable_ack=False)) as gateway:
        assert "ack" in (await gateway.ask("hi")).stages_executed
        assert gateway.channel.reactions == gateway.channel.typing_log == []


@pytest.mark.spec("P-29")
@in_virtual_time
async def test_row_05_a_channel_without_reactions_is_never_asked(house: House) -> None:
    async with house.open("done", capabilities=Capabilities(typing=True)) as gateway:
        await gateway.ask("hi")
        assert gateway.channel.reactions == []
        assert len(gateway.channel.typing_log) == 2


@pytest.mark.spec("DX-15")
@pytest.mark.parametrize(
    "error", [ChannelError("no permission"), RuntimeError("bug"), asyncio.CancelledError()], ids=repr
)
@in_virtual_time
async def test_a_reaction_that_fails_costs_nothing(house: House, error: Any) -> None:
    async with house.open("done") as gateway:
        gateway.channel.reaction_error = error
        outcome = await gateway.ask("hi")
        assert (outcome.kind, outcome.stages[3].result) == ("answered", "continue")


@pytest.mark.spec("DX-15")
@in_virtual_time
async def test_a_reaction_that_hangs_costs_moments(house: House) -> None:
    class StuckChannel(MemoryChannel):
        async def react(self, inbound: Inbound, emoji: str | None) -> None:
            await asyncio.Event().wait()

    async with house.open("done", channel=StuckChannel(house.clock)) as gateway:
        outcome = await gateway.ask("hi")
        assert (outcome.kind, outcome.duration_ms) == ("answered", 5_000)
    assert house.clock.monotonic() < 20  # nor does the gateway wait for ever when it stops


@pytest.mark.spec("DX-15")
@in_virtual_time
async def test_signs_end_also_after_a_failure_and_a_stop(house: House) -> None:
    async with house.open(*[fails(Overloaded("busy"))] * 3, reply(hold(asyncio.Event()))) as gateway:
        await gateway.ask("first", message_id="m-1")
        await gateway.channel.write("second", message_id="m-2")
        await until(lambda: gateway.provider.streaming == 1)
    assert gateway.channel.reactions == [("m-1", "👀"), ("m-1", None), ("m-2", "👀"), ("m-2", None)]
    assert [active for _, active in gateway.channel.typing_log] == [True, False] * 2
