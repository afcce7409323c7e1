"""A policy's question about a tool call, its verdict, and a program's own way to ask a person."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal

from msgspec import Struct, field

from finclaw.kernel.port import Tool, ToolScope

Verdict = Literal["allow", "deny", "require-approval"]

Word = Verdict | Literal["continue"]
"""What one stage says; `continue` when it has nothing to say."""


class ToolFacts(Struct, frozen=True, kw_only=True):
    """What policy must know of a tool. `external`: it reaches for somebody else's machine."""

    name: str
    group: str = "custom"
    transactional: bool = False
    requires_approval: bool = False
    sensitive: bool = False
    changes: bool = False
    external: bool = False
    source: str = ""


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


class PolicyContext(Struct, frozen=True, kw_only=True):
    """One call: which tool, for whom, from where, with which arguments.

    `user` is `channel:id`, as in the books; a helper's call is the call of the person who sent it, from their channel.
    `untrusted`: a stranger's text, such as a web page, has been read, and this call could do what that asks for.
    `overheard`: in this shared chat somebody else wrote too, so what is asked for may be their wish.
    """

    tool: ToolFacts
    user: str = ""
    roles: tuple[str, ...] = ()
    channel: str = ""
    agent: str = ""
    session: str = ""
    args: Mapping[str, Any] = field(default_factory=dict[str, Any])
    untrusted: bool = False
    overheard: bool = False


class StageVerdict(Struct, frozen=True):
    """`is_default`: nobody wrote a rule for it, so an explicit allow lifts it; `lifted_by` is the stage that did.

    A `warning` is worth a line in the log, whatever the verdict.
    """

    stage: str
    verdict: Word
    reason: str = ""
    is_default: bool = False
    lifted_by: str = ""
    warning: str = ""


class Judgement(Struct, frozen=True):
    """The answer, who gave it and why, and what every stage said that was asked."""

    verdict: Verdict
    reason: str
    deciding_stage: str
    stages: tuple[StageVerdict, ...]


Consent = Callable[[Tool, Mapping[str, Any], ToolScope], Awaitable[bool]]
"""A program's own way to ask a person at once, for those who build a gateway into something else.

It asks an authenticated person about exactly these arguments. True means they said yes."""


async def nobody(tool: Tool, args: Mapping[str, Any], scope: ToolScope) -> bool:
    """The consent of a gateway without approvers: no."""
    return False
