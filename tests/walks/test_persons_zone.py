"""A person with a time zone set: every time that is shown to them is in it."""

import asyncio
import re
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from tests.demo.talk import FixedClock
from tests.walks.approvers import met, read, settled
from tests.walks.deciding import MINA
from tests.walks.house import House, in_virtual_time
from tests.walks.tools import Desk

from finclaw import App, Inbound, Settings, build
from finclaw.policy.rule import Rule
from finclaw.testing import call, reply

ZONES = re.compile(r"\d{1,2}:\d{2}(?::\d{2})? \(?(KST|EST|EDT|UTC|한국 시각|한국 시간)")
QUESTIONS = (
    "what time is it",
    "지금 몇 시야",
    "how much is 3 eth",
    "apple price",
    "삼성전자 얼마야",
    "100 dollars in won",
    "my portfolio",
    "/price AAPL",
    "/price BTC",
    "/시세 삼성전자",
    "/fx 100 USD KRW",
    "/chart AAPL",
)


@pytest.fixture
async def app(tmp_path: Path) -> AsyncGenerator[App]:
    async with build(Settings(state=tmp_path / "state"), clock=FixedClock(), threaded=False) as app:
        yield app


async def zones(app: App, question: str) -> set[str]:
    """The zones of the times in the answer."""
    outcome = await app.handle(Inbound(text=question))
    assert outcome.kind in ("answered", "command"), outcome
    return set(ZONES.findall(outcome.reply or ""))


@pytest.mark.parametrize("question", QUESTIONS)
async def test_times_are_in_the_persons_zone(app: App, question: str) -> None:
    assert await zones(app, question), "the question is answered with a time"
    await app.persons.change("owner", {"timezone": "Africa/Nairobi"})
    shown = (await app.handle(Inbound(text=question))).reply or ""
    assert "EAT" in shown, shown
    assert not ZONES.search(shown), shown
    await app.persons.change("owner", {"timezone": "Asia/Seoul"})
    assert await zones(app, question) <= {"KST", "한국 시각"}


async def test_time_in_every_conversation_is_in_the_persons_zone(app: App) -> None:
    await app.persons.change("owner", {"timezone": "Africa/Nairobi"})
    asked = (app.handle(Inbound(text="what time is it", conversation=name)) for name in ("a", "b"))
    assert all("EAT" in (each.reply or "") for each in await asyncio.gather(*asked))


@in_virtual_time
async def test_an_approval_expires_in_the_persons_zone(house: House) -> None:
    who = "memory:local:ada"
    script = ("hello", reply(call("look", {})))
    rules = [Rule("*", "require-approval")]
    async with house.open(*script, tools=[Desk().tool("look")], rules=rules, consent=None) as gateway:
        await gateway.ask("hi")
        await gateway.app.persons.change(who, {"timezone": "Asia/Seoul"})
        await gateway.ask("go")
        assert re.search(r"Without an answer by \d{2}:\d{2}:\d{2} \(KST\)", gateway.said[-1]), gateway.said


@in_virtual_time
async def test_a_card_in_another_chat_is_in_the_approvers_zone(house: House) -> None:
    script = ("hello", reply(call("look", {})))
    rules = [Rule("*", "require-approval")]
    async with house.open(*script, tools=[Desk().tool("look")], rules=rules, people=[MINA], consent=None) as gateway:
        await gateway.ask("hi")
        await met(gateway, "mina")
        for who, zone in (("mina", "Asia/Seoul"), ("ada", "America/New_York")):
            await gateway.app.persons.change(f"memory:local:{who}", {"timezone": zone})
        await gateway.ask("go", mentions_us=True, chat_type="group", conversation="room")
        await settled(house, gateway)
        assert ZONES.findall(read(gateway, "mina")[0]) == ["KST"]
        assert ZONES.findall(read(gateway, "room")[0]) == ["EST"]
