"""Buttons of approval cards, and somebody who presses them."""

from typing import Any

from msgspec import Struct
from tests.walks.house import Gateway

from finclaw.kernel.envelope import ActionButton, Inbound, Sender
from finclaw.kernel.port import Tool
from finclaw.testing import call, reply
from finclaw.testing.channel import PROFILES, Sent
from finclaw.tools.define import tool

TELEGRAM = PROFILES["telegram"]
BUY = reply(call("broker__order", {"symbol": "AAPL"}))


class Order(Struct):
    symbol: str


class Broker:
    def __init__(self) -> None:
        self.orders: list[str] = []

    @property
    def tool(self) -> Tool:
        return self.make_tool(moves_money=True)

    def make_tool(self, *, moves_money: bool) -> Tool:
        @tool("broker__order", "Buys.", transactional=moves_money, parallel_safe=not moves_money)
        async def order(args: Order) -> str:
            self.orders.append(args.symbol)
            return "bought"

        return order


def buttons(sent: Sent) -> tuple[ActionButton, ...]:
    return sent.unit.outbound.actions


async def press(gateway: Gateway, card: Sent, which: int, sender: str = "ada", **fields: Any) -> str:
    """Return the reply to the button press."""
    pressed = Inbound(
        text=buttons(card)[which].command,
        kind="action",
        channel="memory",
        target=card.platform_id,
        sender=Sender(sender),
        **fields,
    )
    outcome = await gateway.outcome(await gateway.channel.deliver(pressed))
    await gateway.app.idle()
    return outcome.reply or ""
