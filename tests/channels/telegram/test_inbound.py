"""What Telegram sends becomes an Inbound: clean words, the right place and the right kind."""

from typing import Any

import pytest
from tests.channels.telegram.desk import JUN, MINA, TEAM, Desk, Inbox, channel_at, in_virtual_time, receiving

from finclaw.builtins.basics import BasicCommand
from finclaw.kernel.envelope import Attachment, Inbound
from finclaw.kernel.port import CommandReply

FORUM = -1_002_000_000_001
BOT = {"id": 700_000_001, "is_bot": True, "first_name": "FinClaw", "username": "finclaw_bot"}


async def read(desk: Desk, *bodies: dict[str, Any]) -> list[Inbound]:
    """The messages that come of these updates."""

    async def answer(*_: Any) -> CommandReply:
        return CommandReply("")

    channel, inbox = channel_at(desk.api, desk.clock), Inbox()
    channel.announce_commands([BasicCommand(name="help", description="Shows / 도움말", usage="", answer=answer)])
    async with receiving(channel, inbox):
        desk.api.push(*bodies)
        await desk.api.until(lambda: desk.api.unacknowledged == 0)
    return inbox.came


@pytest.mark.spec("P-23")
@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("@finclaw_bot 삼성전자 얼마야?", "삼성전자 얼마야?"),
        ("👨‍👩‍👧 price? @FinClaw_Bot", "👨‍👩‍👧 price?"),
        ("hey @finclaw_bot, price?", "hey , price?"),
        ("/help@finclaw_bot quote", "/help quote"),
        ("/start", "/start"),
        ("/start@finclaw_bot abc", "/start abc"),
        ("/help@other_bot", "/help@other_bot"),
        ("ask @other_bot", "ask @other_bot"),
        ("1 < 2 & <b>bold</b> *x*", "1 < 2 & <b>bold</b> *x*"),
    ],
)
@in_virtual_time
async def test_mentions_of_us_are_stripped_and_nothing_else(desk: Desk, text: str, clean: str) -> None:
    (came,) = await read(desk, desk.api.world.write(MINA, text))
    assert came.text == clean


@pytest.mark.spec("P-23")
@in_virtual_time
async def test_links_keep_their_address_and_other_marks_are_dropped(desk: Desk) -> None:
    entities = [
        {"type": "bold", "offset": 0, "length": 2},
        {"type": "text_link", "offset": 3, "length": 6, "url": "https://example.com/a(b)"},
        {"type": "text_mention", "offset": 10, "length": 4, "user": BOT},
        {"type": "text_link", "offset": 15, "length": 19, "url": "https://example.com/"},
    ]
    (came,) = await read(desk, desk.api.world.write(MINA, "🙂 report FinC https://example.com", entities=entities))
    assert came.text == "🙂 [report](https://example.com/a%28b%29)  https://example.com"


@pytest.mark.parametrize(
    ("text", "is_to_us"),
    [
        ("@finclaw_bot hi", True),
        ("/help@finclaw_bot", True),
        ("/help", True),
        ("/ban", False),
        ("/help@other_bot", False),
        ("what does @other_bot say", False),
        ("hi all", False),
    ],
)
@in_virtual_time
async def test_in_a_group_it_is_for_us_when_we_are_named(desk: Desk, text: str, is_to_us: bool) -> None:
    desk.api.world.add_group(TEAM)
    (came,) = await read(desk, desk.api.world.write(TEAM, text, user=JUN))
    assert (came.mentions_us, came.chat_type, came.conversation, came.sender.id) == (
        is_to_us,
        "group",
        str(TEAM),
        str(JUN),
    )


@in_virtual_time
async def test_an_answer_to_us_and_one_to_somebody_else(desk: Desk) -> None:
    world = desk.api.world
    world.add_group(FORUM, topics=[7])
    ours = {"message_id": 90, "date": 1, "chat": world.chats[FORUM], "from": BOT, "text": "70,000 won"}
    world.messages[FORUM, 90] = ours
    first = world.write(FORUM, "thanks", user=JUN, reply_to=90)
    second = world.write(FORUM, "what?", user=MINA, reply_to=first["message"]["message_id"])
    third = world.write(FORUM, "in a topic", user=MINA, thread=7)
    to_us, to_jun, topic = await read(desk, first, second, third)
    assert (to_us.mentions_us, to_us.reply_to, to_us.thread) == (True, f"{FORUM}/90", None)
    assert (to_jun.mentions_us, to_jun.reply_to) == (False, to_us.message_id)
    assert (topic.mentions_us, topic.reply_to, topic.thread) == (False, None, "7")


@in_virtual_time
async def test_edits_reactions_and_forwarded_messages(desk: Desk) -> None:
    world = desk.api.world
    origin = {"type": "hidden_user", "date": 1, "sender_user_name": "somebody"}
    first, edit, again, reaction, forwarded = await read(
        desk,
        world.write(MINA, "Samsun"),
        world.edit(MINA, 1, "@finclaw_bot Samsung", at=1_736_154_005),
        world.edit(MINA, 1, "Samsung!", at=1_736_154_009),
        world.react(MINA, 1, "👍"),
        world.write(MINA, "buy now!", forward_origin=origin),
    )
    assert (edit.kind, edit.target, edit.text, edit.edited) == ("edit", first.message_id, "Samsung", True)
    assert (edit.sent_at, again.sent_at) < (again.sent_at, edit.sent_at)
    assert (reaction.kind, reaction.target, reaction.text) == ("reaction", first.message_id, "👍")
    assert (first.forwarded, forwarded.forwarded) == (False, True)


@in_virtual_time
async def test_files_of_every_kind_come_with_their_words(desk: Desk) -> None:
    world = desk.api.world
    photo, table, voice, video, sticker = await read(
        desk,
        world.send_file(MINA, "photo", b"x" * 5_000, "what is this?"),
        world.send_file(MINA, "document", b"a,b", "", file_name="rows.csv", mime_type="text/csv"),
        world.send_file(MINA, "voice", b"ogg", mime_type="audio/ogg"),
        world.send_file(MINA, "video", b"mp4", mime_type="video/mp4", file_name="a.mp4"),
        world.write(
            MINA,
            "",
            sticker={
                "file_id": "s",
                "file_unique_id": "u",
                "type": "regular",
                "width": 1,
                "height": 1,
                "is_animated": False,
                "is_video": False,
                "emoji": "🙏",
            },
        ),
    )
    assert (photo.text, photo.attachments) == (
        "what is this?",
        (Attachment(id="file-1", kind="image", mime="image/jpeg", size=5_000),),
    )
    assert table.attachments == (Attachment(id="file-2", kind="file", mime="text/csv", name="rows.csv", size=3),)
    assert [each.attachments[0].kind for each in (voice, video)] == ["audio", "video"]
    assert (sticker.text, sticker.attachments) == ("🙏", ())


@in_virtual_time
async def test_what_is_no_message_of_a_person_is_left_out(desk: Desk) -> None:
    world = desk.api.world
    world.add_group(TEAM)
    joined = world.write(TEAM, "", user=JUN, new_chat_members=[world.user(JUN)])
    joined["message"].pop("text")
    unreadable = {"message": {"message_id": "x", "chat": 1}}
    anonymous = world.write(TEAM, "hi", user=1_087_968_824)
    anonymous["message"]["from"]["is_bot"] = True
    came = await read(desk, joined, unreadable, anonymous, world.write(MINA, "hi"))
    assert [(each.text, each.sender.is_bot) for each in came] == [("hi", True), ("hi", False)]
