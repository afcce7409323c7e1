"""How many questions may wait for one person: nobody buries the card that matters under others."""

import asyncio
from typing import Any

import pytest
from tests.walks.approvers import met, read, settled
from tests.walks.deciding import asked, wrote
from tests.walks.house import Gateway, House, in_virtual_time
from tests.walks.tools import Desk

from finclaw.approvals.action import Action
from finclaw.approvals.people import PersonSettings
from finclaw.approvals.settings import ApprovalSettings
from finclaw.errors import ToolDenied
from finclaw.kernel.approval import Approval
from finclaw.kernel.envelope import Inbound
from finclaw.sessions.session_key import session_key
from finclaw.testing import call, reply
from finclaw.transcript.approval_ids import short_id

pytestmark = pytest.mark.spec("DX-22")

MINA = PersonSettings(name="Mina", known_as=("memory:local:mina", "elsewhere:local:m-7"), roles=("approver",))
JUN = PersonSettings(name="Jun", known_as=("memory:local:jun",), roles=("keeper",))
OWNER = PersonSettings(name="Machine", known_as=("web:owner:owner", "api:local:local"))
"""Nobody's approver here."""


def rules(most: int = 3, *approvers: str, own: int = 20) -> ApprovalSettings:
    return ApprovalSettings(approvers=approvers or ("role:approver",), most_per_approver=most, most_waiting=own)


async def from_somebody(gateway: Gateway, number: int, **more: Any) -> Approval:
    """Another person each time, in another group: no session has more than one that waits."""
    return await gateway.app.consents.ask(wish(gateway, number, **more))


def wish(gateway: Gateway, number: int, sender: str = "", **more: Any) -> Action:
    inbound = Inbound(
        text=more.get("text", "buy"),
        channel="memory",
        conversation=f"room-{number}",
        sender=wrote("", sender or f"eve-{number}").sender,
        chat_type="group",
        mentions_us=True,
    )
    ids: dict[str, Any] = {"inbound_id": "m", "turn_id": f"t-{number}", "call_id": more.get("call", "c")}
    session = session_key(gateway.app.settings.agent.name, inbound)
    return Action(tool="broker__order", args={"n": number}, inbound=inbound, session=session, **ids)


@in_virtual_time
async def test_many_sessions_of_many_people_do_not_bury_an_approver_in_cards(house: House) -> None:
    async with house.open(people=[MINA, OWNER], approvals=rules(3)) as gateway:
        await met(gateway, "mina")
        first, *_ = [await from_somebody(gateway, number) for number in range(3)]
        for number in range(3, 9):
            with pytest.raises(ToolDenied, match="everybody who may decide has 3 questions before them already"):
                await from_somebody(gateway, number)
        await settled(house, gateway)
        assert len(read(gateway, "mina")) == 3
        line = (
            "Nobody was asked, and nothing done: broker__order. Too much waits for approval already; try again later."
        )
        assert [read(gateway, f"room-{number}") for number in range(3, 9)] == [[line]] * 6
        await gateway.app.decide(first.id, "denied", wrote("", "mina", conversation="mina"))
        assert (await from_somebody(gateway, 20)).state == "pending", "one is decided, and there is room again"


@in_virtual_time
async def test_time_makes_room_too(house: House) -> None:
    async with house.open(people=[MINA, OWNER], approvals=rules(1)) as gateway:
        await from_somebody(gateway, 1)
        house.clock.advance(301)
        assert (await from_somebody(gateway, 2)).state == "pending"


@in_virtual_time
async def test_whoever_has_room_is_asked_and_the_others_are_spared(house: House) -> None:
    wide = rules(2, "role:approver", "memory:local:jun")
    async with house.open(people=[MINA, JUN, OWNER], approvals=rules(2)) as gateway:
        await met(gateway, "mina", "jun")
        for number in range(2):
            await from_somebody(gateway, number)
    async with house.open(people=[MINA, JUN, OWNER], approvals=wide) as gateway:
        third = await from_somebody(gateway, 2)
        assert [each.name for each in third.sent_to] == ["Jun"]
        await settled(house, gateway)
        assert not any(short_id(third.id) in card for card in read(gateway, "mina"))
        assert [short_id(third.id) in card for card in read(gateway, "jun")] == [True]
        decided = await gateway.app.decide(third.id, "denied", wrote("", "mina", conversation="mina"))
        assert isinstance(decided, Approval), "she may decide all the same, where she finds it"


