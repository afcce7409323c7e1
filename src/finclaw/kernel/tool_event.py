"""What observers hear of tools that keep others waiting, and of those behind them that do not answer."""

from typing import ClassVar, Literal

from finclaw.kernel.event import Event

Circuit = Literal["closed", "open", "half_open"]
"""Open: nobody is let through. Half open: one is, to see whether the others may follow."""


class ToolTimedOut(Event, frozen=True, kw_only=True):
    """Told before the end of a call that took longer than its tool may; `timeout` is in seconds."""

    name: ClassVar[str] = "tool:execute:timeout"
    call_id: str
    tool: str
    timeout: float


class CircuitChanged(Event, frozen=True, kw_only=True):
    """`tool` is the one whose call showed it; all tools with this upstream share the change."""

    name: ClassVar[str] = "tool:circuit:change"
    upstream: str
    tool: str
    before: Circuit
    after: Circuit
