"""Updates are on disk before Telegram is told so, by polling and by webhook."""

import asyncio
import logging

import aiohttp
import pytest
from tests.channels.telegram.desk import JUN, MINA, TEAM, Desk, Inbox, channel_at, in_virtual_time, receiving
from tests.web.half_open import ended, half_open

from finclaw.channels.telegram.options import make_webhook_secret
from finclaw.channels.telegram.webhook import SECRET_HEADER
from finclaw.errors import ChannelError, InboundConflict, StoreFailed
from finclaw.http_connections import cap_for_open_files
from finclaw.redaction import Secret

WEBHOOK = {"webhook": {"url": "https://bot.example/hook", "port": 0}}


@in_virtual_time
async def test_the_offset_moves_behind_what_is_on_disk(desk: Desk) -> None:
    channel, inbox = channel_at(desk.api, desk.clock), Inbox()
    inbox.failures = [StoreFailed("disk full"), StoreFailed("disk full")]
    for text in ("one", "two", "three"):
        desk.api.write(MINA, text)
    async with receiving(channel, inbox):
        await desk.api.until(lambda: not inbox.failures)
        assert (desk.api.unacknowledged, inbox.came) == (3, [])
        await desk.api.until(lambda: desk.api.unacknowledged == 0)
    assert [each.text for each in inbox.came] == ["one", "two", "three"]


@in_virtual_time
async def test_a_message_that_cannot_be_kept_does_not_keep_back_the_next(desk: Desk) -> None:
    channel, inbox = channel_at(desk.api, desk.clock), Inbox()
    inbox.failures = [InboundConflict("one id, two bodies")]
    desk.api.write(MINA, "one")
    desk.api.write(MINA, "two")
    async with receiving(channel, inbox):
        await desk.api.until(lambda: desk.api.unacknowledged == 0)
    assert [each.text for each in inbox.came] == ["two"]


@in_virtual_time
async def test_updates_that_are_given_again_keep_their_names(desk: Desk) -> None:
    channel, inbox = channel_at(desk.api, desk.clock), Inbox()
    desk.api.write(MINA, "one")
    desk.api.repeat(1)
    async with receiving(channel, inbox):
        first, again = await inbox.until(2)
    assert first == again


@in_virtual_time
async def test_a_poll_that_brings_updates_in_the_wrong_order_is_put_right(desk: Desk) -> None:
    channel, inbox = channel_at(desk.api, desk.clock), Inbox()
    desk.api.newest_first = True
    texts = [f"n={number}" for number in range(250)]
    for text in texts:
        desk.api.write(MINA, text)
    async with receiving(channel, inbox):
        await desk.api.until(lambda: desk.api.unacknowledged == 0)
    assert [each.text for each in inbox.came] == texts


@in_virtual_time
async def test_two_pollers_are_told_what_is_wrong(desk: Desk) -> None:
    first, second = channel_at(desk.api, desk.clock), channel_at(desk.api, desk.clock)
    lost = asyncio.create_task(first.receive(Inbox()))
    await desk.api.until(lambda: desk.api.calls["getUpdates"] == 1)
    async with receiving(second, Inbox()):
        with pytest.raises(
            ChannelError, match=r"another program receives the messages of this bot .*stop the other one"
        ):
            await lost
    await first.close()


@in_virtual_time
async def test_a_server_that_is_down_for_a_while_loses_nothing(desk: Desk) -> None:
    channel, inbox = channel_at(desk.api, desk.clock), Inbox()
    desk.api.disturb("broken", times=2, method="getMe")
    async with receiving(channel, inbox):
        await desk.api.until(lambda: desk.api.calls["getUpdates"] > 0)
        assert channel.connected
        port = int(desk.api.url.rpartition(":")[2])
        await desk.api.stop()
        await asyncio.sleep(60)
        assert not channel.connected
        await desk.api.start(port)
        desk.api.write(MINA, "one")
        await inbox.until(1)
        assert channel.connected


@in_virtual_time
async def test_a_wrong_token_is_said_plainly(desk: Desk) -> None:
    channel = channel_at(desk.api, desk.clock)
    desk.api.token = "1:other"
    for call in (channel.receive(Inbox()), channel.check()):
        with pytest.raises(ChannelError, match=r"does not know this bot token .*@BotFather: /mybots"):
            await call
    await channel.close()


# ── the webhook ─────────────────────────────────────────────────────────────────────────────────────────────────


@in_virtual_time
async def test_a_webhook_answers_when_the_update_is_on_disk(desk: Desk) -> None:
    channel, inbox = channel_at(desk.api, desk.clock, **WEBHOOK), Inbox()
    inbox.failures = [StoreFailed("disk full")]
    async with receiving(channel, inbox):
        await desk.api.until(lambda: bool(desk.api.webhook["url"]))
        desk.api.proxy = f"http://127.0.0.1:{channel.webhook_port}/hook"
        for text in ("one", "two"):
            desk.api.write(MINA, text)
        await desk.api.until(lambda: desk.api.unacknowledged == 0)
    assert [each.text for each in inbox.came] == ["one", "two"]
    assert desk.api.webhook["last_error_message"] == "Wrong response from the webhook: 503"
    assert desk.api.calls["getUpdates"] == 0


@in_virtual_time
async def test_a_webhook_takes_late_updates_as_they_come_and_loses_none(desk: Desk) -> None:
    """A call cannot wait for an earlier one: Telegram makes the next call when this one is answered."""
    channel, inbox = channel_at(desk.api, desk.clock, **WEBHOOK), Inbox()
    inbox.failures = [StoreFailed("disk full")]
    desk.api.newest_first = True
    async with receiving(channel, inbox):
        await desk.api.until(lambda: bool(desk.api.webhook["url"]))
        desk.api.proxy = f"http://127.0.0.1:{channel.webhook_port}/hook"
        for text in ("one", "two", "three"):
            desk.api.write(MINA, text)
        await desk.api.until(lambda: desk.api.unacknowledged == 0)
    assert [each.text for each in inbox.came] == ["three", "two", "one"]


