"""What somebody is to agree to."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from finclaw.kernel.envelope import Inbound
from finclaw.kernel.port import Tool


def definition_of(tool: Tool) -> str:
    """The digest of a tool that a server defines; empty for our own. A yes counts for this definition only."""
    return str(getattr(tool, "digest", ""))


class Action(Struct, frozen=True, kw_only=True):
    """What is to be done, and in whose turn. `args` are final: checked, and with their defaults."""

    tool: str
    args: Mapping[str, Any]
    inbound: Inbound
    session: str
    inbound_id: str
    turn_id: str
    call_id: str
    moves_money: bool = True
    quote: Mapping[str, Any] | None = None
    sources: tuple[str, ...] = ()
    definition: str = ""
    """The digest of the tool's definition, where somebody else defines it."""
