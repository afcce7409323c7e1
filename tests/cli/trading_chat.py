"""A chat with a gateway that has a broker, and an order that needs an approval."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct

from finclaw.app import App
from finclaw.approvals.settings import ApprovalSettings
from finclaw.channels.mailbox import MailboxChannel
from finclaw.composition.gateway import build
from finclaw.config.schema import Settings
from finclaw.kernel.approval import Approval
from finclaw.kernel.envelope import Inbound, Sender
from finclaw.kernel.extension import ExtensionApi
from finclaw.kernel.port import Clock, Provider, ToolOutput, ToolScope
from finclaw.testing.provider import call, reply
from finclaw.tools.define import tool
from finclaw.web.principal import CHANNEL


class Order(Struct):
    symbol: str


class Broker:
    name = "broker"

    def register(self, api: ExtensionApi) -> None:
        @tool("broker__order", "Buys.", group="finance", transactional=True)
        async def order(args: Order, _: ToolScope) -> ToolOutput:
            return ToolOutput(f"bought {args.symbol}")

        api.tools.register(order)


@asynccontextmanager
async def trading(
    state: Path, provider: Provider, clock: Clock | None = None, **approvals: object
) -> AsyncGenerator[App]:
    settings = Settings(state=state, approvals=ApprovalSettings(**approvals))  # pyright: ignore[reportArgumentType]
    channels, extensions = (MailboxChannel(CHANNEL),), (Broker(),)
    async with build(settings, channels=channels, provider=provider, extensions=extensions, clock=clock) as app:
        yield app


ORDER = reply(call("broker__order", {"symbol": "AAPL"}))


def kims(text: str, conversation: str) -> Inbound:
    """A message of somebody with an account of their own: a label of the owner's would be the owner."""
    return Inbound(text=text, channel=CHANNEL, account="kim", conversation=conversation, sender=Sender("kim"))


async def kim_wants_to_buy(app: App, text: str = "buy") -> Approval:
    """Somebody else, who may not decide, in a session of their own."""
    await app.accept(kims(text, "kim"))
    await app.idle()
    return (await app.approvals())[0]
