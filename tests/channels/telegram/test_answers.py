"""Answers on Telegram while they are written, and actions that a person approves by a button."""

from typing import Any

from msgspec import Struct
from tests.channels.telegram.desk import MINA, TEAM, Desk, in_virtual_time
from tests.walks.house import Parts

from finclaw.approvals.people import PersonSettings
from finclaw.kernel.port import ToolOutput, ToolScope
from finclaw.testing import call, reply, say
from finclaw.tools.define import tool

SENTENCES = [f"This is **sentence {number}** of the answer. " for number in range(12)]
PLAIN = "".join(SENTENCES).replace("**", "").strip()


def streamed() -> Any:
    return reply(*[say(each) for each in SENTENCES], pace=0.5)


@in_virtual_time
async def test_an_answer_grows_in_one_message(desk: Desk) -> None:
    async with desk.gateway(streamed()):
        desk.api.write(MINA, "tell me")
        (first,) = await desk.api.until_shown(MINA, 1)
        assert first.text == "This is sentence 0 of the answer."
        await desk.api.until(lambda: first.text == PLAIN)
        assert desk.app is not None
        await desk.app.idle()
    assert desk.api.shown_in(MINA) == [first]
    assert 3 <= first.edits <= 12
    assert all("message is not modified" in each for each in desk.api.errors)


@in_virtual_time
async def test_edits_that_fail_cost_nothing_but_the_preview(desk: Desk) -> None:
    desk.api.world.add_group(TEAM)
    async with desk.gateway(streamed()):
        for fault in ("busy", "broken", "cut", "gateway"):
            desk.api.disturb(fault, method="editMessageText", seconds=2)
        desk.api.write(TEAM, "@finclaw_bot tell me", user=MINA)
        await desk.api.until(lambda: any(each.text == PLAIN for each in desk.api.shown_in(TEAM)))
        assert desk.app is not None
        await desk.app.idle()
    assert [each.text for each in desk.api.shown_in(TEAM)] == [PLAIN]


class Order(Struct):
    symbol: str


@tool("order", "Buys.", transactional=True)
async def order(args: Order, scope: ToolScope) -> ToolOutput:
    return ToolOutput(f"bought {args.symbol}")


@in_virtual_time
async def test_an_action_is_approved_by_a_button(desk: Desk) -> None:
    mina = PersonSettings(name="Mina", known_as=(f"telegram:default:{MINA}",), roles=("owner", "approver"))
    script = (reply(call("order", {"symbol": "AAPL"})), "It was bought.")
    async with desk.gateway(*script, people=[mina], extensions=[Parts(tools=[order])]) as provider:
        desk.api.write(MINA, "buy AAPL")
        await desk.api.until(lambda: any(each.buttons for each in desk.api.shown_in(MINA)))
        (card,) = [each for each in desk.api.shown_in(MINA) if each.buttons]
        assert "AAPL" in card.text
        desk.api.push(desk.api.world.press(card, card.labels[0]))
        await desk.api.until(lambda: "It was bought." in [each.text for each in desk.api.shown_in(MINA)])
        await desk.api.until(lambda: not desk.api.world.presses)
        assert any("bought AAPL" in str(asked.messages) for asked in provider.requests)
    assert desk.api.errors == []
