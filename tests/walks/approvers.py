"""Approvers who are asked in a chat of their own: what they read, and what becomes of it."""

from tests.walks.deciding import wrote
from tests.walks.house import Gateway, House


async def met(gateway: Gateway, *senders: str) -> None:
    """They have written to us once, each in a chat of their own."""
    for sender in senders:
        await gateway.outcome(await gateway.channel.deliver(wrote("/whoami", sender, conversation=sender)))
    await gateway.app.idle()
    gateway.channel.sent.clear()


def read(gateway: Gateway, who: str) -> list[str]:
    return [sent.text for sent in gateway.channel.sent if sent.unit.conversation == who]


async def settled(house: House, gateway: Gateway) -> None:
    """Until the watch has looked at what was asked for, and everything is sent."""
    await house.clock.sleep(1)
    await gateway.app.idle()
