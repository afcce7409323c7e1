"""Approvals in a whole gateway: what people are told, when, and that no restart changes it."""

import asyncio

import pytest
from tests.walks.deciding import MINA, asked, state, wrote
from tests.walks.house import Gateway, House, in_virtual_time, until

from finclaw.approvals.messages import decision_message
from finclaw.approvals.people import PersonSettings
from finclaw.approvals.settings import ApprovalSettings
from finclaw.cli.attach import ApprovalsAtRest
from finclaw.config.schema import Settings
from finclaw.diagnostics.event_stream import EventStream
from finclaw.errors import InvalidArguments, StoreFailed, ToolDenied
from finclaw.kernel.approval import Approval, Decision, Refusal
from finclaw.kernel.envelope import Capabilities, Inbound, Limits, Sender
from finclaw.storage.kinds import open_kind
from finclaw.testing import hold, reply
from finclaw.text import language_of
from finclaw.transcript.approval_ids import short_id
from finclaw.web.approvals import evidence
from finclaw.web.principal import OWNER

pytestmark = pytest.mark.spec("DX-22")

ADA = wrote("buy 10 AAPL", "ada", conversation="ada")


async def typed(gateway: Gateway, text: str, sender: str = "mina", **more: str) -> str:
    """What somebody is answered."""
    outcome = await gateway.outcome(await gateway.channel.deliver(wrote(text, sender, **more)))
    await gateway.app.idle()
    return outcome.reply or ""


async def wait(house: House, gateway: Gateway, seconds: float) -> None:
    await house.clock.sleep(seconds)
    await gateway.app.idle()


# ── asking ──────────────────────────────────────────────────────────────────────────────────────────────────


@in_virtual_time
async def test_the_card_is_kept_with_the_question(house: House) -> None:
    async with house.open(people=[MINA]) as gateway:
        approval = await asked(gateway, wrote("AAPL 10주 사줘", "ada"))
        assert approval.card.startswith("승인이 필요합니다")
        assert '• symbol = "AAPL"\n• quantity = 10' in approval.card
        assert (approval.expires_at - approval.asked_at).total_seconds() == 300
        assert approval.scopes == ("once",)
        other = await asked(gateway, ADA, call="2", money=False)
        assert (other.expires_at - other.asked_at).total_seconds() == 1_800
        assert other.approvers == ("memory:local:ada", "role:approver", "role:owner")


@in_virtual_time
async def test_what_nobody_can_decide_is_refused_at_once(house: House) -> None:
    machine = PersonSettings(name="machine", known_as=("web:owner:owner", "api:local:local"))
    async with house.open(people=[machine], capabilities=Capabilities(max_length=400)) as gateway:
        with pytest.raises(ToolDenied, match="nobody here may give it"):
            await asked(gateway, wrote("buy", "ada"))
        with pytest.raises(ToolDenied, match="too long to be shown"):
            await asked(gateway, ADA, args={"note": "x" * 400})
        with pytest.raises(InvalidArguments):
            await asked(gateway, ADA, args={"n": float("nan")})
        assert await gateway.app.approvals() == []


@in_virtual_time
async def test_a_model_that_asks_on_and_on_is_stopped(house: House) -> None:
    async with house.open(people=[MINA]) as gateway:
        first, *_ = [await asked(gateway, ADA, call=f"c-{number}") for number in range(20)]
        with pytest.raises(ToolDenied, match="wait for a person here already"):
            await asked(gateway, ADA, call="one more")
        assert (await asked(gateway, ADA, call="c-0")).id == first.id, "a turn that was taken up again"
        await asked(gateway, wrote("buy", "bob", conversation="bob"), call="elsewhere")
        await typed(gateway, f"/deny {first.id}")
        await asked(gateway, ADA, call="one more")


@in_virtual_time
async def test_a_call_that_asks_for_something_else_is_not_the_one_that_was_asked_for(house: House) -> None:
    """A model may use one name for two calls: the card of the first must not stand for the second."""
    async with house.open() as gateway:
        first = await asked(gateway, ADA, args={"quantity": 1})
        with pytest.raises(ToolDenied, match="has asked for something else already"):
            await asked(gateway, ADA, args={"quantity": 1_000})
        assert [each.id for each in await gateway.app.approvals()] == [first.id]


