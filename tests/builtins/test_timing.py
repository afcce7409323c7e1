"""Timing: a line for every step, tool call and turn, and nothing of what was said."""

import json
import logging
from typing import Any

import pytest
from tests.builtins.extended import extended
from tests.walks.house import House, in_virtual_time
from tests.walks.tools import Desk

from finclaw.diagnostics.log import JsonLines
from finclaw.errors import Overloaded
from finclaw.kernel.scope import StepContext, StepResult
from finclaw.testing import call, delay, fails, reply


def told(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    own = [record for record in caplog.records if record.name == "finclaw.extension.timing"]
    return [json.loads(JsonLines().format(record)) for record in own]


@pytest.mark.spec("MW-31")
@in_virtual_time
async def test_every_step_tool_call_and_turn_is_timed(house: House, caplog: pytest.LogCaptureFixture) -> None:
    async def slowly(text: str, scope: Any) -> str:
        await house.clock.sleep(2)
        return "x" * 30

    caplog.set_level(logging.INFO)
    script = (reply(delay(1), call("look", {"text": "hush-argument"})), reply(delay(3), "hush-answer"))
    async with extended(house, "timing", *script, tools=[Desk().tool("look", slowly)]) as gateway:
        await gateway.ask("hush-question")
    lines = told(caplog)
    assert [(each["text"], round(each["ms"])) for each in lines] == [
        ("tool call", 2000),
        ("step", 3000),
        ("step", 3000),
        ("turn", 6000),
    ]
    tool_call, first, _, turn = lines
    assert (tool_call["tool"], tool_call["status"], tool_call["result_characters"]) == ("look", "ok", 30)
    assert (first["step"], first["stop"], first["tool_calls"], first["input_tokens"]) == (0, "tool_use", 1, 100)
    assert (turn["status"], turn["steps"], turn["output_tokens"]) == ("completed", 2, 40)
    assert "hush" not in json.dumps(lines)


@in_virtual_time
async def test_what_fails_is_timed_too(house: House, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with extended(house, "timing", fails(Overloaded("busy"))) as gateway:
        await gateway.ask("hi")
    assert [(each["text"], each["status"]) for each in told(caplog)] == [("step", "failed"), ("turn", "failed")]


@in_virtual_time
async def test_what_the_model_was_offered_is_counted_and_not_what_there_is(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    async def one_tool(ctx: StepContext) -> StepResult:
        ctx.tool_catalog = ctx.tool_catalog[:1]
        return await ctx.next()

    caplog.set_level(logging.INFO)
    async with extended(house, "timing", "hello", layers=[("step", one_tool)]) as gateway:
        await gateway.ask("hi")
    assert [each["tools_offered"] for each in told(caplog) if each["text"] == "step"] == [1]


@in_virtual_time
async def test_it_can_be_told_to_whisper(house: House, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with extended(house, "timing", "hello", settings={"level": "debug"}) as gateway:
        await gateway.ask("hi")
    assert told(caplog) == []
