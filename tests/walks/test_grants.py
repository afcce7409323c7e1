"""A yes that stands: who sees it, who takes it back, and how little it lets pass."""

import re
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.machine import examples
from tests.walks.deciding import MINA, asked, wrote
from tests.walks.house import Gateway, House, in_virtual_time
from tests.walks.tools import Desk

from finclaw.approvals.action import Action
from finclaw.approvals.people import PersonSettings
from finclaw.approvals.settings import ApprovalSettings
from finclaw.kernel.approval import Approval
from finclaw.kernel.envelope import Inbound, Sender
from finclaw.kernel.event import ApprovalChanged
from finclaw.sessions.session_key import session_key
from finclaw.testing import call, reply
from finclaw.transcript.approval_ids import action_hash, short_id

pytestmark = pytest.mark.spec("DX-22")

ADA = wrote("water the plants", "ada", conversation="ada")


async def typed(gateway: Gateway, text: str, sender: str = "ada", **more: Any) -> str:
    more.setdefault("conversation", sender)
    outcome = await gateway.outcome(await gateway.channel.deliver(wrote(text, sender, **more)))
    await gateway.app.idle()
    return outcome.reply or ""


async def granted(
    gateway: Gateway, scope: str = "always", by: str = "ada", inbound: Inbound = ADA, **more: Any
) -> Approval:
    approval = await asked(gateway, inbound, money=False, **more)
    assert re.match("Approved|승인했습니다", await typed(gateway, f"/approve {approval.id} {scope}", by))
    return approval


# ── in a chat ───────────────────────────────────────────────────────────────────────────────────────────────


@in_virtual_time
async def test_a_person_sees_what_stands_for_them_and_gives_it_up(house: House) -> None:
    async with house.open("ok") as gateway:
        assert await typed(gateway, "/grants") == "Nothing stands: whatever needs a person is asked for each time."
        approval = await granted(gateway)
        shown = await typed(gateway, "/grants")
        assert shown == (
            f"{short_id(approval.id)}\n"
            '  broker__order: quantity = 10; symbol = "AAPL"\n'
            "  for memory:local:ada, everywhere, until 2025-04-06; approved by memory:local:ada\n"
            "To take one back: /grants revoke ID"
        )
        assert await typed(gateway, f"/grants revoke {approval.id.upper()}") == (
            f"Taken back: broker__order ({short_id(approval.id)}). It is asked for again from now on."
        )
        assert (await typed(gateway, "/grants")).startswith("Nothing stands")
        assert (await typed(gateway, f"/grants revoke {approval.id}")).startswith("No yes of this id stands.")


@in_virtual_time
async def test_in_korean(house: House) -> None:
    async with house.open("ok") as gateway:
        assert (await typed(gateway, "/허용")).startswith("계속 허용된 작업이 없습니다")
        approval = await granted(gateway, "session")
        shown = await typed(gateway, "/허용")
        assert "대상 memory:local:ada, 한 대화에서" in shown
        assert (await typed(gateway, f"/허용 지워 {approval.id}")).endswith("아무것도 철회하지 않았습니다.")
        assert (await typed(gateway, f"/허용 철회 {approval.id}", "eve")).startswith("이 허용을 철회할 권한이 없습니다")
        assert (await typed(gateway, f"/허용 철회 {approval.id}")).startswith("철회했습니다")
        assert await gateway.app.grants() == []


@pytest.mark.parametrize("words", ["revoke", "revoke {id} now", "drop {id}", "{id}", "revoke {short}", "revoke all"])
@in_virtual_time
async def test_anything_else_takes_nothing_back(house: House, words: str) -> None:
    async with house.open("ok") as gateway:
        approval = await granted(gateway)
        await typed(gateway, f"/grants {words.format(id=approval.id, short=approval.id[:8])}")
        assert len(await gateway.app.grants()) == 1


@in_virtual_time
async def test_approvers_see_everybodys_and_strangers_nothing(house: House) -> None:
    async with house.open("ok", people=[MINA]) as gateway:
        approval = await granted(gateway)
        assert short_id(approval.id) in await typed(gateway, "/grants", "mina")
        assert (await typed(gateway, "/grants", "eve")).startswith("Nothing stands")
        assert (await typed(gateway, f"/grants revoke {approval.id}", "eve")).startswith("You may not take this back")
        assert (await typed(gateway, f"/grants revoke {approval.id}", "mina")).startswith("Taken back")


@in_virtual_time
async def test_where_others_read_along_only_what_was_given_there_is_shown(house: House) -> None:
    async with house.open("ok", "ok", people=[MINA]) as gateway:
        private = await granted(gateway)
        shared = await granted(gateway, by="mina", inbound=wrote("water", "bob"), call="c-2")
        shown = await typed(gateway, "/grants", "mina", conversation="room")
        assert short_id(shared.id) in shown
        assert short_id(private.id) not in shown


