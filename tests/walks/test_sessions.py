"""What somebody does to sessions from outside while the gateway runs: no copy in its memory outlives it."""

import asyncio
from datetime import UTC, datetime, timedelta

from tests.walks.house import House, in_virtual_time, until

from finclaw.kernel.message import Message, Source, Text
from finclaw.testing.provider import hold, reply

YEAR = timedelta(days=365)


@in_virtual_time
async def test_a_reset_from_outside_stops_a_running_turn_as_the_command_does(house: House) -> None:
    released = asyncio.Event()
    async with house.open("one", reply("half", hold(released)), "fresh") as gateway:
        await gateway.ask("first")
        running = await gateway.channel.write("a long story")
        await until(lambda: gateway.provider.streaming == 1)
        await gateway.app.reset(running.session)
        released.set()
        outcome = await gateway.outcome(running)
        assert (outcome.kind, outcome.success) == ("stopped", False)
        await gateway.ask("new")
        assert [each.text for each in gateway.seen] == ["new"]


@in_virtual_time
async def test_a_restored_conversation_is_what_the_model_sees(house: House) -> None:
    async with house.open("one", "two") as gateway:
        await gateway.ask("forgotten")
        (session,) = (await gateway.app.sessions(10)).items
        await gateway.app.reset(session.key)
        old = Message("m", "user", (Text("from a file"),), Source("user"), datetime(2026, 1, 2, tzinfo=UTC))
        await gateway.app.restore(session.key, [old])
        await gateway.ask("go on")
        assert [each.text for each in gateway.seen] == ["from a file", "go on"]


@in_virtual_time
async def test_nothing_of_a_removed_session_comes_back_with_its_name(house: House) -> None:
    """A new row counts its versions from the beginning: it must not meet the copy of the old one at the same number."""
    async with house.open("one", "two", "three") as gateway:
        await gateway.ask("a secret of last year", conversation="old")
        house.clock.advance(400 * 86_400)
        await gateway.ask("hello", conversation="new")
        pruned = await gateway.app.upkeep.prune(YEAR)
        assert (pruned.messages, pruned.sessions) == (1, 1)
        assert (await gateway.ask("/reset", conversation="old")).kind == "command"
        await gateway.ask("what do you know?", conversation="old")
        assert [each.text for each in gateway.seen] == ["what do you know?"]


@in_virtual_time
async def test_a_look_at_what_would_go_changes_nothing(house: House) -> None:
    async with house.open("one", "two", "three") as gateway:
        await gateway.ask("old", conversation="old")
        house.clock.advance(400 * 86_400)
        await gateway.ask("hello", conversation="new")
        assert (await gateway.app.upkeep.prune(YEAR, dry_run=True)).sessions == 1
        await gateway.ask("again", conversation="old")
        assert [each.text for each in gateway.seen] == ["old", "one", "again"]
