"""A message that kills the process before its turn begins: it is found out like any other, and ends."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.walks.house import Gateway, House, in_virtual_time, until

from finclaw.builtins.basics import BasicCommand
from finclaw.delivery.notice import notice
from finclaw.kernel.envelope import Inbound
from finclaw.kernel.port import CommandReply, CommandScope
from finclaw.kernel.record import Accepted, InboundRecord
from finclaw.pipeline.recovery import RECOVERED_AT_ONCE
from finclaw.pipeline.settings import PipelineSettings
from finclaw.testing import delay, reply

MOST = 3
"""Tries, by the usual settings."""


class Deadly:
    """A message layer, or a command, in which the process dies of certain words: nobody comes back from here."""

    def __init__(self, *words: str) -> None:
        self._words = words
        self.died = 0

    async def layer(self, ctx: Any) -> Any:
        if ctx.inbound.text in self._words:
            await self.die()
        return await ctx.next()

    async def die(self) -> None:
        self.died += 1
        await asyncio.Event().wait()


@pytest.fixture(params=[True, False], ids=["with a head start", "without"])
def house(request: pytest.FixtureRequest, tmp_path: Path) -> House:
    house = House(tmp_path)
    if not request.param:
        house.troubles["claim"] = []
    return house


def dead(house: House) -> None:
    """A stop in good order puts a message back; a crash does not."""
    house.troubles["release"] = [RuntimeError("the process is dead") for _ in range(99)]


async def record_of(gateway: Gateway, accepted: Accepted) -> InboundRecord:
    record = await gateway.app.wait(accepted.id, 0.0)
    assert record is not None
    return record


async def deaths_of(house: House, deadly: Deadly, text: str, **parts: Any) -> tuple[int, Accepted, list[str]]:
    """How often it kills until it has ended, and what its sender was told then."""
    accepted: Accepted | None = None
    for life in range(3 * MOST):
        before = deadly.died
        async with house.open(*["ok"] * 9, **parts) as gateway:
            accepted = accepted or await gateway.channel.write(text, message_id="m-1")
            for _ in range(200):
                await asyncio.sleep(0)
            if deadly.died == before:
                await gateway.app.idle()
                assert (await record_of(gateway, accepted)).state == "ended"
                return life, accepted, gateway.said
            dead(house)
        del house.troubles["release"]
    raise AssertionError("it kills the gateway for ever")


@in_virtual_time
async def test_one_that_kills_in_the_first_stages_is_given_up(house: House) -> None:
    deadly = Deadly("poison")
    deaths, _, said = await deaths_of(house, deadly, "poison", layers=[("message", deadly.layer)])
    assert deaths in (MOST, MOST + 1), "only the first may pass uncounted"
    assert said == [notice("poison", Inbound(text="poison")).text]


@in_virtual_time
async def test_a_command_that_kills_is_given_up(house: House) -> None:
    deadly = Deadly()

    async def boom(args: Sequence[str], scope: CommandScope) -> CommandReply:
        await deadly.die()
        return CommandReply("never said")

    command = BasicCommand(name="boom", description="Dies", usage="/boom", answer=boom)
    deaths, _, said = await deaths_of(house, deadly, "/boom", commands=[command])
    assert deaths in (MOST, MOST + 1)
    assert said == [notice("poison", Inbound(text="/boom")).text]


@in_virtual_time
async def test_whoever_waits_behind_it_is_answered(house: House) -> None:
    deadly = Deadly("poison")
    async with house.open("ok", layers=[("message", deadly.layer)]) as gateway:
        await gateway.channel.write("poison", message_id="m-1")
        behind = await gateway.channel.write("and now?", message_id="m-2")
        await until(lambda: deadly.died == 1)
        dead(house)
    del house.troubles["release"]
    await deaths_of(house, deadly, "poison", layers=[("message", deadly.layer)])
    async with house.open() as gateway:
        record = await record_of(gateway, behind)
    assert record.outcome is not None
    assert (record.outcome.kind, record.attempts) == ("answered", 1)


@in_virtual_time
async def test_a_stop_in_good_order_is_nobodys_fault(house: House) -> None:
    """A layer may take its time; it is not held against the message."""
    deadly = Deadly("slow")
    accepted: Accepted | None = None
    for life in range(2 * MOST + 2):
        async with house.open(layers=[("message", deadly.layer)]) as gateway:
            accepted = accepted or await gateway.channel.write("slow", message_id="m-1")
            await until(lambda: deadly.died > life)  # noqa: B023
    async with house.open("ok") as gateway:
        assert accepted is not None
        assert (await gateway.outcome(accepted)).reply == "ok"


@in_virtual_time
async def test_its_first_stages_and_its_turn_are_one_try(house: House) -> None:
    deadly = Deadly("hello")
    async with house.open(layers=[("message", deadly.layer)]) as gateway:
        accepted = await gateway.channel.write("hello", message_id="m-1")
        await until(lambda: deadly.died == 1)
        dead(house)
    del house.troubles["release"]
    async with house.open("ok") as gateway:
        await gateway.outcome(accepted)
        record = await record_of(gateway, accepted)
    assert record.attempts == (1 if "claim" in house.troubles else 2), "the first, where it was counted, and this one"


@in_virtual_time
async def test_layers_that_take_their_time_hold_up_nobody_else(house: House) -> None:
    """Many wait in them for an hour, and one does not."""
    deadly = Deadly(*(f"slow {number}" for number in range(9 * RECOVERED_AT_ONCE)))
    async with house.open(reply(delay(3_600), "late"), layers=[("message", deadly.layer)]) as gateway:
        for number in range(9 * RECOVERED_AT_ONCE):
            await gateway.channel.write(f"slow {number}", conversation=f"c{number}")
        await until(lambda: deadly.died == 9 * RECOVERED_AT_ONCE)
        dead(house)
        quick = await gateway.channel.write("quick", conversation="q")
        await until(lambda: gateway.provider.streaming == 1)
    del house.troubles["release"]
    patient, began = PipelineSettings(max_attempts=99), house.clock.monotonic()
    async with house.open("ok", layers=[("message", deadly.layer)], pipeline=patient) as gateway:
        assert (await gateway.outcome(quick)).reply == "ok"
        assert house.clock.monotonic() - began < 60
