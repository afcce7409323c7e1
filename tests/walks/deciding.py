"""Approvals in a whole gateway, in few words."""

from typing import Any

from tests.walks.house import Gateway

from finclaw.approvals.action import Action
from finclaw.approvals.people import PersonSettings
from finclaw.kernel.approval import Approval
from finclaw.kernel.envelope import ChatType, Inbound, Sender
from finclaw.sessions.session_key import session_key

MINA = PersonSettings(name="Mina", known_as=("memory:local:mina",), roles=("approver",))


def wrote(text: str, sender: str | Sender = "mina", *, conversation: str = "room", **more: Any) -> Inbound:
    chat_type: ChatType = "group" if conversation == "room" else "direct"
    who = Sender(sender) if isinstance(sender, str) else sender
    fields: dict[str, Any] = {"channel": "memory", "chat_type": chat_type, "mentions_us": True, **more}
    return Inbound(text=text, sender=who, conversation=conversation, **fields)


async def asked(gateway: Gateway, inbound: Inbound, *, call: str = "c-1", money: bool = True, **more: Any) -> Approval:
    """What the agent does when a tool needs a person."""
    return await gateway.app.consents.ask(
        Action(
            tool="broker__order",
            args=more.get("args", {"symbol": "AAPL", "quantity": 10}),
            inbound=inbound,
            session=session_key(gateway.app.settings.agent.name, inbound),
            inbound_id="m-1",
            turn_id="t-1",
            call_id=call,
            moves_money=money,
        )
    )


async def state(gateway: Gateway, approval: Approval) -> str:
    found = await gateway.app.approval(approval.id)
    assert found is not None
    return found.state
