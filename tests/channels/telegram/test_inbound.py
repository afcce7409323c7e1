"""What Telegram sends becomes an Inbound: clean words, the right place and the right kind."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.channels.telegram.desk import JUN, MINA, TEAM, Desk, Inbox, channel_at, in_virtual_time, receiving
from tests.support.telegram.rules import utf16_length

from finclaw.builtins.basics import BasicCommand
from finclaw.kernel.envelope import Attachment, Inbound
from finclaw.kernel.message import Message, Source, Text
from finclaw.kernel.port import CommandReply
from finclaw.taint.sources import QUOTED, sources_of
from finclaw.testing import FakeClock
from finclaw.text import fix_surrogates

FORUM = -1_002_000_000_001
ADDRESS = "https://example.com/a"
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
    assert came.text == "🙂 [report](https://example.com/a%28b%29) FinC https://example.com"


def mark(kind: str, text: str, part: str, **more: Any) -> dict[str, Any]:
    """An entity over a part of the text, counted as Telegram counts."""
    return {"type": kind, "offset": utf16_length(text[: text.index(part)]), "length": utf16_length(part), **more}


@pytest.mark.parametrize(
    ("text", "covered", "clean"),
    [
        ("no, never /approve ap-1", "no, never", "no, never /approve ap-1"),
        ("do not /approve ap-1", "do not ", "do not /approve ap-1"),
        ("@finclaw_bot /approve ap-1", "@finclaw_bot", "/approve ap-1"),
        ("@FinClaw_bot, no /approve ap-1", "@FinClaw_bot, no", "@FinClaw_bot, no /approve ap-1"),
    ],
)
@in_virtual_time
async def test_a_text_mention_of_the_bot_removes_no_other_text(desk: Desk, text: str, covered: str, clean: str) -> None:
    entities = [mark("text_mention", text, covered, user=BOT)]
    (came,) = await read(desk, desk.api.world.write(MINA, text, entities=entities))
    assert (came.text, came.mentions_us) == (clean, True)


QUOTED_TEXTS: list[tuple[str, list[tuple[str, str]], str]] = [
    ("send it", [("quote", "send it")], "> send it"),
    ("look:\nsend it\nnow", [("quote", "send it")], "look:\n> send it\nnow"),
    ("🙂\n한 🙂\n\nsend\nmine 🙂", [("quote", "한 🙂\n\nsend")], "🙂\n> 한 🙂\n> \n> send\nmine 🙂"),
    ("🙂 she said send it, or not", [("quote", "send it")], "🙂 she said \n> send it\n, or not"),
    ("one\ntwo", [("quote", "one\n"), ("quote", "two")], "> one\n> two"),
    ("onetwo", [("quote", "one"), ("quote", "two")], "> onetwo"),
    ("bold\nplain", [("bold", "bold"), ("quote", "bold"), ("quote", "bold\np")], "> bold\n> p\nlain"),
    ("@finclaw_bot send it", [("mention", "@finclaw_bot"), ("quote", "send it")], "> send it"),
    ("ok\n/help@finclaw_bot", [("bot_command", "/help@finclaw_bot"), ("quote", "/help@finclaw_bot")], "ok\n> /help"),
    ("a page\nof b", [("quote", "page\nof"), ("text_link", "page\nof")], f"a \n> [page\n> of]({ADDRESS})\n b"),
    ("see a\n page", [("text_link", "a\n "), ("quote", "page")], f"see [a]({ADDRESS})\n \n> page"),
    ("see a page", [("text_link", "see a"), ("quote", "a page")], f"[see \n> a]({ADDRESS}) page"),
]


@pytest.mark.spec("G-07")
@pytest.mark.parametrize("kind", ["blockquote", "expandable_blockquote"])
@pytest.mark.parametrize("how", ["text", "caption", "edit"])
@in_virtual_time
async def test_block_quotes_are_read_as_quoted_lines(desk: Desk, how: str, kind: str) -> None:
    world, bodies = desk.api.world, list[dict[str, Any]]()
    for number, (text, marks, _) in enumerate(QUOTED_TEXTS):
        entities = [mark(kind if name == "quote" else name, text, part, url=ADDRESS) for name, part in marks]
        if how == "edit":
            world.write(MINA + number, "hi")
            edit = world.edit(MINA + number, 1, text)
            edit["edited_message"]["entities"] = entities
            bodies.append(edit)
        elif how == "caption":
            bodies.append(world.send_file(MINA, "photo", b"x", text, entities=entities))
        else:
            bodies.append(world.write(MINA, text, entities=entities))
    assert [each.text for each in await read(desk, *bodies)] == [read_as for _, _, read_as in QUOTED_TEXTS]


@given(
    text=st.text(st.sampled_from("ab \n한🙂>\r\u00a0\u2028"), min_size=1, max_size=60),
    ranges=st.lists(st.tuples(st.integers(0, 70), st.integers(1, 70)), min_size=1, max_size=4),
)
@example(text="\u00a0send it", ranges=[(0, 8)])
@example(text="a\n\u2028send\r", ranges=[(2, 6)])
def test_any_block_quote_is_counted_as_quoted_and_loses_no_text(text: str, ranges: list[tuple[int, int]]) -> None:
    from aiogram.types import MessageEntity, User  # imports aiogram: not while tests are collected

    from finclaw.channels.telegram.inbound import EntityReader

    reader = EntityReader(User.model_validate(BOT))
    entities = [MessageEntity(type="blockquote", offset=at, length=length) for at, length in ranges]
    came = fix_surrogates(reader.read(text, entities))
    units = text.encode("utf-16-le")
    quoted = b"".join(units[2 * at : 2 * (at + length)] for at, length in ranges).decode("utf-16-le", errors="replace")
    message = Message(
        id="m", role="user", blocks=(Text(came),), source=Source("user", "42", ""), created_at=FakeClock().now()
    )
    assert (QUOTED in sources_of(message)) >= bool(quoted.strip())
    signs = str.maketrans("", "", "> \n\ufffd🙂")
    assert came.translate(signs) == text.translate(signs)


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
