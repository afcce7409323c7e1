"""Who is who: roles come from the settings, by identity, and from nowhere else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from finclaw.approvals.people import People, PersonSettings
from finclaw.errors import ConfigError
from finclaw.ids import identity, parts_of
from finclaw.kernel.envelope import Inbound, Sender

MINA = PersonSettings(name="Mina", known_as=("telegram:bot1:12345",), roles=("approver",))


def wrote(channel: str, account: str, sender: str, *roles: str) -> Inbound:
    return Inbound(text="hi", channel=channel, account=account, sender=Sender(sender, roles=roles))


def test_a_person_has_their_roles_and_no_claimed_ones() -> None:
    people = People([MINA])
    assert people.sender(wrote("telegram", "bot1", "12345", "owner")).roles == ("approver",)
    assert people.sender(wrote("telegram", "bot1", "99", "owner", "approver")).roles == ()
    assert people.sender(wrote("telegram", "bot2", "12345")).roles == ()
    assert people.sender(wrote("discord", "bot1", "12345")).roles == ()


def test_whoever_is_at_the_machine_owns_it_unless_the_settings_say_otherwise() -> None:
    here, program = wrote("web", "owner", "owner"), wrote("api", "local", "local")
    assert People().sender(here).roles == People().sender(program).roles == ("owner",)
    assert People().sender(wrote("web", "owner", "owner/mina")).roles == ()
    locked = People([PersonSettings(name="machine", known_as=("web:owner:owner", "api:local:local"))])
    assert locked.sender(here).roles == locked.sender(program).roles == ()
    assert locked.who("role:owner") == frozenset()


def test_a_role_is_everybody_who_has_it() -> None:
    people = People([MINA])
    assert people.who("role:approver") == {"telegram:bot1:12345"}
    assert people.who("role:owner") == {"web:owner:owner", "api:local:local"}
    assert people.who("role:x:y") == {"role:x:y"}  # somebody on a channel of that name, and no role
    assert people.name("telegram:bot1:12345") == "Mina"
    assert people.name("telegram:bot1:1") == "telegram:bot1:1"


@pytest.mark.parametrize("known_as", ["12345", "telegram:12345", "telegram::1", "a b:c:d", ":a:b"])
def test_an_identity_that_is_none_is_refused(known_as: str) -> None:
    with pytest.raises(ConfigError, match="channel:account:sender-id"):
        PersonSettings(name="x", known_as=(known_as,))


@pytest.mark.parametrize("role", ["", "Owner", "a:b", "own er", "ow\u200bner"])
def test_a_role_is_a_plain_word(role: str) -> None:
    with pytest.raises(ConfigError, match="roles"):
        PersonSettings(name="x", roles=(role,))


def test_nobody_is_two_people() -> None:
    with pytest.raises(ConfigError, match="twice"):
        People([MINA, PersonSettings(name="Other", known_as=MINA.known_as)])


def test_everybody_in_a_list_is_one_person_however_many_doors_they_use() -> None:
    mina = PersonSettings(name="Mina", known_as=("a:1:mina", "b:2:m"), roles=("approver", "owner"))
    people = People([mina, PersonSettings(name="Jun", known_as=("a:1:jun",), roles=("approver",))])
    assert people.behind(("role:approver", "a:1:mina", "role:owner", "c:3:eve", "role:nobody")) == [
        *(("a:1:jun",), ("a:1:mina", "b:2:m")),
        *(("web:owner:owner", "api:local:local"), ("c:3:eve",)),
    ]


@given(st.text(min_size=1), st.text(min_size=1), st.text(min_size=1))
def test_an_identity_reads_back_as_what_it_was_made_of(channel: str, account: str, sender: str) -> None:
    assert parts_of(identity(channel, account, sender)) == (channel, account, sender)
