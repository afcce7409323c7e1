"""What policy knows of a tool, read off the tool itself."""

from finclaw.kernel.port import Tool
from finclaw.tools.policy.verdict import ToolFacts


def facts_of(tool: Tool, source: str = "") -> ToolFacts:
    return ToolFacts(
        name=tool.spec.name,
        group=tool.group,
        transactional=tool.transactional,
        requires_approval=tool.approval,
        sensitive=tool.sensitive,
        changes=tool.changes,
        external=bool(tool.upstream),
        source=source,
    )
