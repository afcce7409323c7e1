"""The language of commands, buttons and notices: the person's preference, else that of their last message."""

from typing import Any

import pytest
from tests.walks.deciding import MINA
from tests.walks.house import Gateway, House, in_virtual_time
from tests.walks.pressing import BUY, TELEGRAM, Broker, press

from finclaw.builtins.basics import BasicCommand
from finclaw.kernel.envelope import Inbound, Sender
from finclaw.kernel.port import CommandReply, CommandScope
from finclaw.kernel.record import SenderId
from finclaw.pipeline.settings import CommandSettings
from finclaw.testing import reply

CUT = reply("half", stop="max_tokens")


async def tell_language(args: object, scope: CommandScope) -> CommandReply:
    return CommandReply(scope.language)


WORDLESS = ["@finclaw", "www.apple.com", "apple.com/kr", "ok", "> Apple shares fell sharply on Monday"]
LOOK = BasicCommand(name="look", names={"ko": "보기"}, description="Looks", usage="/look", answer=tell_language)


async def language_of(gateway: Gateway, text: str = "/look", sender: str = "ada", program: str = "") -> str | None:
    """The language in which a person's command is answered."""
    inbound = Inbound(text=text, channel="memory", sender=Sender(sender, language=program))
    return (await gateway.outcome(await gateway.channel.deliver(inbound))).reply


@pytest.mark.parametrize("command", ["/look", "/look add apple", "/look AAPL 10", "@finclaw /look", "/look 삼성전자"])
@in_virtual_time
async def test_command_is_answered_in_language_of_last_message(house: House, command: str) -> None:
    async with house.open("네.", "Yes.", commands=[LOOK]) as gateway:
        await gateway.ask("애플 어때?")
        assert await language_of(gateway, command) == "ko"
        await gateway.ask("And Tesla?")
        assert await language_of(gateway, command) == "en"


@pytest.mark.parametrize(
    "wordless", ["AAPL 10", "👍", "https://example.com/some/page", "/look", "TSLA?", "forwarded", *WORDLESS]
)
@in_virtual_time
async def test_message_without_own_words_does_not_change_the_language(house: House, wordless: str) -> None:
    async with house.open("네.", "네.", commands=[LOOK]) as gateway:
        await gateway.ask("애플 어때?")
        await gateway.ask(wordless, forwarded=wordless == "forwarded")
        assert await language_of(gateway) == "ko"
    async with house.open(commands=[LOOK]) as gateway:
        assert await language_of(gateway) == "ko", "also after a restart"


@pytest.mark.parametrize(
    ("text", "forwarded"), [("이거 뭐야?\n> Apple shares fell sharply on Monday", False), ("Apple shares fell", True)]
)
@in_virtual_time
async def test_words_of_others_do_not_decide_the_language(house: House, text: str, forwarded: bool) -> None:
    async with house.open("네.", CUT, commands=[LOOK]) as gateway:
        await gateway.ask("애플 어때?")
        assert "끊겼습니다" in str((await gateway.ask(text, forwarded=forwarded)).reply)
        assert await language_of(gateway) == "ko"


@in_virtual_time
async def test_language_is_kept_for_each_person_until_they_are_forgotten(house: House) -> None:
    async with house.open("네.", "Yes.", commands=[LOOK]) as gateway:
        await gateway.ask("애플 어때?")
        await gateway.ask("And Tesla?", sender="bo")
    async with house.open(commands=[LOOK]) as gateway:
        assert [await language_of(gateway, sender=each) for each in ("ada", "bo", "new")] == ["ko", "en", "en"]
        await gateway.app.upkeep.forget_person(SenderId.parse("memory:local:ada"))
        assert await language_of(gateway) == "en"


@pytest.mark.parametrize("first", ["/보기 LG", "/look LG화학"])
@in_virtual_time
async def test_korean_command_or_name_sets_the_language_of_its_buttons(house: House, first: str) -> None:
    async with house.open(commands=[LOOK]) as gateway:
        assert await language_of(gateway, first) == "ko"
        assert (await gateway.ask("/look 051910", kind="action", target="m")).reply == "ko"


@in_virtual_time
async def test_preference_comes_first_and_the_language_of_the_program_last(house: House) -> None:
    async with house.open(CUT, commands=[LOOK]) as gateway:
        assert await language_of(gateway, program="ko-KR") == "ko"
        await gateway.ask("/language ko")
        assert "끊겼습니다" in str((await gateway.ask("How is Samsung?")).reply)
        assert await language_of(gateway) == "ko"
        await gateway.ask("/language auto")
        assert await language_of(gateway, program="ko-KR") == "en"


@in_virtual_time
async def test_directive_and_other_prefix_are_no_words(house: House) -> None:
    settings = CommandSettings(prefix="!")
    async with house.open("네.", CUT, commands=[LOOK], command_settings=settings) as gateway:
        await gateway.ask("애플 어때?")
        assert await language_of(gateway, "!look apple") == "ko"
        assert "cut off" in str((await gateway.ask("!verbose How is Samsung?")).reply)


@pytest.mark.parametrize(("asked", "denied", "other"), [("buy", "Denied", "거부"), ("애플 사줘", "거부", "Denied")])
@pytest.mark.parametrize("group", [{}, {"chat_type": "group", "conversation": "room"}])
@in_virtual_time
async def test_denial_is_said_once_in_one_language(
    house: House, asked: str, denied: str, other: str, group: dict[str, Any]
) -> None:
    broker, crowd = Broker(), [MINA]
    async with house.open(BUY, tools=[broker.tool], people=crowd, consent=None, capabilities=TELEGRAM) as gateway:
        await gateway.ask(asked, mentions_us=True, **group)
        (card,) = gateway.channel.sent
        answer = await press(gateway, card, 1, "mina" if group else "ada", **group)
        (told,) = gateway.channel.sent[1:]
        assert told.text == answer
        assert (denied in answer, other in answer, 'symbol = "AAPL"' in answer) == (True, False, True)
        assert not told.unit.outbound.ephemeral, "who asked must read it too"
