"""Who may decide, and whether anybody can be asked at all."""

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace
from tests.ports.approval_nouns import wish

from finclaw.approvals.people import People, PersonSettings, approvers_for, may_decide, may_revoke, may_still_give
from finclaw.approvals.settings import ApprovalSettings
from finclaw.errors import ConfigError, ToolDenied
from finclaw.kernel.envelope import Inbound, Limits, Sender

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
MINA = PersonSettings(name="Mina", known_as=("memory:local:mina",), roles=("approver",))
PEOPLE = People([MINA])
NOBODY = People([PersonSettings(name="machine", known_as=("web:owner:owner", "api:local:local"))])

pytestmark = pytest.mark.spec("DX-22")


def wrote(sender: str = "ada", **more: Any) -> Inbound:
    return Inbound(text="/approve", channel="memory", conversation="ada", sender=Sender(sender), **more)


def approvers(inbound: Inbound, people: People = PEOPLE, *, authenticated: bool = True, **settings: Any) -> set[str]:
    return set(approvers_for(inbound, people, ApprovalSettings(**settings), authenticated=authenticated))


LISTED = {"role:approver", "role:owner"}


def test_in_a_direct_chat_people_decide_for_themselves_in_a_group_approvers_do() -> None:
    assert approvers(wrote()) == LISTED | {"memory:local:ada"}
    assert approvers(wrote(chat_type="group")) == LISTED
    assert approvers(wrote(chat_type="channel")) == LISTED
    assert approvers(wrote(), own="never") == LISTED
    assert approvers(wrote(), authenticated=False) == LISTED


@pytest.mark.parametrize(
    "inbound",
    [wrote(limits=Limits(pool="subagent")), wrote(limits=Limits(pool="cron")), wrote(chat_type="group")],
    ids=["subagent", "cron", "group"],
)
def test_no_approver_means_no(inbound: Inbound) -> None:
    with pytest.raises(ToolDenied):
        approvers(inbound, NOBODY)


def test_the_only_approver_is_no_approver_of_their_own_wish() -> None:
    with pytest.raises(ToolDenied):
        approvers(wrote("mina"), PEOPLE, own="never", approvers=("role:approver",))
    assert approvers(wrote("ada"), PEOPLE, own="never", approvers=("role:approver",)) == {"role:approver"}


def test_whoever_was_struck_off_the_list_decides_no_more() -> None:
    """The card was shown when they were on it; what counts is who is on it now."""
    asked = replace(wish(AT), approvers=("role:approver", "memory:local:jun", "memory:local:ada"))
    jun, mina = wrote("jun", chat_type="direct"), wrote("mina")
    for settings in (ApprovalSettings(approvers=("memory:local:jun", "role:approver")), ApprovalSettings()):
        assert may_decide(asked, mina, PEOPLE, settings, authenticated=True) is None
    for settings in (ApprovalSettings(), ApprovalSettings(approvers=("role:owner",))):
        assert may_decide(asked, jun, PEOPLE, settings, authenticated=True) == "not_an_approver"
    assert (
        may_decide(asked, mina, PEOPLE, ApprovalSettings(approvers=("role:owner",)), authenticated=True)
        == "not_an_approver"
    )


def test_who_was_listed_in_a_group_does_not_become_the_decider_of_their_own_wish() -> None:
    asked = replace(wish(AT), approvers=("memory:local:ada",), chat_type="group")
    named = ApprovalSettings(approvers=("memory:local:ada",))
    assert may_decide(asked, wrote("ada", chat_type="group"), PEOPLE, named, authenticated=True) is None
    assert may_decide(asked, wrote("ada"), PEOPLE, ApprovalSettings(), authenticated=True) == "not_an_approver"


def test_the_turn_of_an_approved_action_may_ask_again() -> None:
    assert "memory:local:ada" in approvers(wrote(limits=Limits(approval="ap-x")), NOBODY)


SELF = wish(AT, approvers=("memory:local:ada", "role:approver"))
GROUP = replace(wish(AT, approvers=("role:approver", "memory:local:bob")), chat_type="group")


def decided(approval: Any, evidence: Inbound, **settings: Any) -> str | None:
    return may_decide(approval, evidence, PEOPLE, ApprovalSettings(**settings), authenticated=True)


def test_those_who_may() -> None:
    assert decided(SELF, wrote()) is None
    assert decided(SELF, wrote("mina")) is None
    assert decided(SELF, replace(wrote("mina"), conversation="elsewhere", chat_type="group")) is None
    assert decided(GROUP, wrote("bob", chat_type="group"), approvers=GROUP.approvers) is None
    assert decided(SELF, wrote(reply_to="the card")) is None


@pytest.mark.parametrize(
    ("evidence", "why"),
    [
        (wrote("eve"), "not_an_approver"),
        (replace(wrote(), account="other"), "not_an_approver"),
        (replace(wrote(), channel="other"), "not_an_approver"),
        (replace(wrote(), sender=Sender("eve", roles=("approver", "owner"))), "not_an_approver"),
        (replace(wrote(), sender=Sender("")), "not_an_approver"),
        (replace(wrote(), conversation="another"), "elsewhere"),
        (wrote(chat_type="group"), "elsewhere"),
        (wrote(forwarded=True), "forwarded"),
        (wrote(edited=True), "forwarded"),
        (wrote(reissue_of="m-1"), "forwarded"),
        (replace(wrote(), sender=Sender("ada", is_bot=True)), "our_own_words"),
        (replace(wrote(), sender=Sender("ada", is_self=True)), "our_own_words"),
        (wrote(limits=Limits()), "our_own_words"),
        (wrote(from_extension="parts"), "our_own_words"),
    ],
)
def test_those_who_may_not(evidence: Inbound, why: str) -> None:
    assert decided(SELF, evidence) == why


