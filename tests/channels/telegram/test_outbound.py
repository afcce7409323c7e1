"""What the gateway says reaches a chat: as Telegram takes it, at its pace, and with every failure told apart."""

from typing import Any

import pytest
from tests.channels.telegram.desk import JUN, MINA, TEAM, Desk, Inbox, channel_at, in_virtual_time, item, receiving
from tests.support.telegram.rules import REACTIONS

from finclaw.channels.telegram.options import CAPABILITIES
from finclaw.errors import ConfigError, MarkupRefused, SendFailed, SendRefused, SendUnknown
from finclaw.kernel.envelope import ActionButton, Inbound, Outbound, OutboundFile
from finclaw.testing.channel import PROFILES

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1"
CHART = OutboundFile(blob="c", name="chart.png", mime="image/png", alt="Samsung over a year")
TABLE = OutboundFile(blob="t", name="rows.csv", mime="text/csv", alt="all rows")
FORUM = -1_002_000_000_001


def test_the_profile_for_tests_is_that_of_the_channel() -> None:
    from finclaw.channels.telegram.outbound import ALLOWED

    assert PROFILES["telegram"] == CAPABILITIES
    assert ALLOWED == REACTIONS


@in_virtual_time
async def test_words_are_sent_with_markup_place_and_buttons(desk: Desk) -> None:
    desk.api.world.add_group(FORUM, topics=[7])
    number = desk.api.write(FORUM, "@finclaw_bot buy?", user=JUN, thread=7)
    buttons = [
        ActionButton(label="Approve", command="/approve ap-1", style="primary"),
        ActionButton(label="Deny", command="/deny ap-1", style="danger"),
        ActionButton(label="승인 내용을 자세히 보기", command="/approval ap-1"),
    ]
    said = Outbound(
        text="**Buy** 1 < 2",
        rendered="<b>Buy</b> 1 &lt; 2",
        plain="Buy 1 < 2",
        reply_to=f"{FORUM}/{number}",
        thread="7",
        actions=tuple(buttons),
    )
    channel = channel_at(desk.api, desk.clock)
    receipt = await channel.send(item(said, chat=FORUM))
    (shown,) = desk.api.shown_in(FORUM)
    assert (shown.text, shown.entities[0]["type"], shown.reply_to, shown.thread) == ("Buy 1 < 2", "bold", number, 7)
    assert [[each["text"] for each in row] for row in shown.buttons] == [
        ["Approve", "Deny"],
        ["승인 내용을 자세히 보기"],
    ]
    assert shown.buttons[0][0] == {"text": "Approve", "callback_data": "/approve ap-1", "style": "primary"}
    assert receipt.platform_id == f"{FORUM}/{shown.number}"
    (_, given) = desk.api.log[-1]
    assert given["link_preview_options"] == {"is_disabled": True}
    await channel.send(item(Outbound(text="1 < 2, to the letter", reply_to=f"{FORUM}/999"), chat=FORUM))
    assert desk.api.shown_in(FORUM)[-1].text == "1 < 2, to the letter"
    await channel.close()


@in_virtual_time
async def test_files_go_out_with_the_words_below_them(desk: Desk) -> None:
    channel = channel_at(desk.api, desk.clock, {"c": PNG, "t": b"a,b\n1,2\n"})
    desk.api.write(MINA, "chart?")
    short = Outbound(text="Up *5%*", rendered="Up <i>5%</i>", plain="Up 5%", attachments=(CHART, TABLE))
    await channel.send(item(short, id="u-1"))
    await channel.send(item(Outbound(text="x" * 1_025, attachments=(CHART,)), id="u-2"))
    await channel.send(item(Outbound(text="", attachments=(CHART,)), id="u-3"))
    shown = [(each.file and each.file[:2], each.text) for each in desk.api.shown_in(MINA)]
    assert shown == [
        (("photo", "chart.png"), "Up 5%"),
        (("document", "rows.csv"), "all rows"),
        (None, "x" * 1_025),
        (("photo", "chart.png"), "Samsung over a year"),
        (("photo", "chart.png"), "Samsung over a year"),
    ]
    with pytest.raises(SendRefused, match=r"'gone.png' is not kept any more"):
        await channel.send(item(Outbound(text="x", attachments=(OutboundFile(blob="?", name="gone.png"),))))
    await channel.close()


@in_virtual_time
async def test_a_picture_that_telegram_cannot_show_goes_as_a_file(desk: Desk) -> None:
    channel = channel_at(desk.api, desk.clock, {"c": b"no picture"})
    desk.api.write(MINA, "chart?")
    await channel.send(item(Outbound(text="Up", attachments=(CHART,))))
    (shown,) = desk.api.shown_in(MINA)
    assert (shown.file, shown.text) == (("document", "chart.png", b"no picture"), "Up")
    await channel.close()


