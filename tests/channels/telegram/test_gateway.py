"""A whole gateway on Telegram: people write to a bot, and read what it answers."""

import logging
import socket

import pytest
from tests.channels.telegram.desk import JUN, MINA, TEAM, Desk, echo, in_virtual_time
from tests.cli.in_process import typed
from tests.walks.house import Parts

from finclaw.approvals.people import PersonSettings
from finclaw.builtins.basics import BasicCommand
from finclaw.kernel.envelope import ActionButton, OutboundFile
from finclaw.kernel.message import Image
from finclaw.kernel.port import CommandReply

FORUM = -1_002_000_000_001
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x08\2\0\0\0"


@in_virtual_time
async def test_a_message_is_answered_in_its_chat(desk: Desk) -> None:
    async with desk.gateway("Samsung closed **higher** today."):
        number = desk.api.write(MINA, "삼성전자 얼마야?")
        (answer,) = await desk.api.until_shown(MINA, 1)
        assert (answer.text, answer.entities) == (
            "Samsung closed higher today.",
            [{"type": "bold", "offset": 15, "length": 6}],
        )
        assert answer.reply_to == number
        await desk.api.until(lambda: desk.api.unacknowledged == 0)
        english, korean = desk.api.methods.commands[""], desk.api.methods.commands["ko"]
    assert {"command": "help", "description": "Shows what I can do"} in english
    assert {"command": "help", "description": "도움말"} in korean
    assert desk.api.errors == []


@in_virtual_time
async def test_a_gateway_behind_a_webhook_answers_each_message_once(desk: Desk) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    options = {"webhook": {"url": "https://bot.example/hook", "port": port}}
    async with desk.gateway(echo, options=options):
        desk.api.proxy = f"http://127.0.0.1:{port}/hook"
        for number in range(5):
            desk.api.write(MINA, f"n={number}")
        desk.api.repeat(2)
        await desk.api.until(lambda: desk.api.unacknowledged == 0)
        assert desk.app is not None
        await desk.app.idle()
    told = " ".join(each.text for each in desk.api.shown_in(MINA))
    assert [word for word in told.split() if word.startswith("n=")] == [f"n={number}" for number in range(5)]
    assert desk.api.calls["getUpdates"] == 0


@pytest.mark.parametrize("allow", [(), (str(JUN),)])
@in_virtual_time
async def test_a_stranger_gets_no_answer_and_no_sign(desk: Desk, allow: tuple[str, ...]) -> None:
    async with desk.gateway(echo, allow=allow, rooms=()) as provider:
        desk.api.write(MINA, "/start")
        desk.api.write(MINA, "let me in")
        desk.api.push(desk.api.world.send_file(MINA, "photo", PNG, "look"))
        await desk.api.until(lambda: desk.api.unacknowledged == 0)
        assert desk.app is not None
        await desk.app.idle()
        assert provider.requests == []
        assert not any(b"let me in" in each.read_bytes() for each in desk.place.rglob("*") if each.is_file())
    said = {method for method, _ in desk.api.log}
    assert said == {"getMe", "setMyCommands", "getWebhookInfo"}


@in_virtual_time
async def test_everybody_is_heard_when_the_operator_says_so(desk: Desk) -> None:
    async with desk.gateway(echo, allow=("*",), rooms=()):
        desk.api.write(JUN, "hi")
        (answer,) = await desk.api.until_shown(JUN, 1)
    assert answer.text == "re: hi"


@in_virtual_time
async def test_a_group_is_answered_when_it_speaks_to_the_bot(desk: Desk) -> None:
    desk.api.world.add_group(TEAM)
    async with desk.gateway(echo) as provider:
        desk.api.write(TEAM, "lunch?", user=JUN)
        desk.api.write(TEAM, "@finclaw_bot price?", user=JUN)
        (answer,) = await desk.api.until_shown(TEAM, 1)
        assert answer.text == "re: price?"
        desk.api.write(TEAM, "and Hyundai?", user=JUN, reply_to=answer.number)
        await desk.api.until_shown(TEAM, 2)
        desk.api.write(TEAM, "/help@finclaw_bot", user=JUN)
        *_, help_text = await desk.api.until_shown(TEAM, 3)
        assert "/whoami" in help_text.text
        assert len(provider.requests) == 2


