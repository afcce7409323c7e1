"""Lines that the gateway answers itself."""

import asyncio
from collections.abc import Sequence

import pytest
from msgspec.structs import replace
from tests.walks.house import House, in_virtual_time, until

from finclaw.approvals.people import PersonSettings
from finclaw.builtins.basics import BasicCommand
from finclaw.kernel.envelope import Capabilities, Inbound, Outbound, Sender
from finclaw.kernel.port import CommandReply, CommandScope
from finclaw.kernel.scope import DeliveryContext
from finclaw.testing import hold, reply

THREE = ("normalize", "gate", "command")


async def long_answer(args: Sequence[str], scope: CommandScope) -> CommandReply:
    return CommandReply("word " * 200, ephemeral=True)


async def echo(args: Sequence[str], scope: CommandScope) -> CommandReply:
    return CommandReply(f"{scope.sender.id}: {'|'.join(args)}")


LONG = BasicCommand(name="long", description="Much", usage="/long", answer=long_answer)
ECHO = BasicCommand(name="echo", description="Says it again", usage="/echo …", answer=echo, aliases=("e", "따라해"))
SECRET = BasicCommand(name="audit", description="For admins", usage="/audit", answer=echo, roles=("admin", "owner"))


@pytest.mark.spec("P-27", "C-11", "DX-10", "P-12")
@in_virtual_time
async def test_row_04_a_known_command_answers_and_no_model_is_asked(house: House) -> None:
    async with house.open(commands=[ECHO]) as gateway:
        outcome = await gateway.ask("/help")
        assert (outcome.kind, outcome.success, outcome.stages_executed) == ("command", True, THREE)
        assert outcome.reason == "answered by /help"
        assert outcome.reply == gateway.said[0]
        assert "/echo – Says it again" in gateway.said[0].splitlines()
        assert gateway.provider.requests == []
        record = await gateway.app.wait((await gateway.channel.write("/help", message_id="m")).id, 60)
        await gateway.app.idle()
        assert record is not None
        assert gateway.channel.sent[-1].unit.outbound.reply_to == "m"


@pytest.mark.spec("P-27")
@pytest.mark.parametrize(
    "line", ["/echo a  b", "/ECHO a b", "/e a b", "/따라해 a b", "  /echo\ta\nb", "<@!bot> /echo a b"]
)
@in_virtual_time
async def test_row_04_names_aliases_and_mentions_in_front(house: House, line: str) -> None:
    async with house.open(commands=[ECHO]) as gateway:
        assert (await gateway.ask(line)).reply == "ada: a|b"


@pytest.mark.spec("C-08", "P-27")
@pytest.mark.parametrize("line", ["/usr/bin/env is a path", "/nothing", "/", "see /help"])
@in_virtual_time
async def test_row_04_what_is_no_command_goes_to_the_model_unchanged(house: House, line: str) -> None:
    async with house.open("ok") as gateway:
        assert (await gateway.ask(line)).kind == "answered"
        assert gateway.seen[-1].text == line


@in_virtual_time
async def test_row_04_a_command_for_others_is_refused_aloud(house: House) -> None:
    bob = PersonSettings(name="Bob", known_as=("memory:local:bob",), roles=("owner",))
    async with house.open(commands=[SECRET], people=[bob]) as gateway:
        outcome = await gateway.ask("/audit all")
        assert (outcome.kind, outcome.skipped_at) == ("refused", "command")
        assert gateway.said == ["/audit is for admin or owner only."]
        assert gateway.channel.sent[0].unit.outbound.ephemeral
        await gateway.ask("/help")
        assert "/audit" not in gateway.said[1]
        boss = Inbound(text="/audit all", channel="memory", sender=Sender("bob"))
        allowed = await gateway.outcome(await gateway.channel.deliver(boss))
        assert (allowed.kind, allowed.reply) == ("command", "bob: all")


@pytest.mark.spec("DX-10")
@in_virtual_time
async def test_a_long_answer_to_one_person_is_split_and_stays_with_them(house: House) -> None:
    async with house.open(commands=[LONG], capabilities=Capabilities(max_length=300)) as gateway:
        outcome = await gateway.ask("/long", message_id="m-1")
        units = [sent.unit.outbound for sent in gateway.channel.sent]
        assert len(units) > 2
        assert all(unit.ephemeral for unit in units)
        assert [unit.reply_to for unit in units] == ["m-1", *[None] * (len(units) - 1)]
        assert " ".join(gateway.said).split() == (outcome.reply or "").split()


@pytest.mark.spec("DX-10")
@in_virtual_time
async def test_a_commands_answer_passes_the_delivery_ring(house: House) -> None:
    async def stamp(ctx: DeliveryContext) -> Outbound:
        outbound = await ctx.next()
        return replace(outbound, text=f"[{ctx.outbound.kind}] {outbound.text}")

    async with house.open(commands=[ECHO], layers=[("delivery", stamp)]) as gateway:
        outcome = await gateway.ask("/echo hi")
        assert gateway.said == ["[notice] ada: hi"]
        assert outcome.reply == "[notice] ada: hi"


@in_virtual_time
async def test_reset_forgets_the_conversation(house: House) -> None:
    async with house.open("one", "two") as gateway:
        await gateway.ask("remember this")
        assert (await gateway.ask("/reset")).kind == "command"
        await gateway.ask("what do you remember?")
        assert [each.text for each in gateway.seen] == ["what do you remember?"]
        assert "starts anew" in gateway.said[1]


@in_virtual_time
async def test_reset_while_a_turn_runs_stops_it_and_says_so(house: House) -> None:
    released = asyncio.Event()
    async with house.open(reply("half", hold(released)), "fresh") as gateway:
        running = await gateway.channel.write("a long story")
        await until(lambda: gateway.provider.streaming == 1)
        assert (await gateway.outcome(await gateway.channel.write("/reset"))).kind == "command"
        released.set()
        outcome = await gateway.outcome(running)
        assert (outcome.kind, outcome.success) == ("stopped", False)
        assert "Stopped" in gateway.said[-1]
        await gateway.ask("new")
        assert [each.text for each in gateway.seen] == ["new"]
