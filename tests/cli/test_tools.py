"""`finclaw tools list`: every tool, and whether it may run for somebody."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.broker import BROKER
from tests.cli.terminal import finclaw

RULES = """
tools:
  rules:
    - {pattern: "fx__*", verdict: deny, scope: user, who: ["telegram:42"]}
    - {pattern: "alert__*", verdict: deny, when: [{path: price, op: lt, value: 0}]}
"""


@pytest.fixture
def state(tmp_path: Path) -> Path:
    (tmp_path / "broker.py").write_text(BROKER)
    (tmp_path / "broker.py").chmod(0o600)
    (tmp_path / "finclaw.yaml").write_text(f"agent: {{extensions: [./broker.py]}}\n{RULES}")
    return tmp_path


def listed(state: Path, *words: str) -> dict[str, dict[str, Any]]:
    ended = finclaw("tools", "list", *words, "--json", "--state", state)
    assert (ended.code, ended.err) == (0, "")
    return {each["name"]: each for each in json.loads(ended.out)["tools"]}


@pytest.mark.spec("T-02", "T-09", "Y-09")
def test_the_list_for_programs(state: Path) -> None:
    tools = listed(state)
    assert list(tools) == sorted(tools)
    assert tools["order__place"] == {
        "name": "order__place",
        "group": "finance",
        "source": "broker",
        "is_transactional": True,
        "requires_approval": False,
        "accesses_sensitive_data": False,
        "is_external": False,
        "shown": "always",
        "verdict": "require-approval",
        "deciding_stage": "finance-safety",
        "reason": "order__place moves money or cannot be undone, so a person decides",
        "depends_on_arguments": False,
    }
    water, quote = tools["garden__water"], tools["market__quote"]
    assert (water["verdict"], water["deciding_stage"], water["shown"]) == (
        "require-approval",
        "group-policy",
        "always",
    )
    assert (quote["source"], quote["is_transactional"], quote["verdict"]) == ("finance", False, "allow")
    assert tools["alert__add"]["depends_on_arguments"]


@pytest.mark.spec("DX-23")
def test_verdicts_are_for_somebody(state: Path) -> None:
    assert listed(state)["fx__convert"]["verdict"] == "allow"
    assert listed(state, "--user", "42", "--channel", "telegram")["fx__convert"]["verdict"] == "deny"
    assert listed(state, "--user", "telegram:42")["fx__convert"]["verdict"] == "deny"
    assert listed(state, "--user", "42")["fx__convert"]["verdict"] == "allow"  # that is somebody else, on the web


def test_the_list_for_people(state: Path) -> None:
    ended = finclaw("tools", "--state", state)
    assert (ended.code, ended.err) == (0, "")
    head, *rows, note = ended.out.splitlines()
    assert head.split("  ")[0] == "TOOL"
    found = {row.split()[0]: row.split()[1:] for row in rows}
    assert found["order__place"] == ["finance", "broker", "yes", "always", "require-approval", "finance-safety"]
    assert found["alert__add"][-2:] == ["deny*", "global-deny"]
    assert note == "* 3 verdicts without arguments; with them: finclaw explain tool NAME --args JSON"


def test_a_house_without_settings_has_tools(tmp_path: Path) -> None:
    asking = {name for name, row in listed(tmp_path).items() if row["verdict"] != "allow"}
    assert asking == {"memory__save", "memory__forget"}
    assert [*tmp_path.iterdir()] == []


def test_an_extension_that_fails_is_one_line(state: Path) -> None:
    (state / "broker.py").write_text("boom\n")
    ended = finclaw("tools", "list", "--state", state)
    assert ended.code == 1
    assert "broker" in ended.line()


def test_on_demand_is_said_only_where_there_is_a_search(state: Path) -> None:
    """User trial C: without `tool-search` the model gets every tool."""
    assert "on-demand" not in finclaw("tools", "--state", state).out
    file = state / "finclaw.yaml"
    file.write_text(file.read_text().replace("extensions: [", "extensions: [tool-search, "))
    assert "on-demand" in finclaw("tools", "--state", state).out
