"""A message has so much time. When it is over, whatever runs is cancelled, the stage is named and the sender told."""

import asyncio
from typing import Any

import pytest
from tests.walks.house import AnyLayer, House, in_virtual_time, until
from tests.walks.tools import Desk, hang

from finclaw.builtins.basics import BasicCommand
from finclaw.delivery.notice import notice
from finclaw.kernel.extension import RingName
from finclaw.kernel.port import CommandReply
from finclaw.kernel.scope import MessageContext, Outcome
from finclaw.pipeline.settings import PipelineSettings
from finclaw.testing import MemoryChannel, call, delay, hold, reply

TEN_SECONDS = PipelineSettings(timeout_ms=10_000)


async def hang_for_ever(args: Any, scope: Any) -> CommandReply:
    await asyncio.Event().wait()
    raise AssertionError


async def hanging_layer(ctx: Any) -> Any:
    await asyncio.Event().wait()


HANG = BasicCommand(name="hang", description="", usage="", answer=hang_for_ever)


@pytest.mark.spec("P-08", "P-14", "DX-02", "P-42")
@pytest.mark.parametrize("what", ["command", "model", "tool", "turn", "delivery"])
@in_virtual_time
async def test_row_14_what_hangs_is_cancelled_at_the_deadline(house: House, what: str) -> None:
    desk = Desk()
    first = {
        "model": reply("I think", hold(asyncio.Event())),
        "tool": reply(call("hang")),
    }.get(what, "an answer")
    answers = iter([first, "and on we go"])
    hung: list[tuple[RingName, AnyLayer]] = []
    if what in ("turn", "delivery"):
        hung = [("turn" if what == "turn" else "delivery", only_first())]
    async with house.open(
        lambda request: next(answers),
        layers=hung,
        commands=[HANG],
        tools=[desk.tool("hang", hang, timeout=999)],
        pipeline=TEN_SECONDS,
    ) as gateway:
        text = "/hang" if what == "command" else "go"
        outcome = await gateway.ask(text)
        stage = {"command": "command", "delivery": "deliver"}.get(what, "execute")
        assert (outcome.kind, outcome.aborted_at) == ("failed", stage)
        assert outcome.abort_reason == "timeout after 10000 ms, by pipeline.timeout_ms"
        assert outcome.duration_ms == 10_000
        assert gateway.said == [outcome.reply]
        assert "took too long" in gateway.said[0]
        assert gateway.provider.streaming == 0
        assert desk.cancelled == (["hang"] if what == "tool" else [])
        if what in ("command", "turn"):
            next(answers)
        assert (await gateway.ask("next")).reply == "and on we go"


def only_first() -> AnyLayer:
    first = [1]

    async def layer(ctx: Any) -> Any:
        if first:
            first.pop()
            await asyncio.Event().wait()
        return await ctx.next()

    return layer


@pytest.mark.spec("DX-21e", "P-35", "P-14")
@in_virtual_time
async def test_row_14_the_clock_stands_still_in_the_lane(house: House) -> None:
    async with house.open(
        reply(delay(9), "one"), reply(delay(9), "two"), reply(delay(9), "three"), pipeline=TEN_SECONDS
    ) as gateway:
        waiting = [await gateway.channel.write(text) for text in ("1", "2", "3")]
        outcomes = [await gateway.outcome(each) for each in waiting]
        assert [outcome.kind for outcome in outcomes] == ["answered"] * 3
        assert [outcome.duration_ms for outcome in outcomes] == [9_000, 18_000, 27_000]


@in_virtual_time
async def test_the_time_before_the_lane_counts_also_behind_it(house: House) -> None:
    """Six seconds before the lane leave four behind it."""

    async def slow(ctx: MessageContext) -> Outcome:
        if ctx.inbound.text == "slow":
            await house.clock.sleep(6)
        return await ctx.next()

    answers = {"first": reply(delay(9), "one"), "slow": reply(delay(5), "late")}
    async with house.open(
        lambda request: answers[request.messages[-1].text], layers=[("message", slow)], pipeline=TEN_SECONDS
    ) as gateway:
        first, second = await gateway.channel.write("first"), await gateway.channel.write("slow")
        assert (await gateway.outcome(first)).kind == "answered"
        outcome = await gateway.outcome(second)
        assert (outcome.kind, outcome.duration_ms) == ("failed", 9_000 + 4_000)


@in_virtual_time
async def test_an_answer_that_exists_cannot_run_out_of_time(house: House) -> None:
    """The reaction cannot be taken back any more and the deadline passes: the outcome stays what it is."""

    class StuckChannel(MemoryChannel):
        async def react(self, inbound: Any, emoji: str | None) -> None:
            if emoji is None:
                await asyncio.Event().wait()

    async with house.open(
        reply(delay(9), "in time"), channel=StuckChannel(house.clock), pipeline=TEN_SECONDS
    ) as gateway:
        ended: list[Outcome] = []
        accepted = await gateway.channel.write("go")
        ended.append(await gateway.outcome(accepted))
        await gateway.app.idle()
        assert (ended[0].kind, ended[0].reply) == ("answered", "in time")
        assert [each.outcome for each in gateway.events if each.name == "message:outcome"] == ["answered"]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]


@pytest.mark.spec("DX-04", "P-42")
@pytest.mark.parametrize("where", ["before", "after"])
@in_virtual_time
async def test_a_message_layer_that_never_comes_back_does_not_hold_the_lane(house: House, where: str) -> None:
    first = [1]

    async def stuck(ctx: MessageContext) -> Outcome:
        outcome = None if where == "before" else await ctx.next()
        if first:
            first.pop()
            await asyncio.Event().wait()
        return outcome or await ctx.next()

    async with house.open("one", "two", layers=[("message", stuck)], pipeline=TEN_SECONDS) as gateway:
        accepted = await gateway.channel.write("first")
        outcome = await gateway.outcome(accepted)
        if where == "before":
            assert (outcome.kind, outcome.abort_reason) == ("failed", "a message layer did not come back")
            assert gateway.said == [notice("failed", accepted.inbound).text]
        else:
            assert (outcome.kind, outcome.reply) == ("answered", "one")
        assert (await gateway.ask("second")).kind == "answered"


@in_virtual_time
async def test_a_tool_that_ignores_its_cancellation_is_left_behind(house: House) -> None:
    released = asyncio.Event()

    async def stubborn(text: str, scope: Any) -> str:
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue
        return "too late"

    desk = Desk()
    async with house.open(
        reply(call("stubborn")), "next", tools=[desk.tool("stubborn", stubborn, timeout=999)], pipeline=TEN_SECONDS
    ) as gateway:
        outcome = await gateway.ask("go")
        assert (outcome.aborted_at, outcome.duration_ms) == ("execute", 10_500)
        assert (await gateway.ask("more")).reply == "next"
        released.set()
        await until(lambda: not any("stubborn" in str(task.get_coro()) for task in asyncio.all_tasks()))


@in_virtual_time
async def test_a_hung_layer_in_the_turn_is_cancelled_too(house: House) -> None:
    async with house.open("x", layers=[("step", hanging_layer)], pipeline=TEN_SECONDS) as gateway:
        assert (await gateway.ask("go")).aborted_at == "execute"
