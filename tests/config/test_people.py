"""The settings `people` and `approvals`: what loads, and how what does not is told."""

from pathlib import Path

import pytest

from finclaw.config.load import load_settings
from finclaw.config.schema import Settings
from finclaw.errors import ConfigError

pytestmark = pytest.mark.spec("DX-22")


def load(where: Path, text: str) -> Settings:
    (where / "finclaw.yaml").write_text(text, encoding="utf-8")
    return load_settings(state=where, environ={})


def test_people_are_named_with_their_roles(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        "people:\n  - {name: 미나, known_as: ['telegram:bot1:12345'], roles: [approver]}\n  - {name: Ada}\n"
        "approvals: {approvers: ['role:approver', 'telegram:bot1:7'], own: never}\n",
    )
    mina, ada = settings.people
    assert (mina.name, mina.known_as, mina.roles) == ("미나", ("telegram:bot1:12345",), ("approver",))
    assert (ada.known_as, ada.roles) == ((), ())
    assert settings.approvals.approvers == ("role:approver", "telegram:bot1:7")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("people: [{name: A, known_as: ['12345']}]", "channel:account:sender-id"),
        ("people: [{name: A, roles: [Big Boss]}]", "small letters"),
        ("people: [{known_as: ['a:b:c']}]", "needs name"),
        ("people: [{name: A, is: ['a:b:c']}]", "unknown key"),
        ("people: [{name: A, known_as: ['a:b:c']}, {name: B, known_as: ['a:b:c']}]", "people names a:b:c twice"),
        ("approvals: {approvers: [owner]}", "role:NAME"),
        ("approvals: {own: always}", "approvals.own"),
        ("approvals: {expire_s: 1}", "approvals.expire_s"),
    ],
)
def test_what_does_not_fit_is_told_with_its_place(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    assert words in str(caught.value)
    assert "finclaw.yaml" in str(caught.value)
