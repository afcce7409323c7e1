"""`finclaw people`: who is known, and saying how they like to be answered, with and without a gateway."""

import json
from pathlib import Path

import pytest
from tests.cli.gateway_process import serving
from tests.cli.in_process import typed

from finclaw.cli.main import main


@pytest.fixture
def state(tmp_path: Path) -> Path:
    (tmp_path / "finclaw.yaml").write_text(
        'people:\n  - {name: Mina, known_as: ["telegram:bot1:7", "slack:t:U7"], roles: [approver]}\n', "utf-8"
    )
    return tmp_path


def test_nobody_is_known_where_nothing_was_ever_stored(tmp_path: Path) -> None:
    ended = typed("people", "list", "--state", tmp_path / "none")
    assert (ended.code, ended.out.startswith("nobody is known yet")) == (0, True)


def test_set_show_and_list(state: Path) -> None:
    changed = typed("people", "set", "Mina", "--timezone", "Asia/Seoul", "--currency", "krw", "--state", state)
    assert changed.code == 0, changed.err
    shown = typed("people", "show", "slack:t:U7", "--state", state).out
    lines = [line.split(maxsplit=1) for line in shown.splitlines()]
    assert ["person", "telegram:bot1:7"] in lines
    assert ["timezone", "Asia/Seoul"] in lines
    assert ["currency", "KRW"] in lines
    assert ["language", "not set"] in lines
    assert ["roles", "approver"] in lines
    head, *rows = typed("people", "list", "--state", state).out.splitlines()
    assert head.split()[:3] == ["PERSON", "NAME", "ROLES"]
    assert [row.split()[:3] for row in rows] == [
        ["telegram:bot1:7", "Mina", "approver"],
        ["web:owner:owner", "owner", "owner"],
    ]
    assert typed("people", "set", "Mina", "--timezone", "", "--state", state).code == 0
    record = json.loads(typed("people", "show", "Mina", "--json", "--state", state).out)
    assert (record["person"]["timezone"], record["roles"]) == ("", ["approver"])


def test_a_person_is_shown_with_what_they_watch(state: Path) -> None:
    assert typed("people", "set", "Mina", "--language", "ko", "--state", state).out.splitlines()[-1].split() == [
        "watching",
        "nothing",
    ]
    assert typed("ask", "/watch add AAPL 005930", "--state", state).code == 0
    record = json.loads(typed("people", "show", "owner", "--json", "--state", state).out)
    assert record["watching"] == ["AAPL", "005930"]


@pytest.mark.spec("M-24")
def test_a_person_is_shown_with_when_and_what_they_asked(state: Path) -> None:
    assert "messages" not in typed("people", "show", "owner", "--state", state).out, "nothing is known yet"
    assert typed("ask", "/price AAPL", "--state", state).code == 0
    shown = dict(line.split(maxsplit=1) for line in typed("people", "show", "owner", "--state", state).out.splitlines())
    assert (shown["messages"], shown["topics"]) == ("1", "AAPL")
    assert shown["first"].startswith("contact")
    assert shown["last"].startswith("contact")
    assert "liked" not in shown, "nobody has reacted"


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("set", "Mina", "--timezone", "Seoul"), "did you mean Asia/Seoul?"),
        (("set", "Mina", "--currency", "won"), "such as KRW or USD"),
        (("set", "Mina", "--language", "Korean"), "such as ko, en or en-GB"),
        (("set", "Mina"), "say what to set: --name"),
        (("set", "Nobody", "--language", "ko"), "`finclaw people list`"),
        (("show", "Nobody"), "`finclaw people list`"),
    ],
)
def test_mistakes_are_told_with_what_to_do(state: Path, args: tuple[str, ...], says: str) -> None:
    ended = typed("people", *args, "--state", state)
    assert ended.code != 0
    assert says in ended.err


def test_beside_a_running_gateway(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(state):
        assert main(["people", "set", "Mina", "--language", "ko", "--json", "--state", str(state)]) == 0
        assert json.loads(capsys.readouterr().out)["person"]["language"] == "ko"
        assert main(["people", "list", "--json", "--state", str(state)]) == 0
        found = json.loads(capsys.readouterr().out)["items"]
        assert [(each["person"]["name"], each["person"]["language"]) for each in found] == [
            ("Mina", "ko"),
            ("owner", ""),
        ]
        assert main(["people", "show", "nobody", "--state", str(state)]) != 0
