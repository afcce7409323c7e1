"""Parts of a system prompt, and the sections that it has."""

from datetime import UTC, datetime
from typing import Any, get_args

from finclaw.agent.prompt.sections import ComplianceLevel, PromptMode, PromptParts, Section
from finclaw.kernel.chunk import Model
from finclaw.kernel.context import Context
from finclaw.kernel.envelope import Capabilities, Inbound, Sender

MODES: tuple[PromptMode, ...] = get_args(PromptMode)


LEVELS: tuple[ComplianceLevel, ...] = get_args(ComplianceLevel)


MODEL = Model("house", "one")


def parts(**changes: Any) -> PromptParts:
    usual: dict[str, Any] = {"models": [MODEL], "tools": ["market__quote", "fx__convert"], "instructions": "Be brief."}
    return PromptParts(**{**usual, **changes})


def context(**changes: Any) -> Context:
    sender = Sender("u-1", "Ada")
    usual: dict[str, Any] = {
        "inbound": Inbound(text="hi", channel="memory", sender=sender),
        "inbound_id": "i",
        "body": "hi",
        "command_text": "hi",
        "sender": sender,
        "session_key": "main:memory:bot:direct:1",
        "agent": "main",
        "capabilities": Capabilities(),
        "accepted_at": datetime(2025, 1, 6, 9, tzinfo=UTC),
    }
    return Context(**{**usual, **changes})


def ids(sections: tuple[Section, ...]) -> list[str]:
    return [section.id for section in sections]


CACHED = [
    "identity",
    "compliance",
    "risk-disclaimer",
    "constraints",
    "tools",
    "finance-context",
    "language",
    "capabilities",
    "formatting",
    "examples",
    "custom",
]


VOLATILE = ["user-context", "channel-context", "current-state", "memory"]