@in_virtual_time
async def test_arguments_that_change_after_the_question_change_nothing(house: House) -> None:
    async with house.open() as gateway:
        args = {"order": {"quantity": 10}}
        approval = await asked(gateway, ADA, args=args)
        args["order"]["quantity"] = 10_000
        found = await gateway.app.approval(approval.id)
        assert found is not None
        assert found.args == approval.args == {"order": {"quantity": 10}}


@in_virtual_time
async def test_a_channel_that_does_not_know_who_writes_lets_nobody_decide_for_themselves(house: House) -> None:
    async with house.open(capabilities=Capabilities(authenticated=False)) as gateway:
        assert (await asked(gateway, ADA)).approvers == ("role:approver", "role:owner")


# ── the commands ────────────────────────────────────────────────────────────────────────────────────────────


@in_virtual_time
async def test_a_yes_brings_one_turn_into_the_requesters_session(house: House) -> None:
    async with house.open("ok", people=[MINA]) as gateway:
        approval = await asked(gateway, ADA)
        answer = await typed(gateway, f"/approve {approval.id.upper()}", conversation="mina")
        assert answer == f'Approved ({short_id(approval.id)}): broker__order\n• symbol = "AAPL"\n• quantity = 10', (
            "security trial H3b: the action"
        )
        (turn,) = await gateway.app.turns(10)
        story = await gateway.app.turn(turn.turn_id)
        assert story is not None
        assert turn.session == approval.session
        assert story.inbound.limits == Limits(approval=approval.id)
        assert (story.inbound.sender.id, story.inbound.conversation) == ("ada", "ada")


@pytest.mark.parametrize(("words", "language"), [("buy", "en"), ("애플 열 주 사줘", "ko")])
@in_virtual_time
async def test_the_turn_behind_a_yes_speaks_the_language_of_the_question(
    house: House, words: str, language: str
) -> None:
    async with house.open() as gateway:
        approval = await asked(gateway, wrote(words, "ada", conversation="ada"))
    assert approval.language == language
    for verdict in ("granted", "denied"):
        said = decision_message(approval, Decision(verdict=verdict, by="memory:local:ada"))
        assert (language_of(said.text), "broker__order" in said.text) == (language, True)


@in_virtual_time
async def test_whoever_decides_in_korean_is_answered_in_korean(house: House) -> None:
    async with house.open("ok", people=[MINA]) as gateway:
        one, two = [await asked(gateway, ADA, call=each) for each in "12"]
        assert await typed(gateway, f"/승인 {one.id}") == (
            f'승인했습니다 ({short_id(one.id)}): broker__order\n• symbol = "AAPL"\n• quantity = 10'
        )
        answer = await typed(gateway, f"/거부 {two.id.upper()}")
        assert answer.startswith(f"거부하여 실행하지 않습니다 ({short_id(two.id)}): broker__order")


@in_virtual_time
async def test_a_no_is_a_line_for_the_requester_and_no_turn(house: House) -> None:
    async with house.open(people=[MINA]) as gateway:
        approval = await asked(gateway, ADA)
        assert await typed(gateway, f"/deny {approval.id} too much {{money}}", conversation="mina") == (
            f'Denied ({short_id(approval.id)}), and not done: broker__order\n• symbol = "AAPL"\n• quantity = 10'
            "\nReason given: too much {money}"
        )
        (line,) = [each for each in gateway.channel.sent if each.unit.conversation == "ada"]
        assert line.text == (
            'Denied, and not done: broker__order: symbol = "AAPL"; quantity = 10 '
            f"({short_id(approval.id)}). Reason given: too much {{money}}"
        )
        assert await gateway.app.turns(10) == []
        found = await gateway.app.approval(approval.id)
        assert found is not None
        assert (found.state, found.decided_by, found.reason) == ("denied", "memory:local:mina", "too much {money}")


