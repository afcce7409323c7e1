"""What policy knows of a tool, read off the tool itself."""

from finclaw.kernel.port import Tool
from finclaw.tools.policy.verdict import ToolFacts


def facts_of(tool: Tool, source: str = "") -> ToolFacts:
    # The port does not name these three yet, and a tool of somebody's own may lack them for ever.
    return ToolFacts(
        name=tool.spec.name,
        group=tool.group,
        transactional=bool(tool.transactional),
        requires_approval=bool(getattr(tool, "approval", False)),
        sensitive=bool(getattr(tool, "sensitive", False)),
        external=bool(getattr(tool, "upstream", "")),
        source=source,
    )
