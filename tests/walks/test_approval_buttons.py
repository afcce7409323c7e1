"""The buttons of an approval card: a press decides as the typed command does, once, and only for who may decide."""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.walks.approvers import met, settled
from tests.walks.deciding import MINA
from tests.walks.house import House, in_virtual_time
from tests.walks.pressing import BUY, TELEGRAM, Broker, buttons, press

from finclaw.policy.rule import Rule
from finclaw.testing import call, reply
from finclaw.testing.channel import PROFILES

pytestmark = pytest.mark.spec("DX-22")


@pytest.mark.parametrize(("asked", "labels"), [("buy", ("Approve", "Deny")), ("애플 사줘", ("승인", "거부"))])
@in_virtual_time
async def test_a_press_approves_exactly_once(house: House, asked: str, labels: tuple[str, ...]) -> None:
    broker = Broker()
    async with house.open(BUY, "Done.", tools=[broker.tool], consent=None, capabilities=TELEGRAM) as gateway:
        await gateway.ask(asked)
        (card,) = gateway.channel.sent
        assert tuple(each.label for each in buttons(card)) == labels
        assert broker.orders == []
        approved = await press(gateway, card, 0)
        assert 'symbol = "AAPL"' in approved
        again = await press(gateway, card, 0)
        assert again.strip()
        assert again != approved
        assert (await press(gateway, card, 1)).strip()
        assert broker.orders == ["AAPL"]
        (approval,) = await gateway.app.approvals(("used",))
        read = [message.text for request in gateway.provider.requests for message in request.messages]
        assert len(gateway.provider.requests) == 2
        assert not any(approval.id[:10] in text for text in read), "no model reads the id"


@in_virtual_time
async def test_a_press_denies(house: House) -> None:
    broker = Broker()
    async with house.open(BUY, tools=[broker.tool], consent=None, capabilities=TELEGRAM) as gateway:
        await gateway.ask("buy")
        await press(gateway, gateway.channel.sent[0], 1)
        assert gateway.said[-1].startswith("Denied")
        assert broker.orders == []


@in_virtual_time
async def test_a_strangers_press_is_refused(house: House) -> None:
    broker = Broker()
    parts: dict[str, Any] = {"tools": [broker.tool], "people": [MINA], "consent": None, "capabilities": TELEGRAM}
    async with house.open(BUY, "Done.", **parts) as gateway:
        room: dict[str, Any] = {"chat_type": "group", "conversation": "room"}
        await gateway.ask("buy", mentions_us=True, **room)
        (card,) = gateway.channel.sent
        for somebody in ("eve", "ada"):
            assert "You may not decide" in await press(gateway, card, 0, somebody, **room)
        assert broker.orders == []
        assert "Approved" in await press(gateway, card, 0, "mina", **room)
        assert broker.orders == ["AAPL"]


@in_virtual_time
async def test_a_press_after_the_time_is_answered_with_a_line(house: House) -> None:
    broker = Broker()
    async with house.open(BUY, tools=[broker.tool], consent=None, capabilities=TELEGRAM) as gateway:
        await gateway.ask("buy")
        (card,) = gateway.channel.sent
        await house.clock.sleep(3_600)
        assert "expired" in (await press(gateway, card, 0)).lower()
        assert broker.orders == []


@pytest.mark.parametrize("capabilities", [PROFILES["plain"], replace(TELEGRAM, authenticated=False)])
@in_virtual_time
async def test_elsewhere_the_card_says_what_to_type_and_has_no_button(house: House, capabilities: Any) -> None:
    broker = Broker()
    parts: dict[str, Any] = {"tools": [broker.tool], "people": [MINA], "consent": None}
    async with house.open(BUY, capabilities=capabilities, **parts) as gateway:
        await gateway.ask("buy")
        (card,) = gateway.channel.sent
        assert buttons(card) == ()
        assert card.text.count("/approve ap-") == card.text.count("/deny ap-") == 1


@in_virtual_time
async def test_two_cards_in_one_message_have_buttons_with_their_ids(house: House) -> None:
    broker = Broker()
    parts: dict[str, Any] = {"tools": [broker.make_tool(moves_money=False)], "capabilities": TELEGRAM}
    two = reply(call("broker__order", {"symbol": "AAPL"}), call("broker__order", {"symbol": "MSFT"}))
    asking = [Rule("*", "require-approval")]
    async with house.open(two, "Done.", rules=asking, consent=None, **parts) as gateway:
        await gateway.ask("buy both")
        (card,) = gateway.channel.sent
        approvals = {each.id: each.args["symbol"] for each in await gateway.app.approvals()}
        assert [each.label.split()[0] for each in buttons(card)] == ["Approve", "Deny"] * 2
        for each in buttons(card):
            assert any(id.startswith(each.label.split()[1]) and id in each.command for id in approvals)
        wanted = next(place for place, each in enumerate(buttons(card)) if approvals[each.command.split()[1]] == "MSFT")
        await press(gateway, card, wanted)
        assert broker.orders == ["MSFT"]


@in_virtual_time
async def test_an_approver_elsewhere_presses_in_their_own_chat(house: House) -> None:
    broker = Broker()
    parts: dict[str, Any] = {"tools": [broker.tool], "people": [MINA], "consent": None, "capabilities": TELEGRAM}
    async with house.open(BUY, "Done.", **parts) as gateway:
        await met(gateway, "mina")
        await gateway.ask("buy", mentions_us=True, chat_type="group", conversation="room")
        await settled(house, gateway)
        card = next(each for each in gateway.channel.sent if each.unit.conversation == "mina" and buttons(each))
        await press(gateway, card, 0, "mina", conversation="mina")
        assert broker.orders == ["AAPL"]
