"""What observers hear when a message is ours: where it came from, and whether anybody wrote it."""

from typing import ClassVar

from finclaw.kernel.event import Event


class MessageAccepted(Event, frozen=True, kw_only=True):
    """Also told when a start takes up what the last stop left."""

    name: ClassVar[str] = "message:accepted"
    ticket: int
    channel: str
    account: str
    conversation: str
    unasked: bool = False
    """Nobody wrote it (see `Inbound.unasked`)."""
