"""The directory of persons, and what may be said about one."""

import pytest

from finclaw.errors import ConfigError
from finclaw.kernel.envelope import Inbound, Limits, Sender
from finclaw.kernel.person import Person
from finclaw.pipeline.persons import PersonDirectory, check_fields

MINA = Person(id="telegram:bot:1", language="ko", identities=("telegram:bot:1", "slack:team:U1"))


def by(channel: str, account: str, sender: str, **fields: object) -> Inbound:
    return Inbound(text="hi", channel=channel, account=account, sender=Sender(sender, "N"), **fields)  # pyright: ignore


def test_one_person_behind_all_their_identities() -> None:
    directory = PersonDirectory([MINA])
    assert directory.find(by("telegram", "bot", "1")) == directory.find(by("slack", "team", "U1")) == MINA
    assert directory.find(by("slack", "other", "U1")).id == "slack:other:U1"
    directory.remove(MINA)
    assert directory.find(by("slack", "team", "U1")) == Person(
        id="slack:team:U1", name="N", identities=("slack:team:U1",)
    )


def test_a_helper_works_for_the_person_who_gave_the_task() -> None:
    directory = PersonDirectory([MINA])
    task = by("delegate", "slack", "U1", limits=Limits(pool="subagent", person=MINA.id))
    assert directory.find(task) == MINA
    assert directory.find(by("delegate", "slack", "U1", limits=Limits(pool="subagent"))).id == "slack:U1"


def test_values_are_kept_as_they_are_written_everywhere() -> None:
    given = {"language": " ko ", "timezone": "Asia/Seoul", "currency": "krw", "market": "krx", "colors": "red-up"}
    assert check_fields({**given, "name": "민아", "compliance": "retail"}) == {
        "language": "ko",
        "timezone": "Asia/Seoul",
        "currency": "KRW",
        "market": "KRX",
        "colors": "red-up",
        "name": "민아",
        "compliance": "retail",
    }
    assert check_fields({"language": ""}) == {"language": ""}


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("language", "korean", "language tag"),
        ("language", "EN", "language tag"),
        ("timezone", "Seoul", "did you mean Asia/Seoul"),
        ("timezone", "Mars/Olympus", "IANA"),
        ("currency", "won", "ISO 4217"),
        ("currency", "XXX", "ISO 4217"),
        ("market", "the Korean one", "KRX"),
        ("colors", "blue", "red-up, green-up"),
        ("compliance", "none", "retail, professional, institutional"),
        ("name", "x" * 101, "100"),
        ("name", "a\x1b[31m", "printable"),
        ("roles", "owner", "a person has no 'roles'"),
    ],
)
def test_a_value_that_is_none_is_refused_with_what_to_write(field: str, value: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        check_fields({field: value})
