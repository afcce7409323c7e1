"""Observers hear every change of an approval, in order, with the ids of the question."""

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec import Struct
from tests.walks.deciding import MINA, asked, wrote
from tests.walks.house import Gateway, House, crash, in_virtual_time
from tests.walks.tools import Desk

from finclaw.kernel.event import ApprovalChanged
from finclaw.kernel.port import Tool, ToolOutput, ToolScope
from finclaw.testing import call, reply
from finclaw.tools.define import tool

pytestmark = pytest.mark.spec("DX-22", "DX-43")

ORDER = reply(call("order", {"text": "10 AAPL"}))


def changes(gateway: Gateway) -> list[ApprovalChanged]:
    return [event for event in gateway.events if isinstance(event, ApprovalChanged)]


def told(gateway: Gateway) -> list[tuple[str, str]]:
    return [(event.change, event.by) for event in changes(gateway)]


@in_virtual_time
async def test_asked_approved_and_run(house: House) -> None:
    tools = [Desk().tool("order", transactional=True)]
    async with house.open(ORDER, "Done.", tools=tools, consent=None) as gateway:
        asking = await gateway.ask("buy 10 AAPL")
        (waiting,) = await gateway.app.approvals()
        await gateway.ask(f"/approve {waiting.id}")
        running, asked_in = await gateway.app.turns(2)
        me = waiting.asked_by
        assert told(gateway) == [("asked", me), ("approved", me), ("run", running.turn_id)]
        assert asked_in.turn_id == asking.turn_id
        for event in changes(gateway):
            assert (event.agent, event.session, event.turn_id) == ("main", waiting.session, asking.turn_id)
            assert (event.approval_id, event.tool, event.call_id) == (waiting.id, "order", waiting.call_id)
            assert event.inbound_id == waiting.inbound_id
        names = [event.name for event in gateway.events]
        assert names.index("tool:policy:verdict") < names.index("approval:change") < names.index("tool:execute:end")


@in_virtual_time
async def test_denied_reminded_expired_and_notified(house: House) -> None:
    async with house.open(people=[MINA]) as gateway:
        await gateway.outcome(await gateway.channel.deliver(wrote("/whoami", "mina", conversation="mina")))
        denied = await asked(gateway, wrote("buy", "bob"))
        await house.clock.sleep(1)
        await gateway.ask(f"/deny {denied.id} no", sender="mina")
        await asked(gateway, wrote("buy", "bob"), call="2")
        await house.clock.sleep(301)
        bob = "memory:local:bob"
        assert told(gateway) == [
            *(("asked", bob), ("notified", "Mina"), ("denied", "memory:local:mina")),
            *(("asked", bob), ("notified", "Mina"), ("reminded", ""), ("expired", "")),
        ]


@in_virtual_time
async def test_revoked(house: House) -> None:
    async with house.open("ok") as gateway:
        approval = await asked(gateway, wrote("water", "ada", conversation="ada"), money=False)
        for line in (f"/approve {approval.id} always", f"/grants revoke {approval.id}"):
            await gateway.outcome(await gateway.channel.deliver(wrote(line, "ada", conversation="ada")))
        assert [event for event in told(gateway) if event[0] == "revoked"] == [("revoked", "memory:local:ada")]


@in_virtual_time
async def test_what_was_refused_is_no_change(house: House) -> None:
    async with house.open() as gateway:
        approval = await asked(gateway, wrote("buy", "ada", conversation="ada"))
        for line in (f"/approve {approval.id}", f"/grants revoke {approval.id}", f"/deny {approval.id[:-1]}"):
            await gateway.outcome(await gateway.channel.deliver(wrote(line, "eve", conversation="eve")))
        assert [change for change, _ in told(gateway)] == ["asked"]


class Prices:
    """A tool whose price moves between the card and the yes."""

    def __init__(self) -> None:
        self.price = 100

    def tool(self) -> Tool:
        class Order(Struct):
            text: str = ""

        async def quote(args: Mapping[str, Any], scope: ToolScope) -> Mapping[str, Any]:
            return {"AAPL": str(self.price)}

        @tool("order", "Buys.", group="finance", transactional=True, quote=quote)
        async def order(args: Order, scope: ToolScope) -> ToolOutput:
            return ToolOutput("bought")

        return order


@in_virtual_time
async def test_a_price_that_moved_is_told_before_it_is_asked_for_again(house: House) -> None:
    prices = Prices()
    async with house.open(ORDER, tools=[prices.tool()], consent=None) as gateway:
        await gateway.ask("buy 10 AAPL")
        (first,) = await gateway.app.approvals()
        prices.price = 120
        await gateway.ask(f"/approve {first.id}")
        (second,) = await gateway.app.approvals()
        assert [(event.approval_id, event.change) for event in changes(gateway)] == [
            *((first.id, "asked"), (first.id, "approved"), (first.id, "drifted")),
            (second.id, "asked"),
        ]


@in_virtual_time
async def test_a_turn_taken_up_again_asks_nothing_anew(house: House) -> None:
    parts: dict[str, Any] = {"tools": [Desk().tool("order", transactional=True)], "consent": None}
    accepted = await crash(house, "tools:ended", ORDER, **parts)
    async with house.open(**parts) as gateway:
        await gateway.outcome(accepted)
        assert told(gateway) == [], "it was told by the process that died"
        assert len(await gateway.app.approvals()) == 1
