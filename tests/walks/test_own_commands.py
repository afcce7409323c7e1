"""The commands by which people look at a conversation and change how it is answered, in both languages."""

from decimal import Decimal

import pytest
from tests.walks.house import House, in_virtual_time

import finclaw
from finclaw.agent.settings import AgentSettings
from finclaw.approvals.people import PersonSettings
from finclaw.kernel.chunk import Usage
from finclaw.kernel.envelope import Inbound, Sender
from finclaw.providers.settings import ProviderSettings
from finclaw.redaction import Secret
from finclaw.testing import MemoryChannel, ScriptedProvider, reply
from finclaw.testing.channel import PROFILES

HAIKU = AgentSettings(model="anthropic/claude-haiku-4-5")
BOB = PersonSettings(name="Bob", known_as=("memory:local:bob",), roles=("owner",))
PAID = reply("hello", usage=Usage(input=10_000, output=100))
"""One cent for what is read, and a twentieth of one for the answer."""


@in_virtual_time
async def test_status_says_what_holds_here_and_what_waits(house: House) -> None:
    async with house.open("one", agent=HAIKU) as gateway:
        await gateway.ask("hi")
        await gateway.ask("/think low")
        assert ((await gateway.ask("/status")).reply or "").splitlines() == [
            "Model: anthropic/claude-haiku-4-5",
            "Thinking: low (set for this conversation)",
            "Detail: medium",
            f"New messages while I am busy: {gateway.app.settings.sessions.queue.mode}",
            "Messages in this conversation: 2",
            "Messages without an answer yet: 0",
            "Prices: made up, for the demo",
        ]
        assert "이 대화의 메시지: 2개" in ((await gateway.ask("/상태")).reply or "")
        assert gateway.channel.sent[-1].unit.outbound.ephemeral


@in_virtual_time
async def test_a_setting_without_a_value_is_shown_with_where_it_comes_from(house: House) -> None:
    async with house.open("one", agent=HAIKU) as gateway:
        shown = (await gateway.ask("/think")).reply or ""
        assert shown.splitlines()[0] == "Thinking: off (by the settings)"
        await gateway.ask("/verbose")
        assert "생각 수준: off (설정 값)" in ((await gateway.ask("/생각")).reply or "")
        assert "쓸 수 있는 모델: anthropic/claude-haiku-4-5" in ((await gateway.ask("/model")).reply or "")
        queue = (await gateway.ask("/queue")).reply or ""
        assert queue.splitlines()[0] == "답변을 기다리는 메시지가 없습니다."
        assert not gateway.provider.requests


@in_virtual_time
async def test_cost_tells_people_their_own_and_the_owner_everybodys(house: House) -> None:
    async with house.open(PAID, agent=HAIKU, people=[BOB]) as gateway:
        await gateway.ask("hi")
        assert (await gateway.ask("/cost")).reply == "You today: $0.0105\nYou in 30 days: $0.0105"
        assert (await gateway.ask("/비용", sender="bob")).reply == (
            "오늘 내 사용액: $0.00\n최근 30일 내 사용액: $0.00\n오늘 전체 사용액: $0.0105 / 한도 $3"
        )
        await gateway.ask("/cost", chat_type="group", mentions_us=True)
        assert gateway.said[-1].startswith("I answer this only in a direct chat")


@in_virtual_time
async def test_context_grows_with_the_conversation(house: House) -> None:
    async with house.open("word " * 4_000, agent=HAIKU) as gateway:
        before = (await gateway.ask("/context")).reply or ""
        await gateway.ask("hi")
    async with house.open(agent=HAIKU) as gateway:  # without what the script's usage taught about this model's tokens
        after = (await gateway.ask("/context")).reply or ""
        tokens = [int(each.split("about ")[1].split()[0].replace(",", "")) for each in (before, after)]
        assert 3_000 < tokens[1] - tokens[0] < 6_000
        assert "200,000 tokens" in after
        assert "토큰 중 약" in ((await gateway.ask("/문맥")).reply or "")


@in_virtual_time
async def test_a_chosen_language_lasts_for_the_person_wherever_they_write(house: House) -> None:
    async with house.open() as gateway:
        assert (await gateway.ask("/language")).reply is not None
        assert (await gateway.ask("/language ko")).reply == "이제부터 한국어로 답하겠습니다."
        assert ((await gateway.ask("/help", conversation="elsewhere")).reply or "").startswith("일반:")
        assert ((await gateway.ask("/help", sender="grace")).reply or "").startswith("General:")
    async with house.open() as gateway:
        assert ((await gateway.ask("/help")).reply or "").startswith("일반:")
        assert (await gateway.ask("/hlep")).reply == "/hlep 명령은 없습니다. 혹시 /help 명령인가요?"
        assert (await gateway.ask("/language english")).reply == "From now on I answer in English."
        assert (await gateway.ask("/language auto")).kind == "command"
        assert ((await gateway.ask("/help")).reply or "").startswith("General:")
        assert ((await gateway.ask("/도움말")).reply or "").startswith("일반:")


@in_virtual_time
async def test_start_greets_in_both_languages_until_one_is_chosen(house: House) -> None:
    async with house.open() as gateway:
        both = (await gateway.ask("/start")).reply or ""
        assert "Hello!" in both
        assert "안녕하세요" in both
        await gateway.ask("/language ko")
        assert "Hello!" not in ((await gateway.ask("/start")).reply or "")


@pytest.mark.parametrize("command", ["/config", "/debug"])
def test_what_is_the_owners_is_shown_to_the_owner_alone_and_in_private(house: House, command: str) -> None:
    async def walk() -> None:
        async with house.open("one", agent=HAIKU, people=[BOB]) as gateway:
            assert (await gateway.ask(command)).reply == f"{command} is for owner only."
            assert (await gateway.ask(command, sender="bob")).kind == "command"
            in_group = await gateway.ask(command, sender="bob", chat_type="group", mentions_us=True)
            assert (in_group.reply or "").startswith("I answer this only in a direct chat")

    house.clock.run(walk())


async def test_config_shows_settings_and_no_secret(house: House) -> None:
    key = Secret("sk-canary-4242424242424242")
    settings = finclaw.Settings(
        state=house.state,
        agent=HAIKU,
        people=(BOB,),
        providers={"anthropic": ProviderSettings(key=key)},
    )
    channel = MemoryChannel(house.clock, capabilities=PROFILES["telegram"])
    async with finclaw.build(settings, channels=[channel], provider=ScriptedProvider()) as app:
        shown_by = {"/config": "agent.model: anthropic/claude-haiku-4-5", "/config budget": "budget.turn_usd"}
        for text, expected in shown_by.items():
            shown = (await app.handle(Inbound(text=text, channel="memory", sender=Sender("bob")))).reply or ""
            assert expected in shown
            assert "canary" not in shown
        nothing = await app.handle(Inbound(text="/config nonsense", channel="memory", sender=Sender("bob")))
        assert nothing.reply == "There is no setting 'nonsense'."


@in_virtual_time
async def test_debug_tells_how_the_last_answer_was_made(house: House) -> None:
    async with house.open(PAID, agent=HAIKU, people=[BOB]) as gateway:
        assert (await gateway.ask("/debug", sender="bob")).reply == "Nothing was answered here yet."
        answered = await gateway.ask("hi", sender="bob")
        shown = (await gateway.ask("/debug", sender="bob")).reply or ""
        assert shown.startswith(f"turn {answered.turn_id}: completed")
        assert answered.cost == Decimal("0.0105")
        assert "model: anthropic/claude-haiku-4-5" in shown
        assert f"finclaw trace {answered.turn_id}" in shown
