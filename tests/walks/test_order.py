"""Nothing overtakes: the turns of a session run in the order in which its messages were accepted."""

import asyncio
from random import Random
from typing import Any

import pytest
from tests.walks.house import House, crash, in_virtual_time, until

from finclaw.kernel.chunk import ModelRequest
from finclaw.kernel.scope import MessageContext, Outcome, TurnContext, TurnResult
from finclaw.pipeline.settings import PipelineSettings, PoolSettings
from finclaw.testing import delay, hold, reply
from finclaw.testing.provider import Line


def echo(request: ModelRequest) -> str:
    return "re: " + request.messages[-1].text


@pytest.mark.spec("P-35", "DX-21e")
@in_virtual_time
async def test_contexts_that_finish_in_the_other_order_do_not_overtake(house: House) -> None:
    async def slow_first(ctx: MessageContext) -> Outcome:
        await house.clock.sleep({"1": 5, "2": 1, "3": 0}[ctx.inbound.text])
        return await ctx.next()

    async with house.open(echo, layers=[("message", slow_first)]) as gateway:
        accepted = [await gateway.channel.write(text) for text in "123"]
        for each in accepted:
            await gateway.outcome(each)
        await gateway.app.idle()
        assert gateway.said == ["re: 1", "re: 2", "re: 3"]
        assert [each.text for each in gateway.seen] == ["1", "re: 1", "2", "re: 2", "3"]


@pytest.mark.spec("P-35", "P-42")
@pytest.mark.parametrize("block", range(10))
@in_virtual_time
async def test_whatever_the_interleaving_nothing_is_dropped_or_overtakes(house: House, block: int) -> None:
    """A thousand conversations of random speed, a hundred at a time."""
    random = Random(block)
    answered: dict[str, list[str]] = {}

    async def before(ctx: MessageContext) -> Outcome:
        await house.clock.sleep(random.choice([0, 0, 0.1, 0.2, 1]))
        return await ctx.next()

    async def during(ctx: TurnContext) -> TurnResult:
        await house.clock.sleep(random.choice([0, 0.1, 0.3]))
        if random.random() < 0.1:
            raise RuntimeError("some turns fail")
        return await ctx.next()

    async with house.open(echo, layers=[("message", before), ("turn", during)]) as gateway:

        async def talk(person: str) -> None:
            for number in range(random.randint(2, 4)):
                await gateway.channel.write(
                    random.choice([f"{number}", f"{number}", "  ", "/help"]),
                    sender=person,
                    conversation=person,
                    message_id=f"{person}-{number}",
                )
                await house.clock.sleep(random.choice([0, 0, 0.1, 0.2]))

        await asyncio.gather(*(talk(f"p{number}") for number in range(100)))
        await gateway.app.idle()
        counts = await gateway.app.counts()
        assert (counts.waiting, counts.running, counts.units_pending) == (0, 0, 0)
        for sent in gateway.channel.sent:
            if sent.unit.turn_id is not None:
                answered.setdefault(sent.unit.conversation, []).append(sent.unit.inbound_id)
        for order in answered.values():
            rows = [int(each.rpartition("-")[2]) for each in order]
            assert rows == sorted(rows)


@pytest.mark.spec("P-35")
@in_virtual_time
async def test_a_message_in_the_last_moment_of_a_turn_is_answered(house: House) -> None:
    """Written from inside the commit of the first answer, and at every moment around it."""
    for moment in range(30):
        async with House(house.state / str(moment), house.clock).open("one", "two") as gateway:
            first = await gateway.channel.write("1")
            for _ in range(moment):
                await asyncio.sleep(0)
            second = await gateway.channel.write("2")
            assert (await gateway.outcome(first)).reply == "one"
            assert (await gateway.outcome(second)).reply == "two"
            assert [each.text for each in gateway.seen] == ["1", "one", "2"]


@in_virtual_time
async def test_a_message_from_inside_the_last_event_is_answered(house: House) -> None:
    async with house.open(echo) as gateway:
        writing: list[asyncio.Task[Any]] = []

        def write_more(event: Any) -> None:
            if event.name in ("message:outcome", "execution:complete") and len(writing) < 2:
                writing.append(asyncio.ensure_future(gateway.channel.write("more")))

        gateway.app.events.observe(write_more)
        await gateway.ask("first")
        for each in writing:
            assert (await gateway.outcome(await each)).reply == "re: more"


@pytest.mark.spec("P-35", "RO-06")
@in_virtual_time
async def test_other_sessions_do_not_wait(house: House) -> None:
    stuck = asyncio.Event()

    def answer(request: ModelRequest) -> Line:
        return reply(hold(stuck), "late") if request.messages[-1].text == "slow" else "quick"

    async with house.open(answer) as gateway:
        slow = await gateway.channel.write("slow", sender="ada")
        await until(lambda: gateway.provider.streaming == 1)
        quick = await gateway.channel.write("fast", sender="bob")
        assert (await gateway.outcome(quick)).reply == "quick"
        stuck.set()
        assert (await gateway.outcome(slow)).reply == "late"


