"""Which calls could do what a stranger's words ask for: moving money, speaking for the person, carrying words out."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from finclaw.kernel.port import Tool
from finclaw.sessions.conversation import Conversation

SPEAKS_FOR_US: Final = "communication"
"""The group of tools that write to others."""
_GOES_OUT: Final = "web"
_ADDRESS: Final = ("url", "uri")


def may_act(tool: Tool) -> bool:
    """Whether some call of it could."""
    return tool.transactional or tool.approval or tool.group in (SPEAKS_FOR_US, _GOES_OUT)


def acts(tool: Tool, args: Mapping[str, Any], conversation: Conversation) -> bool:
    return tool.transactional or tool.group == SPEAKS_FOR_US or tool.approval or _tells(tool, args, conversation)


def _tells(tool: Tool, args: Mapping[str, Any], conversation: Conversation) -> bool:
    """An address that the model has put together may carry what it knows to whoever is asked for it.

    One that stands in the person's words, or in a page as it was read, carries nothing that is not there already.
    """
    if tool.group != _GOES_OUT:
        return False
    asked = [_bare(value) for key in _ADDRESS if isinstance(value := args.get(key), str)]
    return any(all(address not in text for text in _given(conversation)) for address in asked)


def _bare(address: str) -> str:
    _, _, rest = address.strip().rpartition("://") if address.count("://") == 1 else ("", "", address.strip())
    return rest.rstrip("/")


def _given(conversation: Conversation) -> Iterator[str]:
    """Words that are not the model's own: neither what it said nor what an error repeats of what it asked for."""
    for message in conversation.next_messages:
        if message.source.kind == "user":
            yield message.text
        yield from (result.content for result in message.tool_results if result.origin and result.status == "ok")
