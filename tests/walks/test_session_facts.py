"""Facts of a session in a running gateway: a calculation names those that earlier turns were told."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from msgspec import Struct
from tests.walks.house import House, in_virtual_time

from finclaw.kernel.fact import Fact
from finclaw.kernel.port import ToolOutput, ToolScope
from finclaw.testing import call, reply
from finclaw.tools.define import tool

AT = datetime(2026, 1, 2, tzinfo=UTC)
PRICE = Fact(subject="AAPL", field="price", value=Decimal("190.5"), as_of=AT, source="demo", currency="USD")


class Nothing(Struct):
    pass


def quote() -> Any:
    @tool("quote", "A price.", group="finance")
    async def run(args: Nothing, scope: ToolScope) -> ToolOutput:
        return ToolOutput("190.5", (PRICE,))

    return run


@in_virtual_time
async def test_a_calculation_names_a_price_that_an_earlier_turn_was_told(house: House) -> None:
    steps = (reply(call("quote", {})), reply("it is 190.5"))
    sums = (reply(call("calc__evaluate", {"expression": "190.5 * 3"})), reply("571.5"))
    async with house.open(*steps, *sums, *sums, tools=[quote()]) as gateway:
        await gateway.ask("price?", sender="ada")
        outcome = await gateway.ask("and three of them?", sender="ada")
        (result,) = outcome.facts
        assert (result.value, result.inputs) == (Decimal("571.5"), (PRICE.name,))
        stranger = await gateway.ask("three of them?", sender="eve", conversation="other")
        assert stranger.facts[0].inputs == (), "what another session was told is nobody else's"
