"""Tools whose group is shown on demand: found before they are seen, and shown to all where nobody can search."""

import pytest
from tests.walks.house import House, in_virtual_time
from tests.walks.tools import Desk

from finclaw.agent.settings import AgentSettings
from finclaw.testing import call, reply

pytestmark = pytest.mark.spec("G-02", "G-08")

SEARCHING = AgentSettings(extensions=("tool-search",))


@in_virtual_time
async def test_what_is_on_demand_is_there_from_the_step_behind_its_search(house: House) -> None:
    desk = Desk()
    tools = [desk.tool("garden__water", group="custom"), desk.tool("look")]
    script = (reply(call("tools__search", {"query": "water the garden"})), reply(call("garden__water")), "Watered.")
    async with house.open(*script, tools=tools, agent=SEARCHING) as gateway:
        assert (await gateway.ask("water it")).reply == "Watered."
        offered = [{spec.name for spec in request.tools} for request in gateway.provider.requests]
    assert "look" in offered[0], "its group is always shown"
    assert ["garden__water" in names for names in offered] == [False, True, True]
    assert desk.runs == [("garden__water", "")]


@in_virtual_time
async def test_without_a_search_it_would_be_lost_and_is_shown(house: House) -> None:
    async with house.open("Hello.", tools=[Desk().tool("garden__water", group="custom")]) as gateway:
        await gateway.ask("hello")
        assert "garden__water" in {spec.name for spec in gateway.provider.requests[0].tools}


@in_virtual_time
async def test_calling_what_was_not_shown_runs_nothing(house: House) -> None:
    desk = Desk()
    script = (reply(call("garden__water")), "I cannot.")
    async with house.open(*script, tools=[desk.tool("garden__water", group="custom")], agent=SEARCHING) as gateway:
        await gateway.ask("water it")
    assert desk.runs == []
