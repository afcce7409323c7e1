"""Deletions and reactions are recorded and start no turn; a pressed button is the command it stands for."""

from collections.abc import Sequence

import pytest
from tests.walks.house import House, in_virtual_time

from finclaw.builtins.basics import BasicCommand
from finclaw.errors import ChannelError
from finclaw.kernel.envelope import Capabilities, InboundKind
from finclaw.kernel.port import CommandReply, CommandScope
from finclaw.pipeline.settings import PipelineSettings


async def echo(args: Sequence[str], scope: CommandScope) -> CommandReply:
    return CommandReply(f"{scope.sender.id}: {'|'.join(args)}")


ECHO = BasicCommand(name="echo", description="Says it again", usage="/echo …", answer=echo)


@pytest.mark.parametrize("kind", ["delete", "reaction"])
@in_virtual_time
async def test_it_is_accepted_once_and_nobody_answers(house: House, kind: InboundKind) -> None:
    async with house.open("hello") as gateway:
        await gateway.channel.write("hi", message_id="1")
        first = await gateway.channel.write("words", message_id="u1", kind=kind, target="1")
        again = await gateway.channel.write("words", message_id="u1", kind=kind, target="1")
        await gateway.app.idle()
        record = await gateway.app.wait(first.id, 60)
        assert (again.id, again.duplicate) == (first.id, True)
        assert record is not None
        assert record.outcome is not None
        assert record.outcome.kind == "skipped"
        assert f"{kind} of message 1" in record.outcome.reason
        assert record.outcome.turn_id is None
        assert len(gateway.provider.requests) == 1
        assert gateway.said == ["hello"]


@in_virtual_time
async def test_a_pressed_button_is_the_command_it_carries(house: House) -> None:
    able = Capabilities(reactions=True, typing=True)
    async with house.open(commands=[ECHO], capabilities=able) as gateway:
        await gateway.channel.write("/echo a b", message_id="press-1", kind="action", target="sent-7")
        await gateway.app.idle()
        assert gateway.said == ["ada: a|b"]
        assert gateway.channel.sent[0].unit.outbound.reply_to == "sent-7"
        assert gateway.provider.requests == []
        assert gateway.channel.reactions == []


@in_virtual_time
async def test_a_pressed_button_needs_no_mention(house: House) -> None:
    async with house.open(commands=[ECHO], pipeline=PipelineSettings(require_mention=True)) as gateway:
        await gateway.channel.write("/echo a", chat_type="group", kind="action", target="sent-7")
        await gateway.channel.write("/echo b", chat_type="group")
        await gateway.app.idle()
        assert gateway.said == ["ada: a"]


@in_virtual_time
async def test_one_without_a_target_is_not_taken(house: House) -> None:
    async with house.open() as gateway:
        with pytest.raises(ChannelError, match="set `target`"):
            await gateway.channel.write("words", kind="edit")
