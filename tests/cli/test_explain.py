"""`finclaw explain tool`: every stage's word, and which one decided."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.broker import BROKER
from tests.cli.terminal import finclaw

NINE = [
    "global-deny",
    "global-allow",
    "user-deny",
    "user-allow",
    "channel-policy",
    "group-policy",
    "tool-policy",
    "finance-safety",
    "default-policy",
]
RULES = """
tools:
  rules:
    - {pattern: "market__*", verdict: deny, scope: channel, who: [telegram], reason: not from a phone}
    - {pattern: "garden__*", verdict: allow, scope: user, who: ["web:owner"]}
    - {pattern: "*", verdict: deny, scope: role, who: [guest]}
    - {pattern: order__place, verdict: deny, scope: tool, when: [{path: amount, op: gt, value: 1000}]}
    - {pattern: "*", verdict: allow, priority: 1000000}
"""
POST = """
from finclaw.tools.define import tool

@tool("letter__send", "Sends a letter.", group="communication")
def letter(text: str) -> str:
    return "sent"

@tool("seal__stamp", "Stamps.", group="finance", approval=True)
def stamp(text: str) -> str:
    return "stamped"

name = "post"

def register(api):
    api.tools.register(letter)
    api.tools.register(stamp)
"""
House = Callable[[str], Path]


@pytest.fixture
def house(tmp_path: Path) -> House:
    """A state directory with a broker and these settings."""

    def house(settings: str) -> Path:
        (tmp_path / "broker.py").write_text(BROKER)
        (tmp_path / "broker.py").chmod(0o600)
        (tmp_path / "finclaw.yaml").write_text(f"agent: {{extensions: [./broker.py]}}\n{settings}")
        return tmp_path

    return house


def explained(state: Path, *words: str) -> dict[str, Any]:
    ended = finclaw("explain", "tool", *words, "--json", "--state", state)
    assert (ended.code, ended.err) == (0, "")
    return json.loads(ended.out)


@pytest.mark.spec("Y-12", "Y-09", "DX-23")
def test_every_stage_is_shown_for_programs(house: House) -> None:
    told = explained(house(RULES), "order__place", "--args", '{"amount": "999.99"}')
    assert (told["verdict"], told["deciding_stage"]) == ("require-approval", "finance-safety")
    assert [each["stage"] for each in told["stages"]] == NINE
    assert told["tool"]["transactional"] is True
    assert (told["user"], told["roles"], told["channel"]) == ("web:owner", ["owner"], "web")
    assert told["args"] == {"amount": "999.99"}


@pytest.mark.parametrize(
    ("words", "verdict", "stage"),
    [
        (["market__quote"], "allow", "global-allow"),
        (["market__quote", "--user", "42", "--channel", "telegram"], "deny", "channel-policy"),
        (["market__quote", "--user", "ann", "--role", "guest", "--role", "x"], "deny", "user-deny"),
        (["order__place", "--args", '{"amount": 1000.01}'], "deny", "tool-policy"),
        (["order__place", "--args", '{"amount": 1000}'], "require-approval", "finance-safety"),
        (["garden__water"], "allow", "global-allow"),
    ],
)
def test_who_asks_and_how_decides(house: House, words: list[str], verdict: str, stage: str) -> None:
    told = explained(house(RULES), *words)
    assert (told["verdict"], told["deciding_stage"]) == (verdict, stage)


def test_the_words_for_people(house: House) -> None:
    ended = finclaw("explain", "tool", "garden__water", "--state", house(RULES))
    lines = ended.out.splitlines()
    assert lines[:2] == [
        "garden__water, group custom, from broker",
        "for web:owner (owner) on web, agent main",
    ]
    assert [line.removeprefix(">").split()[0] for line in lines[2:11]] == NINE
    assert [line.split()[1] for line in lines if line.startswith(">")] == ["global-allow"]
    assert "require-approval  default of group custom; lifted by global-allow" in ended.out
    assert lines[-1] == "allow, by global-allow: rule: allow *"


def test_rules_about_arguments_without_arguments_are_told_of(house: House) -> None:
    state = house(RULES)
    last = finclaw("explain", "tool", "order__place", "--state", state).out.splitlines()[-1]
    assert last.endswith("were judged without any; give them with --args JSON.")
    given = finclaw("explain", "tool", "order__place", "--args", "{}", "--state", state).out.splitlines()[-1]
    assert given.startswith("deny, by tool-policy")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["tool", "market__qoute"], "there is no tool 'market__qoute'; did you mean market__quote"),
        (["tool", "quote"], "there is no tool 'quote'; did you mean market__quote"),
        (["tool", "zzz"], "there is no tool 'zzz'; `finclaw tools list` shows them all"),
        (["tol", "market__quote"], "one tool at a time"),
        (["tool"], "which tool?"),
        ([], "the following arguments are required: NAME"),
        (["tool", "market__quote", "--args", "amount=5"], "--args: this is no JSON; quote it for your shell"),
        (["tool", "market__quote", "--args", "[1]"], "--args: arguments are a JSON object"),
        (["tool", "market__quote", "--args", "[" * 100_000], "--args: this is no JSON"),
    ],
)
def test_what_is_wrongly_typed_is_one_line(house: House, words: list[str], said: str) -> None:
    ended = finclaw("explain", *words, "--state", house(""))
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.line()


@pytest.mark.spec("G-07", "Y-12")
@pytest.mark.parametrize(
    ("tool", "plain", "after"),
    [
        ("letter__send", "allow", ("require-approval", "group-policy")),
        ("web__fetch", "allow", ("require-approval", "group-policy")),
        ("market__quote", "allow", ("allow", "global-allow")),
        ("order__place", "require-approval", ("require-approval", "finance-safety")),
        ("seal__stamp", "allow", ("require-approval", "tool-policy")),
    ],
)
def test_the_verdict_after_strangers_words_stands_beside_the_plain_one(
    house: House, tool: str, plain: str, after: tuple[str, str]
) -> None:
    """No allow of the operator's lifts it."""
    state = house('tools: {rules: [{pattern: "*", verdict: allow, priority: 1000000}]}\n')
    (state / "post.py").write_text(POST)
    (state / "post.py").chmod(0o600)
    settings = (state / "finclaw.yaml").read_text().replace("./broker.py", "./broker.py, ./post.py, web")
    (state / "finclaw.yaml").write_text(settings)
    told = explained(state, tool, "--args", "{}", "--strangers")
    assert told["verdict"] == plain
    assert (told["after_strangers"]["verdict"], told["after_strangers"]["deciding_stage"]) == after
    assert "after_strangers" not in explained(state, tool, "--args", "{}")
    said = finclaw("explain", "tool", tool, "--args", "{}", "--strangers", "--state", state).out
    first, _, second = said.partition("after untrusted text was read:\n")
    assert first.splitlines()[-1].startswith(plain)
    assert any(line.startswith(f"{after[0]}, by {after[1]}: ") for line in second.splitlines())
    assert ("as before" in second) is (tool == "web__fetch")