@in_virtual_time
async def test_a_webhook_refuses_whoever_lacks_the_secret(desk: Desk) -> None:
    channel, inbox = channel_at(desk.api, desk.clock, **WEBHOOK), Inbox()
    update = {"update_id": 1, **desk.api.world.write(MINA, "/approve all")}
    async with receiving(channel, inbox), aiohttp.ClientSession() as stranger:
        await desk.api.until(lambda: bool(desk.api.webhook["url"]))
        url = f"http://127.0.0.1:{channel.webhook_port}/hook"
        for headers in ({}, {SECRET_HEADER: "guess"}, {SECRET_HEADER: "비밀"}):
            async with stranger.post(url, json=update, headers=headers) as answer:
                assert answer.status == 403
    assert inbox.came == []


@in_virtual_time
async def test_half_open_calls_of_a_webhook_are_few_and_short(desk: Desk) -> None:
    channel, inbox, most = channel_at(desk.api, desk.clock, **WEBHOOK), Inbox(), cap_for_open_files() // 4
    async with receiving(channel, inbox):
        await desk.api.until(lambda: bool(desk.api.webhook["url"]))
        assert channel.webhook_port is not None
        async with half_open(channel.webhook_port, most + 10) as readers:
            for reader in readers[:10]:
                await ended(reader)
            desk.api.proxy = f"http://127.0.0.1:{channel.webhook_port}/hook"
            desk.api.write(MINA, "one")
            await inbox.until(1)
            for reader in readers:
                await ended(reader)
            desk.api.write(MINA, "two")
            await inbox.until(2)


@pytest.mark.parametrize(
    ("secret", "more", "body", "status"),
    [
        (b"\xff\xfe\x80", "", b"{}", b"403"),
        (b"\xed\x95", "", b"{}", b"403"),
        (None, "", b"[" * 100_000, b"400"),
        (None, "", b'{"a":' * 3_000 + b"1" + b"}" * 3_000, b"400"),
        (None, "", b'{"update_id": 1' + b"1" * 10_000 + b"}", b"400"),
        (None, "", b"\xff\xfe", b"400"),
        (None, "Content-Encoding: gzip\r\n", b"no gzip", b"400"),
        (None, "Transfer-Encoding: chunked\r\n", b"zz\r\n", b"400"),
    ],
)
@in_virtual_time
async def test_a_malformed_call_of_a_webhook_is_refused_without_a_traceback(
    desk: Desk, caplog: pytest.LogCaptureFixture, secret: bytes | None, more: str, body: bytes, status: bytes
) -> None:
    channel, inbox = channel_at(desk.api, desk.clock, **WEBHOOK), Inbox()
    async with receiving(channel, inbox):
        await desk.api.until(lambda: bool(desk.api.webhook["url"]))
        reader, writer = await asyncio.open_connection("127.0.0.1", channel.webhook_port)
        own = make_webhook_secret(Secret(desk.api.token)).reveal().encode()
        length = "" if "chunked" in more else f"Content-Length: {len(body)}\r\n"
        head = f"POST /hook HTTP/1.1\r\nHost: x\r\n{more}{length}{SECRET_HEADER}: ".encode()
        writer.write(head + (own if secret is None else secret) + b"\r\n\r\n" + body)
        assert (await reader.readline()).split()[1] == status
        writer.close()
    assert not any(record.exc_info for record in caplog.records)


@in_virtual_time
async def test_polling_removes_a_webhook_that_is_left(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    desk.api.webhook["url"] = "https://old.example/hook"
    channel, inbox = channel_at(desk.api, desk.clock), Inbox()
    desk.api.write(MINA, "one")
    with caplog.at_level(logging.WARNING):
        async with receiving(channel, inbox):
            await inbox.until(1)
    assert "removing the webhook" in caplog.text


# ── what updates say of chats ───────────────────────────────────────────────────────────────────────────────────


@in_virtual_time
async def test_a_group_that_becomes_a_supergroup_stays_one_conversation(desk: Desk) -> None:
    channel, inbox = channel_at(desk.api, desk.clock), Inbox()
    new = -1_003_000_000_001
    desk.api.world.add_group(TEAM)
    async with receiving(channel, inbox):
        desk.api.write(TEAM, "before", user=JUN)
        desk.api.push(*desk.api.world.migrate(TEAM, new, user=JUN))
        desk.api.write(new, "behind", user=JUN)
        before, behind = await inbox.until(2)
    assert (before.conversation, behind.conversation) == (str(TEAM), str(TEAM))
    assert before.message_id != behind.message_id


@pytest.mark.parametrize(("mode", "words"), [({}, "come by polling"), (WEBHOOK, "is not set, and the gateway sets")])
@pytest.mark.parametrize("privacy", [True, False])
@in_virtual_time
async def test_the_check_says_what_it_found(
    desk: Desk, mode: dict[str, dict[str, str]], words: str, privacy: bool
) -> None:
    desk.api.world.me["can_read_all_group_messages"] = not privacy
    desk.api.write(MINA, "waits")
    channel = channel_at(desk.api, desk.clock, **mode)
    said = await channel.check()
    await channel.close()
    assert said.startswith("the token is that of @finclaw_bot; ")
    assert words in said
    assert "updates that wait for the gateway: 1" in said
    assert ("privacy mode is on" in said, "Group Privacy" in said) == (privacy, privacy)