@in_virtual_time
async def test_what_people_decide_for_themselves_waits_for_nobody_else(house: House) -> None:
    async with house.open(people=[MINA, OWNER], approvals=rules(2)) as gateway:
        for number in range(6):
            inbound = wrote("buy", f"ada-{number}", conversation=f"ada-{number}")
            await asked(gateway, inbound, call=f"c-{number}")
        assert (await from_somebody(gateway, 1)).state == "pending"


@in_virtual_time
async def test_one_person_in_many_sessions_has_no_more_than_in_one(house: House) -> None:
    async with house.open(people=[MINA, OWNER], approvals=rules(40, own=4)) as gateway:
        for number in range(4):
            await from_somebody(gateway, number, sender="eve")
        with pytest.raises(ToolDenied, match="4 actions of theirs wait for a person already"):
            await from_somebody(gateway, 5, sender="eve")
        assert (await from_somebody(gateway, 5, sender="bob")).state == "pending", "the others are not shut out"


@in_virtual_time
async def test_a_turn_taken_up_again_gets_the_one_it_asked_also_when_there_is_no_more_room(house: House) -> None:
    async with house.open(people=[MINA, OWNER], approvals=rules(1)) as gateway:
        first = await from_somebody(gateway, 1)
        assert (await from_somebody(gateway, 1)).id == first.id


@in_virtual_time
async def test_those_who_ask_at_once_do_not_get_in_together(house: House) -> None:
    async with house.open(people=[MINA, OWNER], approvals=rules(3)) as gateway:
        given = await asyncio.gather(*(from_somebody(gateway, number) for number in range(10)), return_exceptions=True)
        assert sum(isinstance(each, Approval) for each in given) == 3
        assert len(await gateway.app.approvals()) == 3


@in_virtual_time
async def test_one_turn_is_told_once_however_often_it_asks(house: House) -> None:
    async with house.open(people=[MINA, OWNER], approvals=rules(1)) as gateway:
        await from_somebody(gateway, 1)
        for number in range(5):
            with pytest.raises(ToolDenied):
                await from_somebody(gateway, 2, call=f"c-{number}", text="사줘")
        await settled(house, gateway)
        (line,) = read(gateway, "room-2")
        assert line.startswith("승인을 기다리는 작업이 이미 너무 많아 묻지도 실행하지도 않았습니다: broker__order.")


@in_virtual_time
async def test_the_model_and_the_person_hear_of_it(house: House) -> None:
    desk = Desk()
    parts: dict[str, Any] = {"tools": [desk.tool("note", group="custom")], "consent": None, "rules": ()}
    script = (reply(call("note", {"text": "a"})), "It was not done.")
    async with house.open(*script, people=[MINA, OWNER], approvals=rules(1), **parts) as gateway:
        await from_somebody(gateway, 1)
        inbound = wrote("note a", "bob")
        outcome = await gateway.outcome(await gateway.channel.deliver(inbound))
        await gateway.app.idle()
        assert outcome.reply == "It was not done."
        assert desk.runs == []
        assert "1 questions before them already" in str(gateway.seen[-1].blocks)
        assert [each for each in read(gateway, "room") if each.startswith("Nobody was asked")] != []


@in_virtual_time
async def test_an_approver_finds_what_is_theirs_behind_any_number_of_others(house: House) -> None:
    """What others decide for themselves is no business of theirs, and does not push theirs out of sight."""
    async with house.open(
        people=[MINA, OWNER], approvals=ApprovalSettings(approvers=("memory:local:mina",))
    ) as gateway:
        theirs = await asked(gateway, wrote("buy", "bob"))
        for number in range(120):
            inbound = wrote("buy", f"ada-{number}", conversation=f"ada-{number}")
            await asked(gateway, inbound, call=f"c-{number}")
        shown = await gateway.app.consents.open_to(wrote("/approvals", "mina", conversation="mina"))
        assert theirs.id in [each.id for each in shown]
