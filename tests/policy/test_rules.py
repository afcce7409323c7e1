"""Rules as they are written: what is refused, what is suggested, and how they read in the settings."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from finclaw.config.load import load_settings
from finclaw.config.schema import Settings
from finclaw.errors import ConfigError
from finclaw.kernel.port import Isolation, Tool, ToolOutput, ToolScope
from finclaw.policy.condition import Condition
from finclaw.policy.rule import Rule, check_rules
from finclaw.policy.verdict import ToolFacts, facts_of
from finclaw.tools.define import tool

Read = Callable[[str], Settings]


def named(name: str, group: str = "finance", **others: Any) -> Tool:
    @tool(name, "Does it.", group=group, **others)
    async def run(args: Struct, scope: ToolScope) -> ToolOutput:
        return ToolOutput("done")

    return run


TOOLS = (named("market__quote"), named("market__history"), named("order__place", transactional=True))


@pytest.mark.spec("Y-13", "DX-23b")
@pytest.mark.parametrize("pattern", ["market:*", "", "market quote", "시세*", "a" * 129, "x\n"])
def test_a_pattern_that_can_fit_nothing_is_refused(pattern: str) -> None:
    with pytest.raises(ConfigError, match=r"pattern .* fits no tool"):
        Rule(pattern, "deny")


@pytest.mark.spec("DX-23b")
def test_the_seeds_form_of_a_pattern_is_told_how_it_is_written_now() -> None:
    with pytest.raises(ConfigError, match=r"write finance__\*"):
        Rule("finance:*", "allow")


@pytest.mark.spec("DX-23")
@pytest.mark.parametrize(
    ("scope", "who", "said"),
    [
        ("user", (), "scope user needs `who`"),
        ("channel", ("",), "scope channel needs `who`"),
        ("global", ("ann",), "scope global is for everybody"),
        ("tool", ("ann",), "scope tool is for everybody"),
    ],
)
def test_scope_and_who_must_fit(scope: Any, who: tuple[str, ...], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Rule("*", "deny", scope, who)


def test_to_allow_somebody_something_their_channel_must_be_said() -> None:
    with pytest.raises(ConfigError, match="say on which channel: web:ann"):
        Rule("*", "allow", "user", ("ann",))
    assert Rule("*", "deny", "user", ("ann",)).who == ("ann",)


# ── do they speak of what is there? ─────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("Y-13")
def test_an_unknown_name_stops_the_start_and_all_are_told_at_once() -> None:
    rules = [Rule("market__*", "allow"), Rule("markt__quote", "deny"), Rule("*", "deny", "group", ("finanse",))]
    with pytest.raises(ConfigError) as failed:
        check_rules(rules, TOOLS)
    assert "tools.rules[2] (deny markt__quote): there is no tool 'markt__quote'; did you mean market__quote" in str(
        failed.value
    )
    assert "tools.rules[3] (deny * for group finanse): there is no group 'finanse'; did you mean finance?" in str(
        failed.value
    )


@pytest.mark.spec("Y-13")
def test_a_pattern_that_fits_nothing_yet_is_only_a_warning() -> None:
    rules = [Rule("github__*", "deny"), Rule("market__*", "allow"), Rule("order__place", "deny", "tool")]
    assert check_rules(rules, TOOLS) == ("tools.rules[1]: no tool fits 'github__*' yet",)
    assert check_rules([], ()) == ()


def test_a_group_of_an_extensions_own_is_known() -> None:
    rules = [Rule("*", "deny", "group", ("garden", "web"))]
    assert check_rules(rules, [named("garden__water", "garden")]) == ()


# ── what is known of a tool ─────────────────────────────────────────────────────────────────────────────────


def test_facts_are_read_off_a_tool() -> None:
    assert facts_of(TOOLS[2], "broker") == ToolFacts(
        name="order__place", group="finance", transactional=True, source="broker"
    )


class Own:
    """A tool of somebody's own making, with everything that can be said of one."""

    spec = TOOLS[0].spec
    group = "web"
    transactional = False
    parallel_safe = True
    timeout = 1.0
    approval = True
    sensitive = True
    changes = own_results = False
    upstream = "api.example.com"
    isolation: Isolation = "loop"
    quote = None

    async def run(self, args: Any, scope: ToolScope) -> ToolOutput:
        return ToolOutput("")


