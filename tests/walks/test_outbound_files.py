"""Pictures and files of tools and commands: on disk before the answer, whole and once with it; elsewhere a line."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace
from tests.ports.pictures import png
from tests.walks.house import House, crash, in_virtual_time

from finclaw.builtins.basics import BasicCommand
from finclaw.kernel.envelope import ActionButton, Capabilities, NewFile, OutboundFile
from finclaw.kernel.port import CommandReply, CommandScope, Tool, ToolOutput, ToolScope
from finclaw.kernel.scope import ToolCallContext
from finclaw.pipeline.settings import PipelineSettings
from finclaw.testing import call, delay, reply, say
from finclaw.testing.channel import PROFILES
from finclaw.tools.define import tool

PICTURE = NewFile(data=png(salt="chart"), name="charts/aapl.png", mime="image/png", alt="AAPL, one year: up")
TABLE = NewFile(data=b"day,close\n", name="aapl.csv", mime="text/csv")


def draw(*files: NewFile) -> Tool:
    @tool("draw", "Draws.", group="finance")
    async def draw(scope: ToolScope) -> ToolOutput:
        return ToolOutput("drawn", files=files)

    return draw


async def answer_with_files(args: Sequence[str], scope: CommandScope) -> CommandReply:
    return CommandReply("Here it is.", files=(PICTURE, PICTURE, TABLE))


DRAW = BasicCommand(name="draw", description="Draws", usage="/draw", answer=answer_with_files)


@pytest.mark.spec("P-49")
@in_virtual_time
async def test_a_tools_files_go_out_once_with_the_finished_answer(house: House) -> None:
    capabilities = Capabilities(blocks=True, media=PROFILES["telegram"].media)
    first = "The line goes up, as you can see. " * 8
    script = [reply(call("draw"), call("draw")), reply(say(first), delay(10), say("That is all."))]
    async with house.open(*script, tools=[draw(PICTURE, TABLE)], capabilities=capabilities) as gateway:
        outcome = await gateway.ask("draw it")
        *blocks, last = (sent.unit.outbound for sent in gateway.channel.sent)
        assert blocks
        assert not any(block.attachments for block in blocks), "only text goes out early"
        assert " ".join(" ".join(gateway.said).split()) == f"{first}That is all."
        picture, table = last.attachments
        assert (picture.name, picture.mime, picture.kind, picture.alt) == (
            "aapl.png",
            "image/png",
            "image",
            PICTURE.alt,
        )
        assert (table.name, table.mime, table.size) == ("aapl.csv", "text/csv", len(TABLE.data))
        assert (house.state / "blobs" / picture.blob).read_bytes() == PICTURE.data
        assert outcome.reply == first + "That is all."
        assert "aapl.png" not in str(gateway.seen[-1].tool_results[0].content), "the model has no use for it"


@in_virtual_time
async def test_a_commands_files_go_out_with_its_answer(house: House) -> None:
    async with house.open(commands=[DRAW], capabilities=PROFILES["discord"]) as gateway:
        await gateway.ask("/draw")
        (sent,) = gateway.channel.sent
        assert [each.name for each in sent.unit.outbound.attachments] == ["aapl.png", "aapl.csv"]
        assert (sent.unit.outbound.kind, sent.text) == ("notice", "Here it is.")


@pytest.mark.parametrize(
    ("capabilities", "lines"),
    [
        (PROFILES["plain"], "📎 aapl.png: AAPL, one year: up\n📎 aapl.csv"),
        (Capabilities(media={"image": 1_000, "file": 3}), "📎 aapl.csv"),
    ],
)
@in_virtual_time
async def test_what_a_channel_does_not_carry_becomes_a_line(
    house: House, capabilities: Capabilities, lines: str
) -> None:
    async with house.open(call("draw"), "Look.", tools=[draw(PICTURE, TABLE)], capabilities=capabilities) as gateway:
        await gateway.ask("draw it")
        (sent,) = gateway.channel.sent
        assert sent.text == f"Look.\n\n{lines}"
        assert [each.name for each in sent.unit.outbound.attachments] == ["aapl.png"] * bool(capabilities.media)


@in_virtual_time
async def test_a_file_that_cannot_be_kept_is_told_and_the_rest_goes_out(house: House) -> None:
    broken = replace(PICTURE, data=b"no picture", name="../broken.png")
    many = [replace(TABLE, data=str(number).encode()) for number in range(12)]
    async with house.open(call("draw"), "Look.", tools=[draw(broken, *many)], capabilities=PROFILES["web"]) as gateway:
        await gateway.ask("draw it")
        assert (
            "[The file broken.png does not go out with the answer: the file is no image/png"
            in gateway.results[0].content
        )
        assert len(gateway.channel.sent[0].unit.outbound.attachments) == 10


@in_virtual_time
async def test_a_file_outlives_a_crash_however_long_it_takes(house: House) -> None:
    parts: dict[str, Any] = {"tools": [draw(PICTURE)], "capabilities": PROFILES["telegram"]}
    parts["pipeline"] = PipelineSettings(expire_after_s=86_400)
    await crash(house, "results:after_commit", call("draw"), **parts)
    house.clock.advance(7_200)
    async with house.open("Look.", **parts) as gateway:
        await gateway.app.idle()
        (sent,) = gateway.channel.sent
        (file,) = sent.unit.outbound.attachments
        assert (sent.text, file.name) == ("Look.", "aapl.png")
        assert (house.state / "blobs" / file.blob).read_bytes() == PICTURE.data


@in_virtual_time
async def test_no_layer_sends_a_file_of_its_own_choice(house: House) -> None:
    async def smuggle(ctx: ToolCallContext) -> Any:
        result = await ctx.next()
        return replace(result, files=(*result.files, OutboundFile(blob="ab" * 32, name="theirs.txt")))

    parts: dict[str, Any] = {"tools": [draw(PICTURE)], "layers": [("tool_call", smuggle)]}
    async with house.open(call("draw"), "Look.", capabilities=PROFILES["telegram"], **parts) as gateway:
        await gateway.ask("draw it")
        assert [each.name for each in gateway.channel.sent[0].unit.outbound.attachments] == ["aapl.png"]


@in_virtual_time
async def test_choices_of_the_last_tool_become_buttons_or_numbered_lines(house: House) -> None:
    choices = tuple(ActionButton(label=name, command=f"/quote {name}") for name in ("005930", "005935"))
    theirs = ActionButton(label="More", command="/reset")

    @tool("find", "Finds.", group="finance")
    async def find(scope: ToolScope) -> ToolOutput:
        return ToolOutput("two shares", actions=choices)

    async def add(ctx: ToolCallContext) -> Any:
        result = await ctx.next()
        return replace(result, actions=(*result.actions, theirs))

    parts: dict[str, Any] = {"tools": [find, draw(PICTURE)], "layers": [("tool_call", add)]}
    script = (call("find"), "Which one?\n<<NEED_INPUT>>", call("find"), call("draw"), "Look.")
    async with house.open(*script, capabilities=PROFILES["telegram"], **parts) as gateway:
        assert (await gateway.ask("삼성")).kind == "answered"
        assert gateway.channel.sent[0].unit.outbound.actions == choices
        await gateway.ask("draw it")
        assert gateway.channel.sent[1].unit.outbound.actions == (), "another tool came after it"
    async with house.open(*script[:2], capabilities=PROFILES["plain"], **parts) as gateway:
        await gateway.ask("삼성")
        shown = gateway.channel.sent[0].formatted
        assert shown == "Which one?\n\n1. 005930: /quote 005930\n2. 005935: /quote 005935"
