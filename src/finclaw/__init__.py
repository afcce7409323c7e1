"""FinClaw: a gateway between people's chats and an agent that answers questions about markets and their own money."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from finclaw.agent.settings import ExtensionRef
    from finclaw.app import App
    from finclaw.composition import build
    from finclaw.config.load import load_settings
    from finclaw.config.schema import Settings
    from finclaw.errors import FinclawError
    from finclaw.kernel.envelope import Inbound, Outbound, Receipt, Sender
    from finclaw.kernel.extension import Extension, ExtensionApi
    from finclaw.kernel.fact import Fact
    from finclaw.kernel.message import Message, ToolCall, ToolResult
    from finclaw.kernel.port import Channel, Command, CommandReply, Provider, Tool, ToolOutput, ToolScope
    from finclaw.kernel.scope import (
        DeliveryContext,
        MessageContext,
        Outcome,
        StepContext,
        StepResult,
        ToolCallContext,
        TurnContext,
        TurnResult,
    )
    from finclaw.redaction import Secret
    from finclaw.tools.define import tool

__version__ = "0.1.0"

__all__ = [
    "App",
    "Channel",
    "Command",
    "CommandReply",
    "DeliveryContext",
    "Extension",
    "ExtensionApi",
    "ExtensionRef",
    "Fact",
    "FinclawError",
    "Inbound",
    "Message",
    "MessageContext",
    "Outbound",
    "Outcome",
    "Provider",
    "Receipt",
    "Secret",
    "Sender",
    "Settings",
    "StepContext",
    "StepResult",
    "Tool",
    "ToolCall",
    "ToolCallContext",
    "ToolOutput",
    "ToolResult",
    "ToolScope",
    "TurnContext",
    "TurnResult",
    "build",
    "load_settings",
    "tool",
]

_HOMES = {
    "App": "finclaw.app",
    "Channel": "finclaw.kernel.port",
    "Command": "finclaw.kernel.port",
    "CommandReply": "finclaw.kernel.port",
    "DeliveryContext": "finclaw.kernel.scope",
    "Extension": "finclaw.kernel.extension",
    "ExtensionApi": "finclaw.kernel.extension",
    "ExtensionRef": "finclaw.agent.settings",
    "Fact": "finclaw.kernel.fact",
    "FinclawError": "finclaw.errors",
    "Inbound": "finclaw.kernel.envelope",
    "Message": "finclaw.kernel.message",
    "MessageContext": "finclaw.kernel.scope",
    "Outbound": "finclaw.kernel.envelope",
    "Outcome": "finclaw.kernel.scope",
    "Provider": "finclaw.kernel.port",
    "Receipt": "finclaw.kernel.envelope",
    "Secret": "finclaw.redaction",
    "Sender": "finclaw.kernel.envelope",
    "Settings": "finclaw.config.schema",
    "StepContext": "finclaw.kernel.scope",
    "StepResult": "finclaw.kernel.scope",
    "Tool": "finclaw.kernel.port",
    "ToolCall": "finclaw.kernel.message",
    "ToolCallContext": "finclaw.kernel.scope",
    "ToolOutput": "finclaw.kernel.port",
    "ToolResult": "finclaw.kernel.message",
    "ToolScope": "finclaw.kernel.port",
    "TurnContext": "finclaw.kernel.scope",
    "TurnResult": "finclaw.kernel.scope",
    "build": "finclaw.composition",
    "load_settings": "finclaw.config.load",
    "tool": "finclaw.tools.define",
}
"""Where each name lives. It is fetched when first used: the command line must not load the house to say hello."""


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"finclaw has no {name!r}")
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    """The public names, for who looks around in a notebook: most are not loaded yet."""
    return [*__all__, "__version__"]
