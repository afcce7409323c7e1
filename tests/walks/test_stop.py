"""Stopping: a person stops a message, or the watchdog one that shows no sign of life. Somebody is always told."""

import asyncio

import pytest
from tests.walks.house import Gateway, House, in_virtual_time, until
from tests.walks.tools import Desk

from finclaw.kernel.event import ExecutionCompleted, MessageStalled, StepStarted
from finclaw.kernel.port import ToolScope
from finclaw.kernel.record import Accepted
from finclaw.pipeline.settings import PipelineSettings, PoolSettings
from finclaw.testing import call, delay, reply, say

HOUR = 3_600_000


async def begun(gateway: Gateway, text: str, **fields: str) -> Accepted:
    """A message whose turn has begun."""
    before = sum(isinstance(event, StepStarted) for event in gateway.events)
    accepted = await gateway.channel.write(text, **fields)
    await until(lambda: sum(isinstance(event, StepStarted) for event in gateway.events) > before)
    return accepted


@pytest.mark.spec("R-06", "DX-76")
@in_virtual_time
async def test_a_stopped_turn_is_aborted_its_sender_told_and_the_next_one_answered(house: House) -> None:
    async with house.open(reply(say("first words. "), delay(99), say("never seen")), "the next") as gateway:
        accepted = await begun(gateway, "go")
        assert gateway.app.stop_message(accepted.id)
        assert not gateway.app.stop_message(accepted.id), "it is being stopped already"
        outcome = await gateway.outcome(accepted)
        assert (outcome.kind, outcome.reply) == ("stopped", "Stopped.")
        assert outcome.stages[-1].result == "abort"
        assert (await gateway.app.turns(1))[0].status == "aborted"
        assert (await gateway.ask("and now?")).reply == "the next"
        assert gateway.said == ["Stopped.", "the next"]
        ended = [event.status for event in gateway.events if isinstance(event, ExecutionCompleted)]
        assert ended == ["aborted", "completed"]


@pytest.mark.spec("R-06")
@in_virtual_time
async def test_a_tool_that_will_not_stop_is_left_behind_within_a_second(house: House) -> None:
    released = asyncio.Event()

    async def stubborn(text: str, scope: ToolScope) -> str:
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue
        return "too late"

    async with house.open(reply(call("look")), tools=[Desk().tool("look", stubborn, timeout=9999)]) as gateway:
        accepted = await begun(gateway, "그만할래요")
        await asyncio.sleep(1)
        before = house.clock.monotonic()
        gateway.app.stop_message(accepted.id)
        outcome = await gateway.outcome(accepted)
        assert house.clock.monotonic() - before < 1
        assert outcome.reply == "중단했습니다."
        assert "too late" not in gateway.said
        released.set()
        await until(lambda: not any("_contained" in str(task.get_coro()) for task in asyncio.all_tasks()))


@pytest.mark.spec("LN-04", "DX-51c")
@in_virtual_time
async def test_a_message_that_waits_can_be_stopped_and_the_others_go_on(house: House) -> None:
    async with house.open(reply(delay(5), say("first")), "third") as gateway:
        first = await begun(gateway, "1")
        second = await gateway.channel.write("2")
        third = await gateway.channel.write("3")
        await until(lambda: gateway.app.stop_message(second.id))
        assert (await gateway.outcome(second)).kind == "stopped"
        assert (await gateway.outcome(first)).reply == "first"
        assert (await gateway.outcome(third)).reply == "third"


@in_virtual_time
async def test_what_has_ended_or_never_was_cannot_be_stopped(house: House) -> None:
    async with house.open("done") as gateway:
        accepted = await gateway.channel.write("go")
        await gateway.outcome(accepted)
        assert not gateway.app.stop_message(accepted.id)
        assert not gateway.app.stop_message("m-nobody-1")


@pytest.mark.spec("DX-51c", "E-21")
@in_virtual_time
async def test_a_turn_without_a_sign_of_life_is_warned_about_and_stopped(house: House) -> None:
    patient = PipelineSettings(timeout_ms=HOUR)
    async with house.open(reply(delay(99_999), say("never")), "back again", pipeline=patient) as gateway:
        outcome = await gateway.ask("삼성전자 얼마예요?")
        assert outcome.kind == "stopped"
        assert "no sign of life" in outcome.reason
        assert outcome.reply is not None
        assert "중단했습니다" in outcome.reply
        told = [event for event in gateway.events if isinstance(event, MessageStalled)]
        assert [event.aborted for event in told] == [False, True]
        assert told[0].silent_s < 150
        assert patient.stall_abort_s <= house.clock.monotonic() < patient.stall_abort_s + 30
        assert (await gateway.ask("again")).reply == "back again"


@in_virtual_time
async def test_a_turn_that_speaks_now_and_then_may_take_its_time(house: House) -> None:
    slowly = reply(*(part for word in "abcdef" for part in (delay(110), say(word))))
    async with house.open(slowly, pipeline=PipelineSettings(timeout_ms=HOUR)) as gateway:
        assert (await gateway.ask("go")).reply == "abcdef"
        assert not [event for event in gateway.events if isinstance(event, MessageStalled)]


@pytest.mark.spec("DX-51c", "LN-01", "LN-02", "R-05")
@in_virtual_time
async def test_waiting_is_not_running(house: House) -> None:
    """One seat: the second conversation waits half an hour for the first, and nobody takes it for stalled."""
    slowly = reply(*(part for word in "abcdefghijklmnopqrs" for part in (delay(100), say(word))))
    one_seat = PipelineSettings(timeout_ms=HOUR, pools=PoolSettings(main=1))
    async with house.open(slowly, "short", pipeline=one_seat) as gateway:
        first = await begun(gateway, "1", conversation="a")
        second = await gateway.channel.write("2", conversation="b")
        assert (await gateway.outcome(first)).reply == "abcdefghijklmnopqrs"
        outcome = await gateway.outcome(second)
        assert outcome.reply == "short"
        turns = {turn.inbound_id: turn for turn in await gateway.app.turns(9)}
        assert turns[second.id].started_at > turns[first.id].started_at
        assert not [event for event in gateway.events if isinstance(event, MessageStalled)]
        completed = [event for event in gateway.events if isinstance(event, ExecutionCompleted)]
        assert completed[0].duration_ms >= 1_900_000
        assert completed[1].duration_ms < 1000


@pytest.mark.spec("LN-03", "R-05")
@in_virtual_time
async def test_a_gateway_that_stops_puts_those_who_wait_for_a_seat_back(house: House) -> None:
    one_seat = PipelineSettings(pools=PoolSettings(main=1))
    async with house.open(reply(delay(99), say("late")), pipeline=one_seat) as gateway:
        await begun(gateway, "1", conversation="a")
        await gateway.channel.write("2", conversation="b")
    async with house.open("answered", "answered", pipeline=one_seat) as gateway:
        await gateway.app.idle()
        assert gateway.said == ["answered", "answered"]
