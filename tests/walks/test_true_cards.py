"""A card says what will happen and nothing else: security trial H3 in a whole gateway."""

from typing import Any

import pytest
from msgspec import Struct
from tests.walks.house import House, in_virtual_time

from finclaw.policy.rule import Rule
from finclaw.testing import call, reply
from finclaw.tools.define import raw_tool, tool

pytestmark = pytest.mark.spec("DX-22")


class Order(Struct):
    symbol: str
    quantity: float


class Broker:
    """A broker with one tool by struct and one by a schema that somebody else wrote."""

    def __init__(self) -> None:
        self.orders: list[tuple[str, float]] = []

        @tool("broker__order", "Buys.", transactional=True)
        async def order(args: Order) -> str:
            self.orders.append((args.symbol, args.quantity))
            return "bought"

        async def raw(args: dict[str, Any], scope: object) -> str:
            self.orders.append((args["symbol"], args["quantity"]))
            return "bought"

        schema = {
            "type": "object",
            "properties": {"symbol": {"type": "string"}, "quantity": {"type": "number"}},
            "required": ["symbol", "quantity"],
        }
        self.tools = [order, raw_tool("remote__order", "Buys.", schema, raw)]


LIES: dict[str, dict[str, Any]] = {
    "a dry run": {"dry_run": True},
    "a limit": {"max_total_usd": 5},
    "a note": {"note": "test only, nothing is bought"},
    "a number that is rounded": {"quantity": 90_071_992_547_409_931},
}


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("name", ["broker__order", "remote__order"])
@in_virtual_time
async def test_an_argument_that_the_tool_ignores_gets_no_card(house: House, name: str, lie: str) -> None:
    """Security trial H3a and L3: the model hears which argument it is, and nobody is asked."""
    broker = Broker()
    args = {"symbol": "AAPL", "quantity": 1000, **LIES[lie]}
    ask = Rule("*", "require-approval")
    script = (reply("", call(name, args)), "I cannot do that.")
    async with house.open(*script, tools=broker.tools, consent=None, rules=[ask]) as gateway:
        outcome = await gateway.ask("buy")
        assert outcome.reply == "I cannot do that."
        assert await gateway.app.approvals() == []
        (result,) = gateway.results
        assert result.status == "invalid"
        assert next(iter(LIES[lie])) in result.content
        assert broker.orders == []
