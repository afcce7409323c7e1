"""The contract of the Channel port: a platform's limits are kept, and what it cannot do is refused, not lost."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.ports import nouns
from tests.support.telegram import BotApi

from finclaw.channels.mailbox import MailboxChannel
from finclaw.delivery.format import RESENT_MARK
from finclaw.delivery.visible import make_visible
from finclaw.errors import AttachmentRefused, SendRefused
from finclaw.kernel.envelope import Attachment, AttachmentKind, Capabilities, Inbound, InboundKind, Outbound, Sender
from finclaw.kernel.port import Channel
from finclaw.kernel.record import Accepted, OutboxItem
from finclaw.testing import FakeClock, MemoryChannel
from finclaw.testing.channel import PROFILES
from finclaw.text import text_length

KINDS: tuple[AttachmentKind, ...] = ("image", "audio", "video", "file")
WIDE = "가나다 🙂🇰🇷 abc\n"
"""Characters of one to four bytes, and of one and two UTF-16 units."""


def make(name: str) -> Channel:
    if name == "mailbox":
        return MailboxChannel("mailbox")
    return MemoryChannel(FakeClock(), name=name, capabilities=PROFILES[name])


def unit(text: str, number: int = 0) -> OutboxItem:
    return replace(nouns.unit(text, number), conversation="42")


@asynccontextmanager
async def serve_telegram() -> AsyncGenerator[Channel]:
    from tests.ports.served_telegram import ServedTelegram

    async with BotApi(has_limits=False) as api:
        api.world.write(42, "hi")
        channel = ServedTelegram(api)
        yield channel
        await channel.close()


@pytest.fixture(params=[*PROFILES, "mailbox", "telegram on a server"])
async def channel(request: pytest.FixtureRequest) -> AsyncGenerator[Channel]:
    if request.param != "telegram on a server":
        yield make(str(request.param))
        return
    async with serve_telegram() as served:
        yield served


def telegram_server(channel: Channel) -> BotApi:
    """The server beside the real channel of Telegram, the only one that has one."""
    api = getattr(channel, "api", None)
    assert isinstance(api, BotApi)
    return api


def texts_in(channel: Channel) -> list[str]:
    """What a person can read now."""
    if isinstance(channel, MemoryChannel):
        return [each.text for each in channel.sent]
    return [each.text for each in telegram_server(channel).shown_in(42)]


def put_file(channel: Channel, data: bytes) -> None:
    (channel.files if isinstance(channel, MemoryChannel) else telegram_server(channel).world.files)["f"] = data


def test_the_profiles_are_those_of_the_platforms_that_there_will_be():
    assert list(PROFILES) == ["telegram", "discord", "slack", "matrix", "web", "plain"]
    assert {each.length_unit for each in PROFILES.values()} == {"characters", "utf16", "bytes"}


async def test_what_is_sent_has_an_id_of_its_own(channel: Channel):
    first, second = await channel.send(unit("one", 1)), await channel.send(unit("two", 2))
    assert first.platform_id
    assert first.platform_id != second.platform_id


async def test_a_repeat_is_recognised_where_the_channel_says_so(channel: Channel):
    first, again = await channel.send(unit("one")), await channel.send(unit("one"))
    assert (first == again) == channel.capabilities.idempotent


@pytest.mark.spec("F-06")
@pytest.mark.parametrize("name", [*PROFILES, "mailbox"])
@given(text=st.text(st.sampled_from(WIDE), max_size=300).map(lambda few: few * 50))
def test_every_part_of_a_long_text_is_taken_as_the_platform_counts(name: str, text: str):
    channel = make(name)
    parts = make_visible(Outbound(text=text), channel.capabilities).parts
    for part in parts:
        asyncio.run(channel.send(unit(RESENT_MARK + part.formatted)))
    assert "".join("".join(each.text for each in parts).split()) == "".join(text.split())


async def test_one_unit_more_than_the_limit_is_refused(channel: Channel):
    capabilities = channel.capabilities
    if isinstance(channel, MailboxChannel):
        return
    widest = "🙂" * (capabilities.max_length // text_length("🙂", capabilities.length_unit))
    await channel.send(unit(widest, 1))
    with pytest.raises(SendRefused, match="longer than"):
        await channel.send(unit(widest + "🙂", 2))


async def test_an_edit_replaces_what_was_sent_or_is_refused(channel: Channel):
    receipt = await channel.send(unit("before"))
    if not channel.capabilities.edits:
        with pytest.raises(SendRefused, match=f"channel {channel.name} cannot change"):
            await channel.edit(receipt.platform_id, unit("after"))
        return
    for _ in range(2):
        await channel.edit(receipt.platform_id, unit("after"))
    assert texts_in(channel) == ["after"]
    with pytest.raises(SendRefused):
        await channel.edit("nothing", unit("after"))


async def test_a_deletion_takes_back_what_was_sent_or_is_refused(channel: Channel):
    receipt = await channel.send(unit("before"))
    if not channel.capabilities.deletes:
        with pytest.raises(SendRefused, match="cannot take back"):
            await channel.delete(receipt.platform_id)
        return
    for _ in range(2):
        await channel.delete(receipt.platform_id)
    assert texts_in(channel) == []


@pytest.mark.parametrize("kind", KINDS)
async def test_a_file_is_fetched_within_its_limit_or_refused(channel: Channel, kind: AttachmentKind):
    file, most = Attachment(id="f", kind=kind), channel.capabilities.media.get(kind)
    if most is None:
        with pytest.raises(AttachmentRefused, match="carries no files"):
            await channel.fetch(file)
        return
    put_file(channel, b"bytes")
    assert await channel.fetch(file) == b"bytes"
    with pytest.raises(AttachmentRefused, match="larger than"):
        await channel.fetch(Attachment(id="f", kind=kind, size=most + 1))
    with pytest.raises(AttachmentRefused, match="no file"):
        await channel.fetch(Attachment(id="elsewhere", kind=kind))


async def test_signs_are_harmless_everywhere(channel: Channel):
    asked = Inbound(text="hi", channel=channel.name)
    await channel.react(asked, "👀")
    await channel.react(asked, None)
    await channel.typing(asked, True)
    await channel.close()
    await channel.close()


async def test_it_receives_until_it_is_cancelled(channel: Channel):
    async def never(_: Inbound) -> Accepted:
        raise AssertionError("nobody has written")

    receiving = asyncio.create_task(channel.receive(never))
    await asyncio.sleep(0)
    if hasattr(channel, "api"):
        assert not channel.connected
        api = telegram_server(channel)
        await api.until(lambda: api.calls["getUpdates"] == 1)
    assert channel.connected
    receiving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await receiving


@pytest.mark.parametrize("name", list(PROFILES))
@pytest.mark.parametrize("kind", ["message", "edit", "delete", "reaction", "action"])
async def test_every_kind_of_inbound_comes_in_with_its_target(name: str, kind: InboundKind):
    channel, came = MemoryChannel(FakeClock(), name=name, capabilities=PROFILES[name]), list[Inbound]()

    async def accept(inbound: Inbound) -> Accepted:
        came.append(inbound)
        return Accepted(id="m", session="s", ticket=1, inbound=inbound, accepted_at=datetime.now(UTC))

    receiving = asyncio.create_task(channel.receive(accept))
    await channel.write("words", kind=kind, target="7")
    assert came == [
        Inbound(text="words", channel=name, sender=Sender("ada"), kind=kind, target="7", message_id=came[0].message_id)
    ]
    receiving.cancel()


def test_a_plain_channel_needs_three_things_only():
    """What a class of one's own must bring; everything else is inherited."""
    own = {"name", "capabilities", "receive", "send"}
    assert own <= {*vars(MailboxChannel), *vars(MailboxChannel("x"))}
    assert not {"edit", "delete", "fetch", "react", "typing", "close"} & set(vars(MailboxChannel))
    assert MailboxChannel("x").capabilities == Capabilities(max_length=100_000, markup="source", idempotent=True)
