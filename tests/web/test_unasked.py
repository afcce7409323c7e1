"""What the gateway tells unasked: marked in the live stream, and kept for readers who were away."""

from contextlib import aclosing

import pytest
from msgspec.structs import replace
from tests.web.conftest import Client
from tests.web.live_stream import accepted, take

from finclaw.kernel.event import MessageEnded
from finclaw.web.live import LiveStream

pytestmark = pytest.mark.spec("DX-22")


async def test_the_stream_says_whose_it_is_and_that_nobody_asked() -> None:
    live = LiveStream()
    for inbound_id, unasked in (("m-1", False), ("m-2", True)):
        live.observe(replace(accepted(inbound_id), session=f"s-{inbound_id}", unasked=unasked))
        live.observe(MessageEnded(inbound_id=inbound_id, session=f"s-{inbound_id}", outcome="command", reply="text"))
    async with aclosing(live.follow("owner", "main", live.beginning)) as events:
        seen = await take(events, 4)
    assert [(each.type, each.data["session"], each.data["unasked"]) for each in seen] == [
        ("accepted", "s-m-1", False),
        ("outcome", "s-m-1", False),
        ("accepted", "s-m-2", True),
        ("outcome", "s-m-2", True),
    ]


async def test_what_was_told_meanwhile(client: Client) -> None:
    client.gateway.remember("m-1", "main:web:owner:direct:main+owner", "owner")
    record = await client.gateway.wait("m-1", 0)
    assert record is not None
    client.gateway.told.append(record)
    assert await client.call("GET", "/api/v1/messages") == (200, {"items": [], "after": "owner-1"})
    status, body = await client.call("GET", "/api/v1/messages?conversation=desk&sender=kim&after=owner-0")
    assert (status, body["after"]) == (200, "owner/kim-1")
    assert isinstance(body["items"], list)
    assert [each["inbound_id"] for each in body["items"]] == ["m-1"]  # pyright: ignore[reportUnknownVariableType]


async def test_a_conversation_without_a_name(client: Client) -> None:
    assert "conversation" in await client.refused("GET", "/api/v1/messages?conversation=", 400)
