"""A model that goes in circles: warned, refused, and in the end stopped, with the reason told to everybody."""

import pytest
from tests.walks.house import House, in_virtual_time
from tests.walks.tools import Desk

from finclaw.agent.settings import AgentSettings
from finclaw.kernel.chunk import ModelRequest
from finclaw.kernel.event import ToolEndedEvent, ToolLooped, ToolStartedEvent
from finclaw.kernel.port import ToolScope
from finclaw.testing import Reply, call, reply

LONG = AgentSettings(max_steps=30)


def stubborn(request: ModelRequest) -> Reply:
    """The same wish whatever it is told."""
    return reply(call("look", {"text": "x"}, id=f"c{len(request.messages)}"))


@pytest.mark.spec("LD-01", "LD-02", "LD-03", "DX-30", "E-23", "V-08")
@in_virtual_time
async def test_three_are_warned_five_refused_and_eight_end_the_turn(house: House) -> None:
    desk = Desk()
    async with house.open(stubborn, tools=[desk.tool("look")], agent=LONG) as gateway:
        outcome = await gateway.ask("go")
        assert outcome.kind == "failed"
        assert "look" in outcome.reason
        assert outcome.reply is not None
        assert "same thing" in outcome.reply
        assert len(desk.runs) == 4
        looped = [(event.repeats, event.action) for event in gateway.events if isinstance(event, ToolLooped)]
        assert looped == [(3, "warn"), (4, "warn"), (5, "refuse"), (6, "refuse"), (7, "refuse"), (8, "end")]
        statuses = [result.status for result in gateway.results]
        assert statuses == ["ok"] * 4 + ["denied"] * 3
        assert "Loop guard" not in gateway.results[1].content
        assert "Loop guard" in gateway.results[2].content
        starts = [event.call_id for event in gateway.events if isinstance(event, ToolStartedEvent)]
        ends = [event.call_id for event in gateway.events if isinstance(event, ToolEndedEvent)]
        assert starts == ends, "also the refused ones and the last one have their end"


@pytest.mark.spec("DX-30")
@in_virtual_time
async def test_ping_pong_is_a_loop_too(house: House) -> None:
    def ping_pong(request: ModelRequest) -> Reply:
        turn = len(request.messages) // 2
        return reply(call("ping" if turn % 2 else "pong", id=f"c{turn}"))

    desk = Desk()
    async with house.open(ping_pong, tools=[desk.tool("ping"), desk.tool("pong")], agent=LONG) as gateway:
        assert (await gateway.ask("go")).kind == "failed"
        assert len(desk.runs) == 8


@pytest.mark.spec("DX-30", "LD-02")
@in_virtual_time
async def test_five_quotes_for_five_tickers_are_no_loop(house: House) -> None:
    desk = Desk()
    tickers = [call("look", {"text": ticker}) for ticker in ("AAPL", "MSFT", "NVDA", "005930", "TSLA")]
    async with house.open(reply(*tickers), "done", tools=[desk.tool("look")]) as gateway:
        assert (await gateway.ask("go")).reply == "done"
        assert not [event for event in gateway.events if isinstance(event, ToolLooped)]
        assert len(desk.runs) == 5


@in_virtual_time
async def test_a_poll_whose_answer_changes_is_no_loop(house: House) -> None:
    answers = iter(range(99))

    async def count(text: str, scope: ToolScope) -> str:
        return str(next(answers))

    def poll(request: ModelRequest) -> Reply:
        done = len(request.messages) > 20
        return reply("done") if done else reply(call("look", id=f"c{len(request.messages)}"))

    async with house.open(poll, tools=[Desk().tool("look", count)], agent=LONG) as gateway:
        assert (await gateway.ask("go")).reply == "done"


@in_virtual_time
async def test_eight_equal_calls_at_once_are_a_loop_before_the_first_result(house: House) -> None:
    desk = Desk()
    batch = reply(*(call("look", {"text": "x"}) for _ in range(8)))
    async with house.open(batch, "never", tools=[desk.tool("look")]) as gateway:
        assert (await gateway.ask("go")).kind == "failed"
        assert len(desk.runs) <= 4


@in_virtual_time
async def test_each_turn_begins_anew(house: House) -> None:
    desk = Desk()
    script = [line for _ in range(4) for line in (reply(call("look")), "ok")]
    async with house.open(*script, tools=[desk.tool("look")]) as gateway:
        for _ in range(4):
            await gateway.ask("go")
        assert len(desk.runs) == 4
        assert not [event for event in gateway.events if isinstance(event, ToolLooped)]