@pytest.mark.spec("Y-13")
@pytest.mark.parametrize("command", [("explain", "tool", "market__quote"), ("tools", "list")])
def test_a_rule_about_a_tool_that_is_not_there_is_one_line(house: House, command: tuple[str, ...]) -> None:
    ended = finclaw(*command, "--state", house("tools: {rules: [{pattern: order__plce, verdict: deny}]}\n"))
    assert ended.code == 2
    assert (
        "tools.rules[1] (deny order__plce): there is no tool 'order__plce'; did you mean order__place" in ended.line()
    )


def test_a_strangers_text_is_harmless_at_the_terminal(house: House) -> None:
    state = house('tools: {rules: [{pattern: "*", verdict: deny, reason: "a\\e[31mb\\nc"}]}\n')
    ended = finclaw("explain", "tool", "market__quote", "--state", state)
    assert ended.code == 0
    assert "\x1b" not in ended.out
    assert len(ended.out.splitlines()) == 4


def test_it_changes_nothing(house: House) -> None:
    state = house(RULES)
    before = sorted(path.name for path in state.iterdir() if path.name != "__pycache__")
    explained(state, "market__quote")
    assert sorted(path.name for path in state.iterdir() if path.name != "__pycache__") == before


@pytest.mark.spec("V-09")
def test_the_settings_are_shown_and_checked(house: House) -> None:
    state = house(RULES)
    assert finclaw("config", "check", "--state", state).code == 0
    shown = json.loads(finclaw("config", "show", "--json", "--state", state).out)
    assert shown["tools.rules"]["value"][0]["reason"] == "not from a phone"
    assert shown["tools.rules"]["doc"].startswith("The policy, such as")
    assert "tools.show" in shown
    assert "not from a phone" in finclaw("config", "show", "--state", state).out


def test_the_tool_alone_is_enough(house: House) -> None:
    """User trial C: `finclaw explain market__quote` was no choice."""
    state = house("")
    short = finclaw("explain", "market__quote", "--state", state)
    assert (short.code, short.out) == (0, finclaw("explain", "tool", "market__quote", "--state", state).out)
