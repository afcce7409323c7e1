"""Groups of tools: what policy says of them where no rule does, and when the model gets to see them."""

from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase
from typing import Final, Literal, assert_never

from msgspec import Struct

from finclaw.kernel.port import Tool
from finclaw.policy.verdict import Verdict

Inclusion = Literal["always", "on-demand", "never"]


class ToolGroup(Struct, frozen=True):
    id: str
    display_name: str
    description: str
    default_policy: Verdict
    include_in_prompt_when: Inclusion


FINANCE: Final = ToolGroup("finance", "Finance", "Prices, charts, portfolios and news of markets.", "allow", "always")
SYSTEM: Final = ToolGroup("system", "System", "Files, processes and the machine.", "require-approval", "on-demand")
WEB: Final = ToolGroup("web", "Web", "Search, and pages as others wrote them.", "allow", "always")
DATA: Final = ToolGroup("data", "Data", "Databases and what is cached.", "require-approval", "on-demand")
COMMUNICATION: Final = ToolGroup("communication", "Communication", "Alerts and messages to people.", "allow", "always")
CUSTOM: Final = ToolGroup(
    "custom", "Custom", "What extensions and skills bring along.", "require-approval", "on-demand"
)
BUILT_IN_GROUPS: Final = (FINANCE, SYSTEM, WEB, DATA, COMMUNICATION, CUSTOM)

AGENT: Final = ToolGroup(
    "agent", "Agent", "Tasks for helpers, whose own calls are judged as their sender's.", "allow", "always"
)
TOOLS: Final = ToolGroup("tools", "Tools", "Finding tools that are not shown yet.", "allow", "always")
GROUPS: Final = (*BUILT_IN_GROUPS, AGENT, TOOLS)
"""The six that an operator thinks in, and two for the gateway's own: they do nothing by themselves."""


def on_demand(tools: Iterable[Tool], show: Collection[str] = ()) -> frozenset[str]:
    """Those that their group keeps back, but for what the settings show by name or pattern."""
    there = tuple(tools)
    return frozenset(tool.spec.name for tool in there) - {tool.spec.name for tool in list_shown(there, asked_for=show)}


def list_shown(
    tools: Iterable[Tool], groups: Iterable[ToolGroup] = GROUPS, asked_for: Collection[str] | None = None
) -> tuple[Tool, ...]:
    """What the model gets to see, in the order given. `asked_for` holds names and patterns: found, or in the settings.

    None says that nobody can ask in this turn, for want of a search: what is on demand would be lost, and is shown.
    """
    known = {group.id: group for group in groups}
    return tuple(tool for tool in tools if _is_shown(tool.spec.name, known.get(tool.group, CUSTOM), asked_for))


def _is_shown(name: str, group: ToolGroup, asked_for: Collection[str] | None) -> bool:
    match group.include_in_prompt_when:
        case "always":
            return True
        case "on-demand":
            return asked_for is None or any(fnmatchcase(name, each) for each in asked_for)
        case "never":
            return False
        case _:
            assert_never(group.include_in_prompt_when)
