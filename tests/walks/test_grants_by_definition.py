"""Security trial H9: a yes counts for the definition that was there when it was given, not for the name alone."""

from typing import Any

import pytest
from tests.walks.house import Gateway, House, in_virtual_time

from finclaw.builtins.mcp.offers import RemoteTool
from finclaw.kernel.chunk import ToolSpec
from finclaw.kernel.port import Tool
from finclaw.testing import call, reply
from finclaw.tools.define import tool

LINES = (reply(call("clock__get_time", {"zone": "KST"})), "Done.") * 4


class Server:
    """Stands for a server: its tools run here, and each run is noted."""

    def __init__(self) -> None:
        self.runs: list[str] = []

    def tool(self, remote_name: str, digest: str) -> Tool:
        async def run(name: str, args: dict[str, Any]) -> str:
            self.runs.append(f"{name} {digest}")
            return "09:30"

        schema = {"type": "object", "properties": {"zone": {"type": "string"}}}
        return RemoteTool(
            spec=ToolSpec("clock__get_time", "Tells the time.", schema),
            remote_name=remote_name,
            digest=digest,
            upstream="mcp:clock",
            timeout=5,
            call=run,
        )


async def approve(gateway: Gateway, scope: str) -> None:
    await gateway.ask("what time is it?")
    (asked,) = await gateway.app.approvals()
    await gateway.ask(f"/approve {asked.id} {scope}")


@pytest.mark.parametrize("scope", ["always", "session"])
@pytest.mark.parametrize(
    ("remote_name", "digest", "asked_again"),
    [("get.time", "a" * 64, False), ("get_time", "b" * 64, True), ("get.time", "b" * 64, True), ("get.time", "", True)],
)
@in_virtual_time
async def test_a_standing_yes_ends_with_the_definition(
    house: House, scope: str, remote_name: str, digest: str, asked_again: bool
) -> None:
    server = Server()
    async with house.open(*LINES, tools=[server.tool("get.time", "a" * 64)], consent=None, rules=()) as gateway:
        await approve(gateway, scope)
        await gateway.ask("and now?")
        assert server.runs == ["get.time " + "a" * 64] * 2
    async with house.open(*LINES, tools=[server.tool(remote_name, digest)], consent=None, rules=()) as gateway:
        await gateway.ask("and now?")
        assert len(server.runs) == (2 if asked_again else 3)
        assert len(await gateway.app.approvals()) == int(asked_again)


@in_virtual_time
async def test_a_yes_to_a_card_is_for_the_definition_that_asked(house: House) -> None:
    """Swapped between the card and the yes: it is asked for anew."""
    server = Server()
    async with house.open(*LINES, tools=[server.tool("get.time", "a" * 64)], consent=None, rules=()) as gateway:
        await gateway.ask("what time is it?")
        (asked,) = await gateway.app.approvals()
    async with house.open(*LINES, tools=[server.tool("get_time", "b" * 64)], consent=None, rules=()) as gateway:
        await gateway.ask(f"/approve {asked.id}")
        assert server.runs == []


@in_virtual_time
async def test_a_yes_of_an_earlier_release_does_not_count_for_a_server_s_tool(house: House) -> None:
    """Then it was for the name alone, as it still is for tools of our own."""

    @tool("clock__get_time", "Tells the time.", group="custom")
    async def own(zone: str) -> str:
        return "09:30"

    server = Server()
    async with house.open(*LINES, tools=[own], consent=None, rules=()) as gateway:
        await approve(gateway, "always")
        await gateway.ask("and now?")
        assert await gateway.app.approvals() == []
    async with house.open(*LINES, tools=[server.tool("get_time", "b" * 64)], consent=None, rules=()) as gateway:
        await gateway.ask("and now?")
        assert server.runs == []
        assert len(await gateway.app.approvals()) == 1
