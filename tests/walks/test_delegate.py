"""Delegation: a task gets a turn of its own, with fewer tools and steps, and its result is used exactly once."""

import asyncio

import pytest
from tests.walks.house import House, crash, in_virtual_time, until
from tests.walks.tools import Desk, hang

from finclaw.agent.settings import AgentSettings
from finclaw.builtins.delegate import NAME
from finclaw.kernel.chunk import ModelRequest
from finclaw.kernel.event import StepStarted
from finclaw.testing import Reply, call, reply

DELEGATING = AgentSettings(delegate=True)


def boss(request: ModelRequest) -> Reply:
    """Delegates once; the helper looks once; both then say what they know."""
    asked = next(message.text for message in reversed(request.messages) if message.role == "user")
    results = [result.content for message in request.messages for result in message.tool_results]
    if results:
        return reply(f"I know: {results[-1]}")
    if asked == "find out":
        return reply(call("look", {"text": "it"}))
    return reply(call(NAME, {"task": "find out", "tools": ["look"]}))


@pytest.mark.spec("LN-01", "R-14")
@in_virtual_time
async def test_a_task_runs_in_a_session_of_its_own_with_fewer_tools(house: House) -> None:
    desk = Desk()
    tools = [desk.tool("look"), desk.tool("other"), desk.tool("order", transactional=True)]
    async with house.open(boss, tools=tools, agent=DELEGATING) as gateway:
        outcome = await gateway.ask("please")
        assert outcome.reply == "I know: I know: look: it"
        assert gateway.said == [outcome.reply], "what the helper said is for the one who delegated"
        helper = next(request for request in gateway.provider.requests if request.messages[0].text == "find out")
        assert [spec.name for spec in helper.tools] == ["look"]
        child, parent = await gateway.app.turns(9)
        assert (parent.status, child.status) == ("completed", "completed")
        assert parent.session != child.session
        assert ":subagent:" in child.session


@pytest.mark.parametrize("wanted", [["order"], [NAME], ["nothing"]])
@in_virtual_time
async def test_what_moves_money_or_delegates_again_is_not_delegated(house: House, wanted: list[str]) -> None:
    desk = Desk()
    tools = [desk.tool("order", transactional=True)]
    script = (reply(call(NAME, {"task": "find out", "tools": wanted})), "I cannot.")
    async with house.open(*script, tools=tools, agent=DELEGATING) as gateway:
        await gateway.ask("please")
        assert gateway.results[0].status == "error"
        assert "cannot be delegated" in gateway.results[0].content


@in_virtual_time
async def test_after_a_crash_the_task_is_not_done_again(house: House) -> None:
    desk = Desk()
    tools = [desk.tool("look")]
    await crash(house, "tools:ended", boss, n=2, tools=tools, agent=DELEGATING)
    assert desk.runs == [("look", "it")]
    async with house.open(boss, tools=tools, agent=DELEGATING) as gateway:
        await gateway.app.idle()
        assert desk.runs == [("look", "it")], "the helper had finished; its result is taken from what was recorded"
        assert gateway.said == ["I know: I know: look: it"]


@in_virtual_time
async def test_a_helper_that_a_stop_cut_off_goes_on_and_its_parent_gets_the_result(house: House) -> None:
    desk = Desk()
    async with house.open(boss, tools=[desk.tool("look", hang)], agent=DELEGATING) as gateway:
        await gateway.channel.write("please")
        await until(lambda: desk.runs == [("look", "it")])
    async with house.open(boss, tools=[desk.tool("look")], agent=DELEGATING) as gateway:
        await gateway.app.idle()
        assert gateway.said == ["I know: I know: look: it"]
        assert len(await gateway.app.turns(9)) == 2


@in_virtual_time
async def test_stopping_the_parent_stops_the_helper(house: House) -> None:
    desk = Desk()
    async with house.open(boss, tools=[desk.tool("look", hang)], agent=DELEGATING) as gateway:
        accepted = await gateway.channel.write("please")
        await until(lambda: desk.runs == [("look", "it")])
        gateway.app.stop_message(accepted.id)
        assert (await gateway.outcome(accepted)).kind == "stopped"
        await gateway.app.idle()
        assert desk.cancelled == ["look"]
        assert {turn.status for turn in await gateway.app.turns(9)} == {"aborted"}


@in_virtual_time
async def test_helpers_have_a_pool_of_their_own_so_nobody_waits_for_himself(house: House) -> None:
    """More parents than seats for helpers: all get through."""
    desk = Desk()
    async with house.open(boss, tools=[desk.tool("look")], agent=DELEGATING) as gateway:
        asked = [await gateway.channel.write("please", conversation=f"c{n}") for n in range(30)]
        outcomes = await asyncio.gather(*(gateway.outcome(each) for each in asked))
        assert {outcome.kind for outcome in outcomes} == {"answered"}
        assert sum(isinstance(event, StepStarted) for event in gateway.events) == 120


@in_virtual_time
async def test_without_the_setting_there_is_no_such_tool(house: House) -> None:
    async with house.open("hello") as gateway:
        await gateway.ask("hi")
        assert NAME not in [spec.name for spec in gateway.provider.requests[0].tools]
