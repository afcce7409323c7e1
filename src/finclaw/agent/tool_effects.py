"""Effects of tool calls that a stranger could ask for: moving money, speaking for the person, sending words out."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from finclaw.kernel.envelope import Inbound
from finclaw.kernel.message import Append, Replace
from finclaw.kernel.port import Tool
from finclaw.sessions.conversation import Conversation
from finclaw.taint.named_addresses import NamedAddresses

SPEAKS_FOR_US: Final = "communication"
"""The group of tools that write to others."""
_GOES_OUT: Final = "web"


def may_act(tool: Tool) -> bool:
    """Whether some call of it could."""
    return tool.transactional or tool.approval or tool.changes or tool.group in (SPEAKS_FOR_US, _GOES_OUT)


class ToolEffects:
    """A judge of what a tool call could do."""

    def __init__(self, find: Callable[[str], Tool | None]) -> None:
        """`find` gives a tool by its name."""
        self._find = find

    def acts(
        self, tool: Tool, args: Mapping[str, Any], conversation: Conversation, asked_by: Inbound, call_id: str
    ) -> bool:
        if tool.transactional or tool.approval or tool.changes or tool.group == SPEAKS_FOR_US:
            return True
        return tool.group == _GOES_OUT and self._carries_out(tool, args, conversation, asked_by, call_id)

    def _carries_out(
        self, tool: Tool, args: Mapping[str, Any], conversation: Conversation, asked_by: Inbound, call_id: str
    ) -> bool:
        """What the model has put together may carry what it knows to whoever is asked for it.

        An address that stands in the person's words, or in a page as it was read, carries nothing but the choice.
        """
        named = NamedAddresses(asked_by, self._goes_out, self._writes_itself)
        # With what was taken out again in this turn: a page that is gone has used up its share all the same.
        added = (event.message for event in conversation.events if isinstance(event, Append | Replace))
        named.read((*conversation.base_messages, *added), before=call_id)
        return not named.allow(tool, args)

    def _goes_out(self, name: str) -> Tool | None:
        tool = self._find(name)
        return tool if tool is not None and tool.group == _GOES_OUT else None

    def _writes_itself(self, name: str) -> bool:
        """Whether its results are a model's words, or nobody knows: an address in them was named by no page."""
        tool = self._find(name)
        return tool is None or tool.group == "agent"
