"""Another bot library makes the same calls on our server: it has the shape of Telegram, not of one library."""

import pytest
from telegram import Bot, BotCommand, InlineKeyboardButton, InlineKeyboardMarkup, LinkPreviewOptions, ReplyParameters
from telegram.constants import ChatAction
from telegram.error import BadRequest, Conflict, Forbidden, InvalidToken, NetworkError, RetryAfter
from telegram.request import HTTPXRequest
from tests.channels.telegram.desk import JUN, MINA, TEAM, Desk, in_virtual_time

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1"


@pytest.fixture(autouse=True)
def retry_after_is_a_timedelta(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the library warns of its own future."""
    monkeypatch.setenv("PTB_TIMEDELTA", "1")


def second_bot(desk: Desk, token: str = "") -> Bot:
    url = desk.api.url
    return Bot(
        token or desk.api.token,
        base_url=f"{url}/bot",
        base_file_url=f"{url}/file/bot",
        request=HTTPXRequest(),
        get_updates_request=HTTPXRequest(),
    )


@in_virtual_time
async def test_it_polls_answers_edits_and_deletes(desk: Desk) -> None:
    world = desk.api.world
    world.add_group(TEAM)
    async with second_bot(desk) as bot:
        assert (bot.username, bot.can_read_all_group_messages) == ("finclaw_bot", True)
        number = desk.api.write(MINA, "@finclaw_bot hi /help@finclaw_bot")
        desk.api.push(
            world.edit(MINA, number, "hello"),
            world.react(MINA, number, "👍"),
            world.send_file(MINA, "photo", PNG, "look"),
            world.send_file(MINA, "document", b"a,b", file_name="a.csv", mime_type="text/csv"),
            world.block(TEAM, user=JUN),
            *world.migrate(TEAM, -1_003_000_000_001, user=JUN),
        )
        updates = await bot.get_updates(
            allowed_updates=["message", "edited_message", "message_reaction", "my_chat_member"]
        )
        assert [each.update_id for each in updates] == [1, 2, 3, 4, 5, 6, 7, 8]
        first = updates[0].message
        assert first is not None
        assert [each.type for each in first.entities] == ["mention", "bot_command"]
        file = await bot.get_file("file-1")
        assert bytes(await file.download_as_bytearray()) == PNG
        await bot.send_chat_action(MINA, ChatAction.TYPING)
        await bot.set_message_reaction(MINA, number, "👀")
        button = InlineKeyboardButton("Yes", callback_data="/yes")
        sent = await bot.send_message(
            MINA,
            "<b>70,000</b> won",
            parse_mode="HTML",
            reply_parameters=ReplyParameters(number),
            reply_markup=InlineKeyboardMarkup([[button]]),
            link_preview_options=LinkPreviewOptions(is_disabled=True),
        )
        assert (sent.text, sent.entities[0].type) == ("70,000 won", "bold")
        desk.api.push(world.press(desk.api.shown_in(MINA)[0], "Yes"))
        (pressed,) = await bot.get_updates(offset=9)
        assert pressed.callback_query is not None
        assert pressed.callback_query.data == "/yes"
        await pressed.callback_query.answer()
        await bot.edit_message_text("71,000", MINA, sent.message_id)
        picture = await bot.send_photo(MINA, PNG, caption="chart")
        await bot.edit_message_caption(MINA, picture.message_id, caption="a chart")
        await bot.send_document(MINA, b"a,b", filename="a.csv")
        await bot.delete_message(MINA, sent.message_id)
        await bot.set_my_commands([BotCommand("help", "도움말")], language_code="ko")
        assert [each.description for each in await bot.get_my_commands(language_code="ko")] == ["도움말"]
        assert (await bot.get_webhook_info()).url == ""
    assert [each.text for each in desk.api.shown_in(MINA)] == ["a chart", ""]
    assert desk.api.errors == []


@in_virtual_time
async def test_it_is_refused_what_telegram_refuses(desk: Desk) -> None:
    desk.api.write(MINA, "hi")
    desk.api.world.add_group(TEAM)
    async with second_bot(desk) as bot:
        sent = await bot.send_message(MINA, "hi")
        for call, words in (
            (bot.send_message(MINA, "🙂" * 2_049), "Message is too long"),
            (bot.send_message(MINA, " "), "text is empty"),
            (bot.send_message(99, "hi"), "Chat not found"),
            (bot.send_message(MINA, "<b>x", parse_mode="HTML"), "find end tag"),
            (bot.send_message(MINA, "<x>y</x>", parse_mode="HTML"), "nsupported start tag"),
            (bot.send_photo(MINA, PNG, caption="x" * 1_025), "caption is too long"),
            (bot.send_message(MINA, "hi", message_thread_id=9), "thread not found"),
            (bot.send_message(MINA, "hi", reply_parameters=ReplyParameters(77)), "replied not found"),
            (bot.edit_message_text("hi", MINA, sent.message_id), "Message is not modified"),
            (bot.edit_message_text("hi", MINA, 77), "to edit not found"),
            (bot.set_my_commands([BotCommand("도움말", "help")]), "Bot_command_invalid"),
            (bot.set_message_reaction(MINA, sent.message_id, "🦖"), "Reaction_invalid"),
            (bot.answer_callback_query("77"), "Query is too old"),
            (bot.get_file("77"), "file_id"),
            (bot.set_webhook("http://bot.example"), "https url"),
            (
                bot.send_message(
                    MINA, "x", reply_markup=InlineKeyboardMarkup([[InlineKeyboardButton("x", callback_data="가" * 22)]])
                ),
                "Button_data_invalid",
            ),
        ):
            with pytest.raises(BadRequest, match=words):
                await call
        for number in range(20):
            await bot.send_message(TEAM, str(number))
        with pytest.raises(RetryAfter):
            await bot.send_message(TEAM, "20")
        for fault, kind in (("broken", NetworkError), ("cut", NetworkError), ("busy", RetryAfter)):
            desk.api.disturb(fault)  # pyright: ignore[reportArgumentType]
            with pytest.raises(kind):
                await bot.send_message(MINA, "hi")
        desk.api.world.block(MINA)
        with pytest.raises(Forbidden, match="blocked"):
            await bot.send_message(MINA, "hi")
        await bot.set_webhook("https://bot.example/hook", secret_token="s-1")
        with pytest.raises(Conflict, match="webhook is active"):
            await bot.get_updates()
    with pytest.raises(InvalidToken):
        async with second_bot(desk, "1:other"):
            pass
