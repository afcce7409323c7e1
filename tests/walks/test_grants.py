"""A yes that stands: who sees it, who takes it back, and how little it lets pass."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.walks.deciding import MINA, asked, wrote
from tests.walks.house import Gateway, House, in_virtual_time
from tests.walks.tools import Desk

from finclaw.kernel.approval import Approval, action_hash
from finclaw.kernel.envelope import Inbound, Sender
from finclaw.kernel.people import Person
from finclaw.testing import call, reply
from finclaw.tools.approval.settings import ApprovalSettings

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
    assert "pproved" in await typed(gateway, f"/approve {approval.id} {scope}", by)
    return approval


# ── in a chat ───────────────────────────────────────────────────────────────────────────────────────────────


@in_virtual_time
async def test_a_person_sees_what_stands_for_them_and_gives_it_up(house: House) -> None:
    async with house.open("ok") as gateway:
        assert await typed(gateway, "/grants") == "Nothing stands: whatever needs a person is asked for each time."
        approval = await granted(gateway)
        shown = await typed(gateway, "/grants")
        assert shown == (
            f"{approval.id}\n"
            '  broker__order: quantity = 10; symbol = "AAPL"\n'
            "  for memory:local:ada, everywhere, until 2025-04-06; approved by memory:local:ada\n"
            "To take one back: /grants revoke ID"
        )
        assert await typed(gateway, f"/grants revoke {approval.id.upper()}") == (
            f"Taken back: broker__order ({approval.id}). It is asked for again from now on."
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
        await typed(gateway, f"/grants {words.format(id=approval.id, short=approval.id[:-2])}")
        assert len(await gateway.app.grants()) == 1


@in_virtual_time
async def test_approvers_see_everybodys_and_strangers_nothing(house: House) -> None:
    async with house.open("ok", people=[MINA]) as gateway:
        approval = await granted(gateway)
        assert approval.id in await typed(gateway, "/grants", "mina")
        assert (await typed(gateway, "/grants", "eve")).startswith("Nothing stands")
        assert (await typed(gateway, f"/grants revoke {approval.id}", "eve")).startswith("You may not take this back")
        assert (await typed(gateway, f"/grants revoke {approval.id}", "mina")).startswith("Taken back")


@in_virtual_time
async def test_where_others_read_along_only_what_was_given_there_is_shown(house: House) -> None:
    async with house.open("ok", "ok", people=[MINA]) as gateway:
        private = await granted(gateway)
        shared = await granted(gateway, by="mina", inbound=wrote("water", "bob"), call="c-2")
        shown = await typed(gateway, "/grants", "mina", conversation="room")
        assert shared.id in shown
        assert private.id not in shown


@pytest.mark.parametrize(
    "more",
    [{"forwarded": True}, {"edited": True}, {"sender": Sender("ada", is_bot=True)}, {"said_by": "memory"}],
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
@settings(max_examples=300)
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
    both = Person(name="Mina", known_as=("memory:local:mina", "other:local:mina"), roles=("approver",))
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
