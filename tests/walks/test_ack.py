"""The sender sees that work has begun, and it never costs the answer."""

import asyncio
from typing import Any

import pytest
from tests.walks.house import House, in_virtual_time, until

from finclaw.errors import ChannelError, Overloaded
from finclaw.kernel.envelope import Capabilities, Inbound
from finclaw.pipeline.settings import AckSettings, PipelineSettings
from finclaw.testing import MemoryChannel, delay, fails, hold, reply


@pytest.mark.spec("P-08", "P-28", "P-29")
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
    assert gateway.channel.reactions == [("m-1", "👀"), ("m-1", "😢"), ("m-2", "👀"), ("m-2", None)]
    assert dict(gateway.channel.typing_log) == {"m-1": False, "m-2": False}


@in_virtual_time
async def test_the_reaction_tells_how_it_ended(house: House) -> None:
    settings = PipelineSettings(ack=AckSettings(done="👍", failed="👎"))
    script = ["done", *[fails(Overloaded("busy"))] * 3, "<<NO_REPLY>>", reply(hold(asyncio.Event()))]
    async with house.open(*script, pipeline=settings) as gateway:
        await gateway.ask("one", message_id="m-1")
        await gateway.ask("two", message_id="m-2")
        await gateway.ask("three", message_id="m-3")
        accepted = await gateway.channel.write("four", message_id="m-4")
        await until(lambda: gateway.provider.streaming == 1)
        gateway.app.stop_message(accepted.id)
        await gateway.outcome(accepted)
    assert dict(gateway.channel.reactions) == {"m-1": "👍", "m-2": "👎", "m-3": None, "m-4": None}


@pytest.mark.spec("D-08", "DX-15")
@pytest.mark.parametrize(("seconds", "shown"), [(12, 3), (250, 24)])
@in_virtual_time
async def test_typing_is_shown_again_every_five_seconds_for_two_minutes(house: House, seconds: int, shown: int) -> None:
    async with house.open(reply(delay(seconds), "done")) as gateway:
        await gateway.ask("hi", message_id="m-1")
        ended = [active for _, active in gateway.channel.typing_log]
        assert ended[:shown] == [True] * shown
        assert set(ended[shown:]) == {False}, "it ends with the turn at the latest"
        count = len(ended)
        await house.clock.sleep(60)
        assert len(gateway.channel.typing_log) == count, "and stays so"


@pytest.mark.parametrize(
    ("scope", "shown"),
    [("off", []), ("direct", ["d"]), ("group-mentions", ["g"]), ("all", ["d", "g", "n"])],
)
@in_virtual_time
async def test_signs_are_shown_where_they_are_wanted(house: House, scope: Any, shown: list[str]) -> None:
    settings = PipelineSettings(ack=AckSettings(scope=scope), require_mention=False)
    async with house.open("one", "two", "three", pipeline=settings) as gateway:
        await gateway.ask("hi", message_id="d")
        await gateway.ask("hi", message_id="g", chat_type="group", mentions_us=True)
        await gateway.ask("hi", message_id="n", chat_type="group")
        assert list(dict.fromkeys(each for each, _ in gateway.channel.reactions)) == shown
        assert list(dict.fromkeys(each for each, _ in gateway.channel.typing_log)) == shown
