"""What a person is told while a turn takes long: one line, in their language, and never after the answer."""

from typing import Any

import pytest
from msgspec import Struct
from tests.walks.house import House, in_virtual_time

from finclaw import ToolOutput, ToolScope, tool
from finclaw.kernel.envelope import Capabilities
from finclaw.pipeline.settings import PipelineSettings
from finclaw.testing import FakeClock, call, delay, reply, say

EDITS, BLOCKS = Capabilities(edits=True), Capabilities(blocks=True)


class Nothing(Struct):
    pass


def slow_tool(clock: FakeClock, seconds: float) -> Any:
    @tool("market__price_history", "Looks long.", group="finance", timeout=100)
    async def look(args: Nothing, scope: ToolScope) -> ToolOutput:
        await clock.sleep(seconds)
        return ToolOutput("looked")

    return look


@pytest.mark.parametrize(
    ("question", "line"),
    [("how?", "Still working: market price history …"), ("어때?", "아직 작업 중입니다: market price history …")],
)
@pytest.mark.parametrize("capabilities", [EDITS, BLOCKS], ids=["edits", "blocks"])
@in_virtual_time
async def test_after_twenty_seconds_one_line_says_what_is_done(
    house: House, capabilities: Capabilities, question: str, line: str
) -> None:
    script = [call("market__price_history", {}), "That is all."]
    async with house.open(*script, tools=[slow_tool(house.clock, 70)], capabilities=capabilities) as gateway:
        accepted = await gateway.channel.write(question)
        (first,) = await gateway.channel.until_sent(1)
        assert first.text == line
        assert 20 <= house.clock.monotonic() < 22
        outcome = await gateway.outcome(accepted)
        await gateway.app.idle()
        await house.clock.sleep(60)
        assert outcome.reply == "That is all."
        assert gateway.said == (["That is all."] if capabilities is EDITS else [line, "That is all."])


@in_virtual_time
async def test_whoever_sees_the_answer_grow_is_told_nothing(house: House) -> None:
    script = reply(*[say(f"Sentence {n} of many. ") for n in range(10)], pace=5)
    async with house.open(script, capabilities=EDITS) as gateway:
        await gateway.ask("how?")
        assert not any("Still working" in text for _, _, text in gateway.channel.edits)


@in_virtual_time
async def test_a_thinking_model_is_told_of_too_and_it_can_be_switched_off(house: House) -> None:
    script = reply(delay(50), say("Done."))
    async with house.open(script, script, capabilities=EDITS) as gateway:
        accepted = await gateway.channel.write("how?")
        (first,) = await gateway.channel.until_sent(1)
        assert first.text == "Still working on your answer …"
        await gateway.outcome(accepted)
    quiet = PipelineSettings(still_working_s=0)
    async with house.open(script, capabilities=EDITS, pipeline=quiet) as gateway:
        await gateway.ask("how?")
        assert len(gateway.channel.attempts) == 1
        assert gateway.channel.edits == []


@pytest.mark.parametrize("capabilities", [EDITS, BLOCKS], ids=["edits", "blocks"])
@pytest.mark.parametrize("wanted", [False, True])
@in_virtual_time
async def test_tools_are_named_only_where_that_is_wanted(
    house: House, capabilities: Capabilities, wanted: bool
) -> None:
    script = [call("market__price_history", {}), "That is all."]
    settings = PipelineSettings(tool_notes=wanted)
    tools = [slow_tool(house.clock, 5)]
    async with house.open(*script, tools=tools, capabilities=capabilities, pipeline=settings) as gateway:
        accepted = await gateway.channel.write("how?")
        outcome = await gateway.outcome(accepted)
        await gateway.app.idle()
        tried = [unit.outbound.text for unit in gateway.channel.attempts]
        assert ("Using market price history …" in tried) is wanted
        assert outcome.reply == gateway.said[-1] == "That is all."
        assert (await gateway.app.messages(accepted.session))[-1].text == "That is all."