@pytest.mark.parametrize(
    "more",
    [{"forwarded": True}, {"edited": True}, {"sender": Sender("ada", is_bot=True)}, {"from_extension": "memory"}],
)
@in_virtual_time
async def test_what_is_no_persons_own_word_takes_nothing_back(house: House, more: dict[str, Any]) -> None:
    async with house.open("ok") as gateway:
        approval = await granted(gateway)
        fields: dict[str, Any] = {"sender": Sender("ada"), "channel": "memory", "conversation": "ada", **more}
        await gateway.app.revoke(approval.id, Inbound(text="", **fields))
        assert len(await gateway.app.grants()) == 1


@in_virtual_time
async def test_an_approver_who_was_named_later_may_take_it_back_too(house: House) -> None:
    async with house.open("ok") as gateway:
        approval = await granted(gateway)
    late = ApprovalSettings(approvers=("memory:local:jun",))
    async with house.open(approvals=late) as gateway:
        assert (await typed(gateway, f"/grants revoke {approval.id}", "jun")).startswith("Taken back")


# ── what it lets pass ───────────────────────────────────────────────────────────────────────────────────────


@in_virtual_time
async def test_once_taken_back_it_is_asked_for_again(house: House) -> None:
    desk = Desk()
    same = reply(call("note", {"text": "a"}))
    parts: dict[str, Any] = {"tools": [desk.tool("note", group="custom")], "consent": None, "rules": ()}
    async with house.open(same, "One.", same, "Two.", same, **parts) as gateway:
        await gateway.ask("note a")
        (waiting,) = await gateway.app.approvals()
        await gateway.ask(f"/approve {waiting.id} always")
        assert (await gateway.ask("again")).reply == "Two."
        assert len(desk.runs) == 2
        await gateway.ask(f"/grants revoke {waiting.id}")
        assert "Approval needed" in ((await gateway.ask("again")).reply or "")
        assert len(desk.runs) == 2


@in_virtual_time
async def test_it_ends_with_its_days(house: House) -> None:
    desk = Desk()
    same = reply(call("note", {"text": "a"}))
    parts: dict[str, Any] = {"tools": [desk.tool("note", group="custom")], "consent": None, "rules": ()}
    async with house.open(same, "One.", same, "Two.", same, "Three.", same, "Four.", **parts) as gateway:
        await gateway.ask("note a")
        (waiting,) = await gateway.app.approvals()
        await gateway.ask(f"/approve {waiting.id} always")
        (grant,) = await gateway.app.grants()
        assert grant.expires_at - grant.granted_at == timedelta(days=90)
        house.clock.advance(89 * 86_400)
        assert (await gateway.ask("again")).reply == "Two."
        house.clock.advance(86_400)
        assert await gateway.app.grants() == []
        assert "Approval needed" in ((await gateway.ask("again")).reply or "")
        assert len(desk.runs) == 2
        (waiting,) = await gateway.app.approvals()
        await gateway.ask(f"/approve {waiting.id} always")
        assert (await gateway.ask("and again")).reply == "Four.", "the one that is over does not stand before the new"
        assert len(desk.runs) == 4


VALUES = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-3, 3) | st.text("aA1 ", max_size=3)
ARGS = st.dictionaries(st.sampled_from(["a", "b", "command"]), VALUES | st.lists(VALUES, max_size=2), max_size=3)