@in_virtual_time
async def test_a_bare_approve_shows_what_waits_and_decides_nothing(house: House) -> None:
    async with house.open(people=[MINA]) as gateway:
        one, two = [await asked(gateway, wrote("buy", "ada"), call=each) for each in "12"]
        for line in ("/approve", "/deny"):
            answer = await typed(gateway, line)
            assert answer.startswith("Which one?")
            assert f'{short_id(one.id)}  broker__order: symbol = "AAPL"; quantity = 10  → ' in answer
            assert short_id(two.id) in answer
        assert await typed(gateway, "/approvals", "eve") == "Nothing waits for your decision."
        assert (await typed(gateway, "/approvals")).count("broker__order") == 2
        assert await typed(gateway, "/승인 그것 좀") == (
            "/approve ID 뒤에는 once, session, always만 적을 수 있습니다. 아무것도 결정하지 않았습니다."
        )
        assert [await state(gateway, each) for each in (one, two)] == ["pending", "pending"]


@in_virtual_time
async def test_a_wider_yes_stands_and_can_be_taken_back(house: House) -> None:
    async with house.open("ok", people=[MINA]) as gateway:
        approval = await asked(gateway, ADA, money=False)
        assert "session / always" in approval.card
        assert (await typed(gateway, f"/approve {approval.id} always")).startswith("Approved")
        (grant,) = await gateway.app.grants()
        assert (grant.requester, grant.session) == ("memory:local:ada", None)
        assert isinstance(await gateway.app.revoke(approval.id, wrote("", "eve")), Refusal)
        assert await gateway.app.revoke(approval.id, wrote("", "mina")) == grant
        assert await gateway.app.grants() == []


@in_virtual_time
async def test_own_requests_are_for_others_where_the_settings_say_so(house: House) -> None:
    async with house.open(people=[MINA], approvals=ApprovalSettings(own="never")) as gateway:
        approval = await asked(gateway, wrote("buy", "mina"))
        assert (await typed(gateway, f"/approve {approval.id}")).startswith("Somebody else has to decide")
        assert await state(gateway, approval) == "pending"


@in_virtual_time
async def test_a_decision_does_not_wait_for_the_turn_that_runs(house: House) -> None:
    go_on = asyncio.Event()
    async with house.open(reply(hold(go_on), "done"), "ok") as gateway:
        approval = await asked(gateway, ADA)
        running = await gateway.channel.deliver(wrote("think long", "ada", conversation="ada"))
        await until(lambda: len(gateway.provider.requests) == 1)
        line = wrote(f"/approve {approval.id}", "ada", conversation="ada")
        decided = await gateway.outcome(await gateway.channel.deliver(line))
        assert (decided.reply or "").startswith("Approved")
        assert await state(gateway, approval) == "granted", "its own turn waits for the one that runs"
        go_on.set()
        await gateway.outcome(running)
        await gateway.app.idle()
        assert len(await gateway.app.turns(10)) == 2


@in_virtual_time
async def test_what_was_decided_without_a_gateway_runs_at_its_next_start(house: House) -> None:
    async with house.open() as gateway:
        approval = await asked(gateway, ADA)
    store = open_kind("sqlite", house.state, house.clock, EventStream().emit, threaded=False)
    here = ApprovalsAtRest(store, Settings(state=house.state), house.clock)
    decided = await here.decide(approval.id, "granted", evidence(OWNER))
    assert isinstance(decided, Approval)
    assert decided.state == "granted"
    await store.close()
    async with house.open("ok") as gateway:
        await gateway.app.idle()
        (turn,) = await gateway.app.turns(10)
        assert turn.session == approval.session


# ── time ────────────────────────────────────────────────────────────────────────────────────────────────────


@in_virtual_time
async def test_a_reminder_at_half_time_and_a_line_at_the_end(house: House) -> None:
    async with house.open() as gateway:
        approval = await asked(gateway, ADA)
        await wait(house, gateway, 149)
        assert gateway.said == []
        await wait(house, gateway, 2)
        assert gateway.said == [
            f'Still waiting for a decision: broker__order: symbol = "AAPL"; quantity = 10 ({short_id(approval.id)}), '
            "until 09:05:00 (UTC)."
        ]
        await wait(house, gateway, 148)
        assert len(gateway.said) == 1
        await wait(house, gateway, 2)
        assert gateway.said[1:] == [
            'Nobody answered in time, so this was not done: broker__order: symbol = "AAPL"; quantity = 10 '
            f"({short_id(approval.id)}). Ask again if you still want it."
        ]
        await wait(house, gateway, 10_000)
        assert len(gateway.said) == 2
        assert await state(gateway, approval) == "expired"


