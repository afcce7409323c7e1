"""FinClaw: a gateway between people's chats and an agent that answers questions about markets and their own money."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from finclaw.agent.settings import ExtensionRef
    from finclaw.app import App
    from finclaw.composition.gateway import build
    from finclaw.config.load import load_settings
    from finclaw.config.schema import Settings
    from finclaw.errors import FinclawError
    from finclaw.kernel.envelope import Inbound, NewFile, Outbound, Receipt, Sender
    from finclaw.kernel.extension import Extension, ExtensionApi
    from finclaw.kernel.fact import Fact
    from finclaw.kernel.fetch import FetchLimits, FetchReply, FetchRequest, FetchRules
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

# fmt: off
__all__ = [
    "App", "Channel", "Command", "CommandReply", "DeliveryContext", "Extension", "ExtensionApi",
    "ExtensionRef", "Fact", "FetchLimits", "FetchReply", "FetchRequest", "FetchRules",
    "FinclawError", "Inbound", "Message", "MessageContext", "NewFile", "Outbound", "Outcome",
    "Provider", "Receipt", "Secret", "Sender", "Settings", "StepContext", "StepResult", "Tool",
    "ToolCall", "ToolCallContext", "ToolOutput", "ToolResult", "ToolScope", "TurnContext",
    "TurnResult", "build", "load_settings", "tool",
]
# fmt: on

_HOMES = {
    "agent.settings": "ExtensionRef",
    "app": "App",
    "composition.gateway": "build",
    "config.load": "load_settings",
    "config.schema": "Settings",
    "errors": "FinclawError",
    "kernel.envelope": "Inbound NewFile Outbound Receipt Sender",
    "kernel.extension": "Extension ExtensionApi",
    "kernel.fact": "Fact",
    "kernel.fetch": "FetchLimits FetchReply FetchRequest FetchRules",
    "kernel.message": "Message ToolCall ToolResult",
    "kernel.port": "Channel Command CommandReply Provider Tool ToolOutput ToolScope",
    "kernel.scope": "DeliveryContext MessageContext Outcome StepContext StepResult "
    "ToolCallContext TurnContext TurnResult",
    "redaction": "Secret",
    "tools.define": "tool",
}
"""The public names by the module that each is fetched from when it is first used.

So each name stands three times: among the imports, for type checkers, which cannot follow this table; in `__all__`,
which makes it public to them; and here. Plain imports would write it twice, and would load the whole gateway with the
first import of anything: `finclaw --help`, and every command that only asks a running gateway, would take 550 ms of CPU
instead of 90 ms. `tests/house/test_repository.py` compares the three.
"""
_HOME_OF = {name: f"finclaw.{module}" for module, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"finclaw has no {name!r}")
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    """The public names, for who looks around in a notebook: most are not loaded yet."""
    return [*__all__, "__version__"]