@pytest.mark.spec("LN-05")
@in_virtual_time
async def test_a_free_seat_is_for_other_sessions_not_for_the_next_message_of_a_busy_one(house: House) -> None:
    """One person in two chats has two sessions; a name that two people share is none."""
    order: list[str] = []

    async def watch(ctx: TurnContext) -> TurnResult:
        order.append(f"{ctx.context.body} begins")
        result = await ctx.next()
        order.append(f"{ctx.context.body} ends")
        return result

    def answer(request: ModelRequest) -> Line:
        text = request.messages[-1].text
        return reply(delay(0 if text.startswith("other") else 10), f"re: {text}")

    pools = PipelineSettings(pools=PoolSettings(main=2))
    async with house.open(answer, layers=[("turn", watch)], pipeline=pools) as gateway:
        for text in ("one 1", "one 2", "one 3", "other 1", "other 2"):
            await gateway.channel.write(text, sender="ada", conversation=text.split()[0])
        await gateway.app.idle()
        assert gateway.said == ["re: other 1", "re: other 2", "re: one 1", "re: one 2", "re: one 3"]
    of_one = [line for line in order if line.startswith("one")]
    assert of_one == [f"one {number} {what}" for number in (1, 2, 3) for what in ("begins", "ends")]
    assert order.index("other 2 ends") < order.index("one 1 ends"), "the second seat was free for them"


@in_virtual_time
async def test_tickets_keep_their_order_over_a_restart(house: House) -> None:
    async with house.open(reply(hold(asyncio.Event()))) as gateway:
        for text in "123":
            await gateway.channel.write(text)
        await until(lambda: gateway.provider.streaming == 1)
    async with house.open(echo) as gateway:
        await gateway.channel.write("4")
        await gateway.app.idle()
        assert gateway.said == ["re: 1", "re: 2", "re: 3", "re: 4"]
        assert [each.text for each in gateway.seen] == ["1", "re: 1", "2", "re: 2", "3", "re: 3", "4"]


@in_virtual_time
async def test_a_message_that_kills_the_process_three_times_is_set_aside(house: House) -> None:
    for _ in range(3):
        await crash(house, "model:ended", "x")
    async with house.open("the next one") as gateway:
        outcome = await gateway.ask("buy", message_id="m-1")
        assert (outcome.kind, outcome.abort_reason) == ("failed", "the process died 3 times in this message")
        assert (await gateway.ask("next")).reply == "the next one"
        assert [each.role for each in gateway.seen] == ["user", "assistant", "user"]
        assert "set it aside" in gateway.said[0]


@in_virtual_time
async def test_what_is_too_old_after_a_restart_expires(house: House) -> None:
    async with house.open(reply(delay(99), "never"), pipeline=PipelineSettings(expire_after_s=60)) as gateway:
        accepted = await gateway.channel.write("안녕하세요")
        waiting = await gateway.channel.write("second")
        await until(lambda: gateway.provider.streaming == 1)
    await house.clock.sleep(120)
    async with house.open("fresh", pipeline=PipelineSettings(expire_after_s=60)) as gateway:
        assert (await gateway.outcome(accepted)).kind == "expired"
        assert (await gateway.outcome(waiting)).kind == "expired"
        await gateway.app.idle()
        assert "자리를 비운" in gateway.said[0]
        assert "I was away" in gateway.said[1]
        assert (await gateway.ask("new")).reply == "fresh"


@pytest.mark.parametrize("beats", range(20))
@in_virtual_time
async def test_a_stop_at_any_moment_neither_loses_nor_counts_a_try(house: House, beats: int) -> None:
    """A stop in good order is not a crash, wherever the message is: the try does not count."""
    async with house.open(reply(hold(asyncio.Event()))) as gateway:
        accepted = await gateway.channel.write("1")
        (task,) = (each for each in asyncio.all_tasks() if each.get_name() == f"message {accepted.id}")
        for _ in range(beats):
            await asyncio.sleep(0)
        task.cancel()  # as the engine does when its patience is over
        await asyncio.wait([task])
    async with house.open("answered after all") as gateway:
        record = await gateway.app.wait(accepted.id, float("inf"))
        assert record is not None
        assert record.outcome is not None
        assert (record.outcome.reply, record.attempts) == ("answered after all", 1)


@in_virtual_time
async def test_a_layer_that_will_not_stop_does_not_hold_up_the_gateway(house: House) -> None:
    released = asyncio.Event()

    async def stubborn(ctx: TurnContext) -> TurnResult:
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue
        return await ctx.next()

    async with house.open("never", layers=[("turn", stubborn)]) as gateway:
        accepted = await gateway.channel.write("go")
        (task,) = (each for each in asyncio.all_tasks() if each.get_name() == f"message {accepted.id}")
        await asyncio.sleep(1)
    assert house.clock.monotonic() < 60
    async with house.open("next time") as gateway:
        assert (await gateway.outcome(accepted)).reply == "next time"
    released.set()
    await asyncio.sleep(1)
    task.cancel()
    await asyncio.wait([task])