@given(ARGS, ARGS)
@settings(max_examples=examples(300))
def test_it_is_bound_to_the_whole_typed_action_and_to_no_wrapper_of_it(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    """CVE-2026-29607: an "always" for a wrapper would let every command in it pass."""
    same = repr(sorted(one.items())) == repr(sorted(other.items()))
    assert (action_hash("shell__run", one) == action_hash("shell__run", other)) == same
    assert action_hash("shell__run", one) != action_hash("shell", one)


@in_virtual_time
async def test_it_is_one_persons(house: House) -> None:
    """Known by another door, or somebody else in the same group: they are asked."""
    desk = Desk()
    both = PersonSettings(name="Mina", known_as=("memory:local:mina", "other:local:mina"), roles=("approver",))
    same = reply(call("note", {"text": "a"}))
    parts: dict[str, Any] = {
        "tools": [desk.tool("note", group="custom")],
        "consent": None,
        "rules": (),
        "people": [both],
    }
    async with house.open(same, "One.", same, **parts) as gateway:
        assert "Approval needed" in await typed(gateway, "note a", "bob", conversation="room")
        (waiting,) = await gateway.app.approvals()
        await typed(gateway, f"/approve {waiting.id} always", "mina", conversation="room")
        assert len(desk.runs) == 1
        assert "Approval needed" in await typed(gateway, "note a", "eve", conversation="room")
        assert len(desk.runs) == 1


# ── who gave it ─────────────────────────────────────────────────────────────────────────────────────────────

JUN = PersonSettings(name="Jun", known_as=("memory:local:jun",), roles=("approver",))
NOBODY = PersonSettings(name="Mina", known_as=("memory:local:mina",))
"""She is still known, and has no role any more."""


def noting(desk: Desk) -> dict[str, Any]:
    return {"tools": [desk.tool("note", group="custom")], "consent": None, "rules": ()}


SAME = reply(call("note", {"text": "a"}))


async def given_by(house: House, desk: Desk, giver: str, people: list[PersonSettings], where: str = "room") -> Approval:
    async with house.open(SAME, "One.", people=people, **noting(desk)) as gateway:
        await typed(gateway, "note a", "bob", conversation=where)
        (waiting,) = await gateway.app.approvals()
        await typed(gateway, f"/approve {waiting.id} always", giver, conversation=where)
        assert len(desk.runs) == 1
        return waiting


@pytest.mark.parametrize(
    ("people", "rules"),
    [
        ([NOBODY, JUN], ApprovalSettings()),
        ([JUN], ApprovalSettings()),
        ([MINA, JUN], ApprovalSettings(approvers=("role:owner", "memory:local:jun"))),
    ],
    ids=["no role any more", "unknown", "her role no longer counts"],
)
@in_virtual_time
async def test_it_ends_with_the_right_of_whoever_gave_it(
    house: House, people: list[PersonSettings], rules: ApprovalSettings
) -> None:
    desk = Desk()
    given = await given_by(house, desk, "mina", [MINA, JUN])
    async with house.open(SAME, people=people, approvals=rules, **noting(desk)) as gateway:
        assert await gateway.app.grants() == [], "nobody is told that it stands"
        card = await typed(gateway, "note a", "bob", conversation="room")
        assert "Asked again, for the yes that stood came from memory:local:mina, who may no longer give it." in card
        assert len(desk.runs) == 1
        (again,) = await gateway.app.approvals()
        assert again.lapsed == "memory:local:mina"
        changes = [event for event in gateway.events if isinstance(event, ApprovalChanged)]
        assert [(each.change, each.approval_id, each.by) for each in changes][:2] == [
            ("lapsed", given.id, "memory:local:mina"),
            ("asked", again.id, "memory:local:bob"),
        ]
    async with house.open(SAME, people=[MINA, JUN], **noting(desk)) as gateway:
        await typed(gateway, f"/deny {again.id}", "jun", conversation="jun")
        assert "Approval needed" in await typed(gateway, "note a", "bob", conversation="room")
        assert len(desk.runs) == 1, "what has lapsed stays so when she has her role again"


@in_virtual_time
async def test_a_newer_one_of_somebody_who_may_still_give_it_stands(house: House) -> None:
    desk = Desk()
    await given_by(house, desk, "mina", [MINA, JUN])
    # Before anybody has used the first: strangers' words made it ask again.
    async with house.open(people=[NOBODY, JUN], **noting(desk)) as gateway:
        inbound = wrote("note a", "bob")
        newer = await gateway.app.consents.ask(_noted(gateway, inbound))
        await typed(gateway, f"/approve {newer.id} always", "jun", conversation="jun")
    async with house.open(SAME, "Two.", people=[NOBODY, JUN], **noting(desk)) as gateway:
        assert await typed(gateway, "note a", "bob", conversation="room") == "Two."


@in_virtual_time
async def test_ones_own_ends_when_nobody_decides_for_themselves_any_more(house: House) -> None:
    desk = Desk()
    await given_by(house, desk, "bob", [MINA], where="bob")
    async with house.open(SAME, "Two.", people=[MINA], **noting(desk)) as gateway:
        assert await typed(gateway, "note a", "bob") == "Two.", "as it was"
    strict = ApprovalSettings(own="never")
    async with house.open(SAME, people=[MINA], approvals=strict, **noting(desk)) as gateway:
        assert "Approval needed" in await typed(gateway, "note a", "bob")
        assert len(desk.runs) == 2


@in_virtual_time
async def test_one_of_an_approver_for_themselves_in_a_group_ends_with_their_role(house: House) -> None:
    """They were named in the list, and not because the chat was theirs alone."""
    desk = Desk()
    named = ApprovalSettings(approvers=("memory:local:bob",))
    async with house.open(SAME, "One.", approvals=named, **noting(desk)) as gateway:
        await typed(gateway, "note a", "bob", conversation="room")
        (waiting,) = await gateway.app.approvals()
        await typed(gateway, f"/approve {waiting.id} always", "bob", conversation="room")
    async with house.open(SAME, people=[MINA], **noting(desk)) as gateway:
        assert "Approval needed" in await typed(gateway, "note a", "bob", conversation="room")
        assert len(desk.runs) == 1


@in_virtual_time
async def test_a_card_says_it_in_korean(house: House) -> None:
    desk = Desk()
    await given_by(house, desk, "mina", [MINA, JUN])
    async with house.open(SAME, people=[JUN], **noting(desk)) as gateway:
        card = await typed(gateway, "메모해 줘", "bob", conversation="room")
        assert "memory:local:mina 님이 계속 허용했지만 이제는 그럴 권한이 없어 다시 묻습니다." in card


def _noted(gateway: Gateway, inbound: Inbound) -> Action:
    session = session_key(gateway.app.settings.agent.name, inbound)
    ids: dict[str, Any] = {"inbound_id": "m-9", "turn_id": "t-9", "call_id": "c-9"}
    return Action(tool="note", args={"text": "a"}, inbound=inbound, session=session, moves_money=False, **ids)
