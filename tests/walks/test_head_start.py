"""A message for an idle session begins its turn with its acceptance, and nobody but the disk notices."""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.disk import Disk
from tests.walks.house import House, crash, in_virtual_time, until
from tests.walks.tools import Desk

from finclaw.kernel.scope import MessageContext, Outcome
from finclaw.testing import call, reply


@in_virtual_time
async def test_a_plain_turn_needs_no_commit_to_begin(house: House) -> None:
    with Disk(default=True) as disk:
        async with house.open("one", "two", "three") as gateway:
            await gateway.ask("first")
            await gateway.app.idle()
            before = disk.counts["sync"]
            assert (await gateway.ask("second")).reply == "two"
            await gateway.app.idle()
            assert disk.counts["sync"] - before == 3, "when it came, when it was answered, when it was sent"


@in_virtual_time
async def test_what_ends_before_its_turn_leaves_no_turn(house: House) -> None:
    async def refuse(ctx: MessageContext) -> Outcome:
        return Outcome(kind="refused", reason="not today") if ctx.inbound.text == "no" else await ctx.next()

    async with house.open("yes", layers=[("message", refuse)]) as gateway:
        assert (await gateway.ask("no")).kind == "refused"
        assert (await gateway.ask("for nobody here", chat_type="group")).kind == "skipped"
        assert (await gateway.ask("yes")).reply == "yes"
        assert [turn.opening for turn in await gateway.app.turns(9)] == ["yes"]


@in_virtual_time
async def test_the_turn_begins_with_the_words_that_layers_left(house: House) -> None:
    async def shout(ctx: MessageContext) -> Outcome:
        ctx.inbound = replace(ctx.inbound, text=ctx.inbound.text.upper())
        return await ctx.next()

    layers: list[Any] = [("message", shout)]
    await crash(house, "model:ended", "lost", layers=layers)
    async with house.open("answered", layers=layers) as gateway:
        await gateway.app.idle()
        assert [message.text for message in gateway.seen] == ["BUY"]
        assert gateway.said == ["answered"]


@pytest.mark.parametrize("point", ["tools:before_commit", "tools:started", "tools:ended", "results:after_commit"])
@in_virtual_time
async def test_a_crash_after_it_finds_the_words_and_asks_the_tool_once(house: House, point: str) -> None:
    desk = Desk()
    script = (reply(call("look")), "done")
    await crash(house, point, *script, tools=[desk.tool("look")])
    async with house.open(*(script if point == "tools:before_commit" else script[1:]), tools=[desk.tool("look")]) as on:
        await on.app.idle()
        assert on.said == ["done"]
        assert [message.text for message in on.seen if message.role == "user"] == ["buy"]


@in_virtual_time
async def test_those_behind_wait_for_their_own_claim(house: House) -> None:
    async with house.open("one", "two", "three") as gateway:
        accepted = [await gateway.channel.write(text) for text in "123"]
        await until(lambda: len(gateway.said) == 3)
        assert gateway.said == ["one", "two", "three"]
        records = [await gateway.app.wait(each.id, 1) for each in accepted]
        assert [record.attempts for record in records if record] == [1, 1, 1]