@in_virtual_time
async def test_what_arrived_of_several_files_is_not_sent_again(desk: Desk) -> None:
    channel = channel_at(desk.api, desk.clock, {"c": PNG, "t": b"a,b"})
    desk.api.write(MINA, "both?")
    desk.api.disturb("broken", method="sendDocument")
    both = item(Outbound(text="Both", attachments=(CHART, TABLE)))
    with pytest.raises(SendFailed):
        await channel.send(both)
    receipt = await channel.send(both)
    assert [each.text for each in desk.api.shown_in(MINA)] == ["Both", "all rows"]
    assert receipt.platform_id == f"{MINA}/{desk.api.shown_in(MINA)[0].number}"
    await channel.close()


@pytest.mark.parametrize(
    ("fault", "kind", "arrives"),
    [
        ("busy", SendFailed, False),
        ("broken", SendFailed, False),
        ("unparsable", MarkupRefused, False),
        ("gateway", SendUnknown, False),
        ("cut", SendUnknown, True),
    ],
)
@in_virtual_time
async def test_failures_are_told_apart(desk: Desk, fault: Any, kind: type[Exception], arrives: bool) -> None:
    channel = channel_at(desk.api, desk.clock)
    desk.api.write(MINA, "hi")
    desk.api.disturb(fault, seconds=17)
    with pytest.raises(kind) as caught:
        await channel.send(item(Outbound(text="hello")))
    assert desk.api.token not in str(caught.value)
    assert len(desk.api.shown_in(MINA)) == arrives
    if isinstance(caught.value, SendFailed) and fault == "busy":
        assert caught.value.retry_after == 17.0
        with pytest.raises(SendFailed, match="takes no more messages for 17 s"):
            await channel.send(item(Outbound(text="hello")))
        await desk.clock.sleep(17)
        await channel.send(item(Outbound(text="hello")))
    await channel.close()


@in_virtual_time
async def test_what_never_left_may_be_sent_again_and_what_took_too_long_is_in_doubt(desk: Desk) -> None:
    channel = channel_at(desk.api, desk.clock)
    desk.api.write(MINA, "hi")
    desk.api.disturb("late", seconds=300)
    with pytest.raises(SendUnknown):
        await channel.send(item(Outbound(text="hello")))
    await desk.api.stop()
    await channel.close()
    with pytest.raises(SendFailed):
        await channel.send(item(Outbound(text="hello")))
    await channel.close()


@in_virtual_time
async def test_refusals_end_the_unit(desk: Desk) -> None:
    channel = channel_at(desk.api, desk.clock)
    desk.api.write(MINA, "hi")
    with pytest.raises(SendRefused, match="chat not found"):
        await channel.send(item(Outbound(text="hello"), chat=99))
    with pytest.raises(SendRefused, match="no chat of Telegram"):
        await channel.send(item(Outbound(text="hello"), chat="room"))
    with pytest.raises(SendRefused, match="longer than"):
        await channel.send(item(Outbound(text="🙂" * 2_049)))
    with pytest.raises(MarkupRefused, match="Can't find end tag"):
        await channel.send(item(Outbound(text="x", rendered="<b>x", plain="x")))
    assert desk.api.shown_in(MINA) == []
    await channel.close()


