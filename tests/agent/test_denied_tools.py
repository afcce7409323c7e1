"""The tools of a person: the model is not offered what policy denies to them, and a call is refused all the same."""

from collections.abc import Sequence

import pytest
from msgspec import Struct
from msgspec.structs import replace
from tests.agent.bench import Bench

from finclaw.kernel.port import ToolOutput, ToolScope
from finclaw.policy.condition import Condition
from finclaw.policy.groups import GROUPS, ToolGroup
from finclaw.policy.policy import STAGES, Policy
from finclaw.policy.rule import Rule
from finclaw.testing import call, reply
from finclaw.tools.define import tool


@tool("market__quote", "A price.", group="finance")
async def quote(args: Struct, scope: ToolScope) -> ToolOutput:
    return ToolOutput("187.20")


@tool("files__read", "A file.", group="data")
async def read(args: Struct, scope: ToolScope) -> ToolOutput:
    return ToolOutput("words")


def offered(bench: Bench) -> list[str]:
    """What the model saw in the first request."""
    assert bench.provider is not None
    return [spec.name for spec in bench.provider.requests[0].tools]


def under(*rules: Rule, groups: Sequence[ToolGroup] = GROUPS) -> Bench:
    return Bench(tools=[quote, read], policy=Policy(rules, groups))


@pytest.mark.spec("M-36")
@pytest.mark.parametrize(
    "rule",
    [
        Rule("files__read", "deny"),
        Rule("files__*", "deny", scope="user", who=("local",)),
        Rule("files__*", "deny", scope="channel", who=("api",)),
        Rule("*", "deny", scope="group", who=("data",)),
        Rule("files__read", "deny", scope="tool"),
        Rule("files__read", "deny", scope="agent", who=("main",)),
    ],
    ids=str,
)
def test_the_model_is_not_offered_what_this_person_may_never_use(rule: Rule) -> None:
    bench = under(Rule("*", "allow"), rule)
    bench.run("done")
    assert offered(bench) == ["market__quote"]


@pytest.mark.spec("M-36")
@pytest.mark.parametrize(
    "rule",
    [
        Rule("files__read", "deny", scope="user", who=("somebody-else",)),
        Rule("files__read", "deny", scope="channel", who=("telegram",)),
        Rule("files__read", "deny", when=(Condition(path="path", op="eq", value="/etc/passwd"),)),
        Rule("files__read", "require-approval"),
    ],
    ids=str,
)
def test_what_some_call_of_may_run_is_offered(rule: Rule) -> None:
    bench = under(Rule("*", "allow"), rule)
    bench.run("done")
    assert offered(bench) == ["files__read", "market__quote"]


def test_a_group_that_is_denied_by_default_is_not_offered_unless_a_rule_speaks_of_it() -> None:
    groups = [replace(group, default_policy="deny") if group.id == "data" else group for group in GROUPS]
    bench = under(groups=groups)
    bench.run("done")
    assert offered(bench) == ["market__quote"]
    spoken_of = under(Rule("*", "allow", scope="group", who=("data",)), groups=groups)
    spoken_of.run("done")
    assert offered(spoken_of) == ["files__read", "market__quote"]


def test_a_policy_without_the_stage_that_denies_hides_nothing() -> None:
    """Else a tool that is not offered could be called."""
    stages = [stage for stage in STAGES if stage.name != "global-deny"]
    bench = Bench(tools=[quote, read], policy=Policy([Rule("files__read", "deny"), Rule("*", "allow")], stages=stages))
    bench.run("done")
    assert offered(bench) == ["files__read", "market__quote"]


def test_a_model_that_calls_it_all_the_same_is_told_why_it_may_not() -> None:
    bench = under(Rule("*", "allow"), Rule("files__read", "deny", reason="files are for operators"))
    bench.run(reply(call("files__read")), "done")
    (result,) = bench.results
    assert result.status == "denied"
    assert "files are for operators" in result.content