@in_virtual_time
async def test_an_earlier_end_is_noticed_while_a_later_one_is_waited_for(house: House) -> None:
    async with house.open() as gateway:
        slow = await asked(gateway, ADA, money=False)
        await wait(house, gateway, 10)
        quick = await asked(gateway, ADA, call="2")
        await wait(house, gateway, 151)
        assert [short_id(quick.id) in each for each in gateway.said] == [True]
        await wait(house, gateway, 800)
        assert [short_id(slow.id) in each for each in gateway.said] == [False, False, True]


@in_virtual_time
async def test_a_decision_ends_the_reminding(house: House) -> None:
    async with house.open(people=[MINA]) as gateway:
        approval = await asked(gateway, ADA)
        await typed(gateway, f"/deny {approval.id}", conversation="mina")
        told = len(gateway.said)
        await wait(house, gateway, 1_000)
        assert len(gateway.said) == told


@in_virtual_time
async def test_restarts_lose_nothing_and_tell_nothing_twice(house: House) -> None:
    async with house.open() as gateway:
        approval = await asked(gateway, ADA)
        await wait(house, gateway, 151)
        assert len(gateway.said) == 1
    async with house.open() as gateway:
        await wait(house, gateway, 10)
        assert gateway.said == []
        assert [each.id for each in await gateway.app.approvals()] == [approval.id]
    house.clock.advance(1_000)
    async with house.open() as gateway:
        await wait(house, gateway, 1)
        assert len(gateway.said) == 1
        assert "in time" in gateway.said[0]
    async with house.open() as gateway:
        await wait(house, gateway, 1_000)
        assert gateway.said == []


@in_virtual_time
async def test_a_disk_that_fails_delays_a_line_and_loses_none(house: House) -> None:
    house.troubles["expire"] = [StoreFailed("full"), StoreFailed("full")]
    async with house.open() as gateway:
        await asked(gateway, ADA)
        await wait(house, gateway, 330)
        assert [each.split()[0] for each in gateway.said] == ["Still", "Nobody"]


@in_virtual_time
async def test_a_decision_that_the_disk_refuses_is_none(house: House) -> None:
    house.troubles["decide"] = [StoreFailed("full")]
    async with house.open("ok", people=[MINA]) as gateway:
        approval = await asked(gateway, ADA)
        failed = await gateway.outcome(await gateway.channel.deliver(wrote(f"/approve {approval.id}")))
        assert failed.kind == "failed"
        assert await state(gateway, approval) == "pending"
        assert (await typed(gateway, f"/approve {approval.id}")).startswith("Approved")


# ── the agent's side ────────────────────────────────────────────────────────────────────────────────────────


async def granted(gateway: Gateway) -> Approval:
    """Decided in the store alone: no turn runs for it."""
    approval = await asked(gateway, ADA)
    evidence = Inbound(text="", channel="memory", conversation="ada", sender=Sender("ada"))
    decided = await gateway.app.decide(approval.id, "granted", evidence)
    assert isinstance(decided, Approval)
    return decided


@in_virtual_time
async def test_the_action_is_taken_once(house: House) -> None:
    async with house.open(*["ok"] * 3) as gateway:
        consents, approval = gateway.app.consents, await granted(gateway)
        await gateway.app.idle()
        turn = next((each.turn_id for each in await gateway.app.turns(5)), "t-1")
        if await state(gateway, approval) == "granted":
            assert (await consents.take(approval.id, turn, approval.session)).args == approval.args
        with pytest.raises(ToolDenied, match=r"is used|is failed"):
            await consents.take(approval.id, "t-other", approval.session)
        with pytest.raises(ToolDenied, match="there is no such approval"):
            await consents.take("ap-none", turn, approval.session)
        with pytest.raises(ToolDenied, match="there is no such approval"):
            await consents.take(approval.id, turn, "another session")