def test_nobody_decides_about_their_own_wish_where_the_settings_say_so() -> None:
    assert decided(SELF, wrote(), own="never") == "own_request"
    mina = replace(SELF, requester=Sender("mina"))
    assert decided(mina, wrote("mina"), own="never") == "own_request"
    assert decided(mina, wrote("mina")) is None


def test_nobody_decides_about_their_own_wish_at_another_door_either() -> None:
    """Two accounts of one person are no four eyes."""
    twice = People([PersonSettings(name="Ada", known_as=("memory:local:ada", "other:bot:7"), roles=("approver",))])
    asked = replace(wish(AT), approvers=("role:approver",))
    there = Inbound(text="/approve", channel="other", account="bot", conversation="7", sender=Sender("7"))
    assert may_decide(asked, there, twice, ApprovalSettings(own="never"), authenticated=True) == "own_request"
    assert may_decide(asked, there, twice, ApprovalSettings(), authenticated=True) is None
    with pytest.raises(ToolDenied):
        approvers(wrote(), twice, own="never", approvers=("role:approver",))


def test_who_may_take_a_standing_yes_back() -> None:
    asked, settings = wish(AT, approvers=("memory:local:jun",)), ApprovalSettings(own="never")
    for sender in ("ada", "mina", "jun"):
        assert may_revoke(asked, wrote(sender, chat_type="group"), PEOPLE, settings, authenticated=True) is None
    assert may_revoke(asked, wrote("eve"), PEOPLE, settings, authenticated=True) == "not_an_approver"
    assert may_revoke(asked, wrote("ada", forwarded=True), PEOPLE, settings, authenticated=True) == "forwarded"
    assert may_revoke(asked, wrote("ada", limits=Limits()), PEOPLE, settings, authenticated=True) == "our_own_words"


def test_a_role_that_was_taken_away_meanwhile_does_not_count() -> None:
    assert (
        may_decide(GROUP, wrote("mina", chat_type="group"), People(), ApprovalSettings(), authenticated=True)
        == "not_an_approver"
    )


@pytest.mark.parametrize("approver", ["owner", "role:", "role:Owner", "a:b", ""])
def test_an_approver_that_is_none_is_refused_at_the_start(approver: str) -> None:
    with pytest.raises(ConfigError, match="approvers"):
        ApprovalSettings(approvers=(approver,))


# ── labels under four eyes ──────────────────────────────────────────────────────────────────────────────────

OWNER = "web:owner:owner"
LABELLED = People(
    [
        PersonSettings(name="Kim", known_as=("web:owner:owner/kim",), roles=("approver",)),
        PersonSettings(name="Mina", known_as=("memory:local:mina", "web:owner:owner/mina"), roles=("approver",)),
    ]
)


def at_web(sender: str) -> Inbound:
    return Inbound(text="/approve", channel="web", account="owner", sender=Sender(sender))


def decides(asker: str, decider: str, people: People = LABELLED) -> str | None:
    asked = replace(
        wish(AT, approvers=LISTED_IN_ORDER), channel="web", account="owner", requester=Sender(asker), conversation="x"
    )
    return may_decide(asked, at_web(decider), people, ApprovalSettings(own="never"), authenticated=True)


LISTED_IN_ORDER = ("role:approver", "role:owner")


@pytest.mark.parametrize(
    ("asker", "decider"),
    [
        ("owner/intern", "owner"),
        ("owner/intern/deep", "owner"),
        ("owner", "owner/kim"),
        ("owner/intern", "owner/kim"),
        ("owner/kim", "owner/mina"),
        ("owner/kim", "owner/kim"),
    ],
)
def test_labels_of_one_token_are_one_pair_of_eyes(asker: str, decider: str) -> None:
    """Security trial H7: whoever holds a token writes under any label of it, so a label decides about no other."""
    assert decides(asker, decider) == "own_request"


def test_another_person_still_decides_about_a_labelled_request() -> None:
    """Security trial H7, the other way: two people stay two, also when one has a label at the other's token."""
    settings = ApprovalSettings(own="never")
    asked = replace(wish(AT, approvers=LISTED_IN_ORDER), channel="web", account="owner", requester=Sender("owner/kim"))
    assert may_decide(asked, wrote("mina"), LABELLED, settings, authenticated=True) is None
    by_mina = wish(AT, approvers=LISTED_IN_ORDER)
    assert (
        may_decide(replace(by_mina, requester=Sender("mina")), at_web("owner"), LABELLED, settings, authenticated=True)
        is None
    )


def test_a_labelled_request_that_only_its_holder_could_decide_is_refused_at_once() -> None:
    """Security trial H7: nobody is asked who may not answer."""
    with pytest.raises(ToolDenied):
        approvers(at_web("owner/intern"), People(), own="never")


def test_a_label_is_known_as_its_holder_too() -> None:
    """Security trial H7."""
    assert People().known_as("web:owner:owner/intern") == ("web:owner:owner/intern", OWNER, "api:local:local")
    assert People().known_as("irc:net/free:bob") == ("irc:net/free:bob",)


def test_a_standing_yes_by_the_holder_of_the_label_does_not_count_under_four_eyes() -> None:
    """Security trial H7: nor does one that was given before `own` became `never`."""
    given = replace(
        wish(AT), channel="web", account="owner", requester=Sender("owner/intern"), decided_by=OWNER, state="granted"
    )
    assert may_still_give(given, People(), ApprovalSettings(own="direct"), authenticated=True)
    assert not may_still_give(given, People(), ApprovalSettings(own="never"), authenticated=True)