@in_virtual_time
async def test_who_blocked_the_bot_is_unreachable_until_they_write_again(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    channel, inbox = channel_at(desk.api, desk.clock), Inbox()
    async with receiving(channel, inbox):
        desk.api.write(MINA, "hi")
        await inbox.until(1)
        desk.api.world.block(MINA)
        with pytest.raises(SendRefused, match="blocked by the user"):
            await channel.send(item(Outbound(text="hello")))
        assert list(channel.unreachable) == [str(MINA)]
        assert f"chat {MINA} cannot be reached" in caplog.text
        desk.api.push(desk.api.world.block(MINA, blocked=False))
        await desk.api.until(lambda: desk.api.unacknowledged == 0)
        assert list(channel.unreachable) == []
        desk.api.push(desk.api.world.block(MINA))
        await desk.api.until(lambda: desk.api.unacknowledged == 0)
        assert list(channel.unreachable) == [str(MINA)]


@in_virtual_time
async def test_an_answer_follows_a_group_that_moved(desk: Desk) -> None:
    channel, new = channel_at(desk.api, desk.clock), -1_003_000_000_001
    desk.api.world.add_group(TEAM)
    number = desk.api.write(TEAM, "hi", user=JUN)
    desk.api.world.migrate(TEAM, new, user=JUN)  # the update that says so is still on its way
    receipt = await channel.send(item(Outbound(text="hello", reply_to=f"{TEAM}/{number}"), chat=TEAM))
    await channel.send(item(Outbound(text="more"), chat=TEAM))
    assert [each.text for each in desk.api.shown_in(new)] == ["hello", "more"]
    assert receipt.platform_id.startswith(f"{new}/")
    await channel.close()


# ── changes and signs ───────────────────────────────────────────────────────────────────────────────────────────


@in_virtual_time
async def test_edits_and_deletions(desk: Desk) -> None:
    channel = channel_at(desk.api, desk.clock, {"c": PNG})
    desk.api.write(MINA, "hi")
    words = (await channel.send(item(Outbound(text="one")))).platform_id
    picture = (await channel.send(item(Outbound(text="one", attachments=(CHART,))))).platform_id
    for name in (words, picture):
        for _ in range(2):  # the second time nothing is different
            await channel.edit(name, item(Outbound(text="*two*", rendered="<i>two</i>", plain="two")))
    assert [(each.text, each.edits) for each in desk.api.shown_in(MINA)] == [("two", 1), ("two", 1)]
    desk.api.disturb("busy", method="editMessageText", seconds=3)
    with pytest.raises(SendFailed):
        await channel.edit(words, item(Outbound(text="three")))
    for _ in range(2):
        await channel.delete(words)
    with pytest.raises(SendRefused, match="message to edit not found"):
        await channel.edit(words, item(Outbound(text="three")))
    with pytest.raises(SendRefused, match="no message of Telegram"):
        await channel.delete("update-7")
    assert len(desk.api.shown_in(MINA)) == 1
    await channel.close()


@in_virtual_time
async def test_signs(desk: Desk) -> None:
    channel = channel_at(desk.api, desk.clock)
    desk.api.world.add_group(FORUM, topics=[7])
    number = desk.api.write(FORUM, "hi", user=JUN, thread=7)
    asked = Inbound(text="hi", conversation=str(FORUM), message_id=f"{FORUM}/{number}", thread="7")
    seen: list[list[str]] = []
    for emoji in ("👀", "❤️", "✅", "🦖", None):
        await channel.react(asked, emoji)
        seen.append(desk.api.world.reactions[FORUM, number])
    assert seen == [["👀"], ["❤"], ["👌"], ["👌"], []]
    await channel.typing(asked, True)
    await channel.typing(asked, False)
    assert desk.api.methods.typing == [(FORUM, 7)]
    assert desk.api.errors == []
    await channel.close()


def test_reactions_are_only_those_that_telegram_allows() -> None:
    from finclaw.channels.telegram.outbound import allowed_reaction

    assert {allowed_reaction(emoji) for emoji in ("👀", "✅", "❌", "⚠️", "🦖")} <= {*REACTIONS, None}
    assert allowed_reaction("🦖") is None


# ── pace ────────────────────────────────────────────────────────────────────────────────────────────────────────


@in_virtual_time
async def test_a_group_is_never_written_to_faster_than_telegram_allows(desk: Desk) -> None:
    channel = channel_at(desk.api, desk.clock)
    desk.api.world.add_group(TEAM)
    began, sent = desk.clock.monotonic(), 0
    while sent < 45:
        try:
            await channel.send(item(Outbound(text=f"{sent}"), chat=TEAM, id=f"u-{sent}"))
            sent += 1
        except SendFailed as error:  # the outbox waits so long, with nothing on its way
            await desk.clock.sleep(error.retry_after or 0)
    assert desk.api.errors == []
    assert 120 <= desk.clock.monotonic() - began < 140
    await channel.close()


# ── settings ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"api": "ftp://x"}, "https://"),
        ({"apy": "https://x"}, "apy"),
        ({"webhook": {"url": "http://x"}}, "must begin with https://"),
        ({"webhook": {}}, "url"),
        ({"messages_per_second": 0}, "above 0"),
    ],
)
@in_virtual_time
async def test_settings_that_do_not_fit_are_refused(desk: Desk, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        channel_at(desk.api, desk.clock, **settings)


@in_virtual_time
async def test_a_token_that_is_none_is_refused_without_being_repeated(desk: Desk) -> None:
    desk.api.token = "not-a-token-at-all"
    with pytest.raises(ConfigError, match="@BotFather") as caught:
        channel_at(desk.api, desk.clock)
    assert "not-a-token" not in str(caught.value)
