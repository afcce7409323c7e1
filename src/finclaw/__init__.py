"""FinClaw: a gateway between people's chats and an agent that answers questions about markets and their own money."""

from finclaw.app import App, build
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
    "Fact",
    "FinclawError",
    "Inbound",
    "Message",
    "MessageContext",
    "Outbound",
    "Outcome",
    "Provider",
    "Receipt",
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