def test_what_only_some_tools_say_of_themselves_is_read_too() -> None:
    facts = facts_of(Own())
    assert (facts.requires_approval, facts.sensitive, facts.external) == (True, True, True)


# ── in the settings ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def read(text: str) -> Settings:
        (tmp_path / "finclaw.yaml").write_text(text)
        return load_settings(state=tmp_path, config=None, environ={}, overrides={})

    return read


@pytest.mark.spec("DX-23", "V-09")
def test_rules_are_written_as_they_are(read: Read) -> None:
    settings = read(
        """
tools:
  show: ["garden__*"]
  rules:
    - {pattern: "order__*", verdict: deny, scope: channel, who: [telegram], reason: not from a phone}
    - pattern: order__place
      verdict: require-approval
      scope: tool
      priority: 5
      when:
        - {path: amount, op: gt, value: 1000.5}
        - {path: symbol, op: in, value: [AAPL, "005930"]}
"""
    ).tools
    assert settings.show == ("garden__*",)
    assert settings.rules == (
        Rule("order__*", "deny", "channel", ("telegram",), reason="not from a phone"),
        Rule(
            "order__place",
            "require-approval",
            "tool",
            when=(
                Condition(path="amount", op="gt", value=1000.5),
                Condition(path="symbol", op="in", value=("AAPL", "005930")),
            ),
            priority=5,
        ),
    )


@pytest.mark.spec("V-09")
@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("{verdict: deny}", "finclaw.yaml line 2: tools.rules[1] needs pattern"),
        ("{pattern: '*', verdct: deny}", "unknown key tools.rules[1].verdct; did you mean tools.rules[1].verdict?"),
        ("{pattern: '*', verdict: no}", "tools.rules[1].verdict must be one of allow, deny, require-approval"),
        ("{pattern: '*', verdict: ask}", 'allow, deny, require-approval, not "ask"'),
        ("{pattern: 'a:*', verdict: deny}", "line 2: tools.rules[1].pattern 'a:*' fits no tool"),
        ("{pattern: '*', verdict: deny, scope: user}", "line 2: tools.rules[1].scope user needs `who`"),
        ("{pattern: '*', verdict: deny, scope: usr}", "tools.rules[1].scope must be one of global, user"),
        ("{pattern: '*', verdict: deny, who: ann}", "tools.rules[1].who must be a list"),
        ("{pattern: '*', verdict: deny, priority: high}", "tools.rules[1].priority must be a whole number"),
        ("deny everything", "tools.rules[1] must be a section of `key: value` lines"),
        (
            "{pattern: '*', verdict: deny, when: [{path: a, op: gt, value: 1 USD}]}",
            "tools.rules[1].when[1].op gt of a: its value must be a plain number",
        ),
        ("{pattern: '*', verdict: deny, when: [{path: a, op: more}]}", "tools.rules[1].when[1].op must be one of eq"),
        ("{pattern: '*', verdict: deny, when: [{path: a}]}", "tools.rules[1].when[1] needs op"),
    ],
)
def test_a_mistake_is_named_with_its_place(read: Read, rule: str, said: str) -> None:
    with pytest.raises(ConfigError) as failed:
        read(f"tools:\n  rules: [{rule}]\n")
    assert said in str(failed.value)


def test_what_is_shown_is_a_pattern_too(read: Read) -> None:
    with pytest.raises(ConfigError, match=r"tools\.show is wrong: pattern 'a:b' fits no tool"):
        read("tools: {show: ['a:b']}\n")
