"""The web as a channel: what is stored has arrived."""

import asyncio

import pytest
from tests.web.gateway import AT

from finclaw.channels.mailbox import MailboxChannel
from finclaw.kernel.envelope import Outbound
from finclaw.kernel.port import Accept, Channel
from finclaw.kernel.record import Accepted, OutboxItem


async def test_a_unit_has_arrived_as_soon_as_it_is_stored() -> None:
    channel: Channel = MailboxChannel("web")
    unit = OutboxItem(
        id="u1",
        session="s",
        inbound_id="i",
        turn_id=None,
        seq=0,
        channel="web",
        account="owner",
        conversation="main",
        outbound=Outbound(text="hi"),
        planned_at=AT,
    )
    assert (await channel.send(unit)).platform_id == "u1"
    assert channel.capabilities.idempotent
    assert channel.connected


async def test_it_receives_nothing_until_cancelled() -> None:
    async def never(_: object) -> Accepted:
        raise AssertionError("nothing comes in this way")

    accept: Accept = never
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(MailboxChannel("web").receive(accept), 0.05)
