"""One stage alone: what it makes of a message, with nothing behind it."""

import asyncio
from typing import Any

import pytest
from tests.walks.house import ALL_STAGES, House, in_virtual_time, until

from finclaw.errors import Overloaded
from finclaw.kernel.envelope import Inbound, Sender
from finclaw.testing import fails, hold, reply


def inbound(text: str = "hi", **fields: Any) -> Inbound:
    return Inbound(text=text, channel="memory", sender=Sender("ada"), **fields)


@pytest.mark.spec("P-11", "P-04", "DX-07")
@pytest.mark.parametrize("stage", ALL_STAGES)
@in_virtual_time
async def test_a_stage_that_lets_the_message_pass(house: House, stage: str) -> None:
    async with house.open("an answer") as gateway:
        entry = await gateway.app.run_stage(stage, inbound())
        assert (entry.name, entry.result, entry.reason) == (stage, "continue", "")
        assert len(gateway.provider.requests) == (1 if stage in ("execute", "deliver") else 0)
        await gateway.app.idle()
        assert gateway.said == (["an answer"] if stage == "deliver" else [])


@pytest.mark.spec("P-11", "P-05", "P-18", "P-19", "P-25")
@pytest.mark.parametrize(
    ("stage", "message", "reason"),
    [
        ("normalize", inbound("  "), "empty message"),
        ("normalize", Inbound(text="x", channel="memory", sender=Sender("us", is_self=True)), "our own message"),
        ("gate", inbound(chat_type="group"), "not mentioned in a shared conversation"),
        ("command", inbound("/help"), "answered by /help"),
    ],
)
@in_virtual_time
async def test_a_stage_that_skips(house: House, stage: str, message: Inbound, reason: str) -> None:
    async with house.open() as gateway:
        entry = await gateway.app.run_stage(stage, message)
        assert (entry.name, entry.result, entry.reason) == (stage, "skip", reason)
        await gateway.app.idle()
        assert gateway.said == []


@pytest.mark.spec("P-11", "P-05")
@in_virtual_time
async def test_a_stage_that_aborts(house: House) -> None:
    async with house.open(*[fails(Overloaded("x"))] * 3, "fine") as gateway:
        entry = await gateway.app.run_stage("execute", inbound())
        assert (entry.name, entry.result, entry.reason) == ("execute", "abort", "Overloaded: x")
        assert (await gateway.ask("next")).reply == "fine"


@pytest.mark.spec("P-11")
@in_virtual_time
async def test_an_earlier_stage_may_end_it_first(house: House) -> None:
    async with house.open() as gateway:
        entry = await gateway.app.run_stage("execute", inbound(" "))
        assert (entry.name, entry.result) == ("normalize", "skip")


@pytest.mark.spec("P-11", "P-04")
@in_virtual_time
async def test_a_stage_that_does_not_exist(house: House) -> None:
    async with house.open() as gateway:
        with pytest.raises(ValueError, match="the stages are normalize, gate"):
            await gateway.app.run_stage("process", inbound())
        assert (await gateway.app.counts()).waiting == 0


@pytest.mark.spec("P-11")
@in_virtual_time
async def test_it_waits_its_turn_and_leaves_nothing_open(house: House) -> None:
    released = asyncio.Event()
    async with house.open(reply(hold(released), "first")) as gateway:
        first = await gateway.channel.write("hi")
        await until(lambda: gateway.provider.streaming == 1)
        looking = asyncio.create_task(gateway.app.run_stage("dispatch", inbound()))
        await asyncio.sleep(1)
        assert not looking.done()
        released.set()
        assert (await looking).result == "continue"
        assert (await gateway.outcome(first)).kind == "answered"
        counts = await gateway.app.counts()
        assert (counts.waiting, counts.running, counts.ended) == (0, 0, 2)