@in_virtual_time
async def test_each_topic_is_a_conversation_of_its_own(desk: Desk) -> None:
    desk.api.world.add_group(FORUM, topics=[7, 8])
    async with desk.gateway(echo, rooms=(str(FORUM),)) as provider:
        for topic in (7, 8):
            desk.api.write(FORUM, f"@finclaw_bot topic {topic}", user=MINA, thread=topic)
        answers = await desk.api.until_shown(FORUM, 2)
        assert {(each.thread, each.text[-1]) for each in answers} == {(7, "7"), (8, "8")}
        assert not any(each.role == "assistant" for asked in provider.requests for each in asked.messages)


@in_virtual_time
async def test_a_group_that_moves_keeps_its_session_over_a_restart(desk: Desk) -> None:
    new = -1_003_000_000_001
    desk.api.world.add_group(TEAM)
    async with desk.gateway(echo):
        desk.api.write(TEAM, "@finclaw_bot remember 7", user=JUN)
        await desk.api.until_shown(TEAM, 1)
        desk.api.push(*desk.api.world.migrate(TEAM, new, user=JUN))
        await desk.api.until(lambda: desk.api.unacknowledged == 0)
    async with desk.gateway(echo) as provider:
        desk.api.write(new, "@finclaw_bot what was it?", user=JUN)
        (answer,) = await desk.api.until_shown(new, 1)
        assert answer.text == "re: what was it?"
        assert "remember 7" in provider.requests[0].messages[0].text
        assert desk.app is not None
        page = await desk.app.sessions(10)
        assert [session.key for session in page.items] == [f"main:telegram:default:group:{TEAM}"]


@in_virtual_time
async def test_a_pressed_button_is_the_command_that_it_stands_for(desk: Desk) -> None:
    async def answer(*_: object) -> CommandReply:
        return CommandReply("Who are you?", actions=(ActionButton(label="Tell me", command="/whoami"),))

    ask = BasicCommand(name="ask_back", description="Asks / 질문", usage="/ask_back", answer=answer)
    async with desk.gateway(echo, extensions=[Parts(commands=[ask])]):
        desk.api.write(MINA, "/ask_back")
        (card,) = await desk.api.until_shown(MINA, 1)
        desk.api.push(desk.api.world.press(card, "Tell me"))
        _, told = await desk.api.until_shown(MINA, 2)
        await desk.api.until(lambda: not desk.api.world.presses)
    assert f"telegram:default:{MINA}" in told.text
    assert told.reply_to == card.number
    assert desk.api.errors == []


@in_virtual_time
async def test_a_photo_reaches_a_model_that_sees(desk: Desk) -> None:
    async with desk.gateway("A chart.") as provider:
        desk.api.push(desk.api.world.send_file(MINA, "photo", PNG, "what is this?"))
        await desk.api.until_shown(MINA, 1)
        (asked,) = provider.requests
        assert any(isinstance(part, Image) for part in asked.messages[-1].blocks)


@pytest.mark.parametrize(
    ("program", "chosen", "words"), [("ko", "", "글로"), ("", "ko-KR", "글로"), ("ko", "en", "write")]
)
@in_virtual_time
async def test_a_first_voice_message_is_answered_in_the_language_of_its_person(
    desk: Desk, program: str, chosen: str, words: str
) -> None:
    desk.api.world.user(MINA)["language_code"] = program
    mina = PersonSettings(name="Mina", known_as=(f"telegram:default:{MINA}",))
    async with desk.gateway("…", people=[mina]):
        assert desk.app is not None
        if chosen:
            await desk.app.persons.change(f"telegram:default:{MINA}", {"language": chosen})
        desk.api.push(desk.api.world.send_file(MINA, "voice", b"ogg", mime_type="audio/ogg"))
        (answer,) = await desk.api.until_shown(MINA, 1)
        assert words in answer.text


