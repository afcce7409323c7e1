"""The groups of tools, and which tools the model gets to see."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from finclaw.kernel.chunk import ToolSpec
from finclaw.kernel.port import Isolation, ToolOutput, ToolScope
from finclaw.policy.groups import BUILT_IN_GROUPS, GROUPS, ToolGroup, list_shown


@dataclass(frozen=True)
class Plain:
    name: str
    group: str
    transactional: bool = False
    parallel_safe: bool = True
    timeout: float = 1.0
    approval: bool = False
    sensitive: bool = False
    changes: bool = False
    own_results: bool = False
    upstream: str = ""
    isolation: Isolation = "loop"
    quote = None
    spec: ToolSpec = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "spec", ToolSpec(self.name, "", {}))

    async def run(self, args: Any, scope: ToolScope) -> ToolOutput:
        return ToolOutput("")


TOOLS = (
    Plain("market__quote", "finance"),
    Plain("shell__run", "system"),
    Plain("web__search", "web"),
    Plain("db__query", "data"),
    Plain("mail__send", "communication"),
    Plain("garden__water", "custom"),
    Plain("strange__thing", "of-its-own"),
    Plain("tools__search", "tools"),
)
ALWAYS = ["market__quote", "web__search", "mail__send", "tools__search"]


def names(**options: Any) -> list[str]:
    return [tool.spec.name for tool in list_shown(TOOLS, **options)]


@pytest.mark.spec("G-01", "G-02", "G-03", "G-04", "G-05", "G-06", "G-07", "G-08")
def test_the_six_groups() -> None:
    assert [(each.id, each.default_policy, each.include_in_prompt_when) for each in BUILT_IN_GROUPS] == [
        ("finance", "allow", "always"),
        ("system", "require-approval", "on-demand"),
        ("web", "allow", "always"),
        ("data", "require-approval", "on-demand"),
        ("communication", "allow", "always"),
        ("custom", "require-approval", "on-demand"),
    ]
    assert all(each.display_name and each.description for each in BUILT_IN_GROUPS)


@pytest.mark.spec("G-02", "G-04", "G-06", "G-08")
def test_what_is_on_demand_is_shown_when_it_was_asked_for() -> None:
    assert names(asked_for=()) == ALWAYS
    assert names(asked_for={"shell__run"}) == ["market__quote", "shell__run", *ALWAYS[1:]]
    assert "garden__water" in names(asked_for=["garden__*"])
    assert "strange__thing" in names(asked_for=["strange__thing"])


def test_where_nobody_can_ask_nothing_is_lost() -> None:
    assert names() == [tool.name for tool in TOOLS]


@pytest.mark.spec("G-02")
def test_never_is_never() -> None:
    hidden = ToolGroup(
        id="web", display_name="", description="", default_policy="allow", include_in_prompt_when="never"
    )
    groups = [each if each.id != "web" else hidden for each in GROUPS]
    for asked_for in (None, (), ["*"], ["web__search"]):
        assert "web__search" not in names(groups=groups, asked_for=asked_for)


@given(st.lists(st.sampled_from(TOOLS)), st.sets(st.sampled_from([tool.name for tool in TOOLS])))
def test_asking_for_more_shows_no_less_and_keeps_the_order(tools: list[Plain], asked_for: set[str]) -> None:
    few, more = list_shown(tools, asked_for=()), list_shown(tools, asked_for=asked_for)
    assert [tool for tool in more if tool in few] == list(few)
    assert [tool for tool in tools if tool in more] == list(more)
    assert {tool.spec.name for tool in tools} & asked_for <= {tool.spec.name for tool in more}
