"""The log of a walk: structured, with the ids of its message and turn, and without secrets."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from tests.walks.house import House, crash, in_virtual_time, until

from finclaw.diagnostics.log import start_logging
from finclaw.errors import SendFailed
from finclaw.kernel.scope import TurnContext, TurnResult
from finclaw.pipeline.settings import PipelineSettings
from finclaw.redaction import Secret
from finclaw.testing import delay, reply

HIDDEN = "sk-hidden-in-a-walk"
log = logging.getLogger("finclaw.extension.test")


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    root = logging.getLogger("finclaw")
    before = (root.handlers[:], root.level, root.propagate)
    start_logging("debug", "json")
    stream = io.StringIO()
    handler = root.handlers[0]
    assert isinstance(handler, logging.StreamHandler)
    handler.setStream(stream)  # pyright: ignore[reportUnknownMemberType]
    yield stream
    root.handlers[:], root.level, root.propagate = before


def read(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


@pytest.mark.spec("P-60")
@in_virtual_time
async def test_every_line_of_a_walk_carries_its_ids(house: House, lines: io.StringIO) -> None:
    key = Secret(HIDDEN)

    async def talkative(ctx: TurnContext) -> TurnResult:
        log.info("thinking with %s", key, extra={"key": key})
        if ctx.input.text == "break":
            raise RuntimeError(f"{key} refused")
        return await ctx.next()

    async with house.open("one", layers=[("turn", talkative)]) as gateway:
        gateway.channel.fail_next(SendFailed("line busy"))
        good = await gateway.ask("hi", sender="ada")
        bad = await gateway.ask("break", sender="bob")
    told = read(lines)
    of_good = [line for line in told if line.get("turn") == good.turn_id]
    of_bad = [line for line in told if line.get("turn") == bad.turn_id]
    assert [line["text"] for line in of_good if line["level"] == "info"] == ["thinking with Secret(***)", "answered"]
    assert any("not sent (line busy)" in line["text"] for line in of_good)
    assert [line["text"] for line in of_bad] == [
        "thinking with Secret(***)",
        "a message failed in the pipeline",
        "failed",
    ]
    assert len({line["message"] for line in of_good}) == len({line["message"] for line in of_bad}) == 1
    assert {line["session"] for line in of_bad} == {"main:memory:local:direct:main+bob"}
    assert HIDDEN not in lines.getvalue()


@pytest.mark.spec("P-60")
@in_virtual_time
async def test_ids_do_not_stick_to_the_next_message(house: House, lines: io.StringIO) -> None:
    """Neither to a message that comes in with another's commit, nor to the house after a recovery."""

    async def talkative(ctx: Any) -> Any:
        log.info("before the road")
        return await ctx.next()

    settings = PipelineSettings(max_attempts=1)
    await crash(house, "model:ended", "x", pipeline=settings)
    async with house.open(reply(delay(1), "one"), "two", layers=[("message", talkative)], pipeline=settings) as gateway:
        log.info("the house is open")
        first = await gateway.channel.write("1")
        await until(lambda: gateway.provider.streaming == 1)
        await gateway.outcome(first)
        await gateway.ask("2")
    told = read(lines)
    assert [line.get("turn") for line in told if line["text"] == "before the road"] == [None, None]
    (opened,) = (line for line in told if line["text"] == "the house is open")
    assert "message" not in opened
    assert "turn" not in opened