@in_virtual_time
async def test_who_blocked_the_bot_is_shown_to_the_operator(desk: Desk) -> None:
    (desk.place / "finclaw.yaml").write_text("channels: {telegram: {kind: telegram}}")
    desk.api.world.add_group(TEAM)
    async with desk.gateway(echo):
        desk.api.push(desk.api.world.block(MINA), desk.api.world.block(TEAM, user=JUN))
        await desk.api.until(lambda: desk.api.unacknowledged == 0)
        assert desk.app is not None
        assert [each.conversation for each in await desk.app.unreachable()] == [str(MINA), str(TEAM)]
    look = ("--state", desk.place / "state", "--config", desk.place / "finclaw.yaml")
    *_, title, first, second = typed("channels", "list", *look).out.splitlines()
    assert title == "not reachable any more, until they write again:"
    assert (first.split(), second.split()) == (
        ["telegram", str(MINA), "blocked", "the", "bot"],
        ["telegram", str(TEAM), "removed", "the", "bot", "from", "the", "group"],
    )
    assert "2  chats that cannot be reached: finclaw channels list" in typed("status", *look).out


@in_virtual_time
async def test_a_picture_goes_out_with_its_caption(desk: Desk) -> None:
    async def answer(*_: object) -> CommandReply:
        assert desk.app is not None
        blob = await desk.app.put_blob(PNG, "image/png")
        file = OutboundFile(blob=blob.sha256, name="chart.png", mime="image/png", alt="a line that rises")
        return CommandReply("Samsung, one year", attachments=(file,))

    show = BasicCommand(name="show_picture", description="Shows / 그림", usage="/show_picture", answer=answer)
    async with desk.gateway(echo, extensions=[Parts(commands=[show])]):
        desk.api.write(MINA, "/show_picture")
        (shown,) = await desk.api.until_shown(MINA, 1)
    assert shown.file is not None
    assert shown.file[0] == "photo"
    assert shown.text.startswith("Samsung, one year")


@in_virtual_time
async def test_what_telegram_cannot_parse_is_sent_as_plain_text(desk: Desk) -> None:
    async with desk.gateway("**bold** words"):
        desk.api.disturb("unparsable")
        desk.api.write(MINA, "hi")
        (answer,) = await desk.api.until_shown(MINA, 1)
    assert (answer.text, answer.entities) == ("bold words", [])


@in_virtual_time
async def test_a_long_list_keeps_all_its_formatting(desk: Desk) -> None:
    async with desk.gateway("\n".join(f"- **{number}** [n](https://e.example/{number})" for number in range(150))):
        desk.api.write(MINA, "hi")
        parts = await desk.api.until_shown(MINA, 3)
        assert desk.app is not None
        await desk.app.idle()
    assert sum(len(each.entities) for each in parts) == 300
    assert desk.api.errors == []


@in_virtual_time
async def test_a_burst_of_a_hundred_is_answered_once_each_and_in_order(desk: Desk) -> None:
    chats = [MINA + number for number in range(10)]
    async with desk.gateway(echo, allow=[str(chat) for chat in chats]):
        for number in range(100):
            desk.api.write(chats[number % 10], f"n={number}")
        desk.api.repeat(3)
        desk.api.repeat(50)
        await desk.api.until(lambda: desk.api.unacknowledged == 0)
        assert desk.app is not None
        await desk.app.idle()
    for chat in chats:
        told = " ".join(each.text for each in desk.api.shown_in(chat))
        numbers = [int(word.removeprefix("n=")) for word in told.split() if word.startswith("n=")]
        assert numbers == [number for number in range(100) if chats[number % 10] == chat]
    assert desk.api.errors == []


@in_virtual_time
async def test_the_token_is_in_no_log(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with desk.gateway(echo):
        for fault in ("busy", "broken", "gateway", "cut", "unparsable"):
            desk.api.disturb(fault)
        desk.api.disturb("broken", method="getFile")
        desk.api.disturb("gateway", method="getUpdates", times=2)
        desk.api.push(desk.api.world.send_file(MINA, "photo", PNG, "look"))
        await desk.api.until_shown(MINA, 1)
        port = int(desk.api.url.rpartition(":")[2])
        await desk.api.stop()
        desk.clock.advance(100)
        await desk.api.start(port)
        desk.api.token = "700000001:AAotherotherotherotherotherotherothA"
        desk.api.write(MINA, "again")
        await desk.clock.sleep(300)
    everything = caplog.text + "".join(str(record.exc_info) for record in caplog.records)
    assert "no updates" in everything
    assert "AAfakefake" not in everything
