"""Messages that join a turn, and edits and deletions of messages: what several test modules write."""

import asyncio
from datetime import UTC, datetime
from typing import Any

from tests.walks.house import Gateway

from finclaw.kernel.port import ToolScope
from finclaw.kernel.record import Accepted
from finclaw.sessions.settings import QueueSettings, SessionSettings
from finclaw.testing import call, reply

STEER = SessionSettings(queue=QueueSettings(mode="steer"))
LOOK = reply(call("look", {"text": "AAPL"}, id="c1"))


async def slowly(text: str, scope: ToolScope) -> str:
    await asyncio.sleep(10)
    return f"looked at {text}"


async def write(gateway: Gateway, text: str, **fields: str) -> Accepted:
    accepted = await gateway.channel.write(text, message_id=text, **fields)
    await asyncio.sleep(1)
    return accepted


async def change(gateway: Gateway, kind: str, target: str, text: str = "", **fields: Any) -> Accepted:
    minute = len(gateway.provider.requests)
    at = datetime(2026, 1, 2, 3, minute, tzinfo=UTC) if kind == "edit" else None
    fields.setdefault("message_id", f"{kind} of {target}: {text}")
    return await gateway.channel.write(text, kind=kind, target=target, sent_at=at, **fields)
