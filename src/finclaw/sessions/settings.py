"""Settings of sessions."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Annotated, Literal

from msgspec import Meta

from finclaw.kernel.envelope import QueueMode

DropPolicy = Literal["summarise", "old", "new"]
"""What a full line does. `new`: it takes nobody in. `old`: who has waited longest is left out. `summarise`: likewise,
and one line of each is given to the sender's next turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """Settings of a busy conversation."""

    mode: QueueMode = "auto"
    """What a message does while another is being answered. `auto`: in a direct chat `steer`, elsewhere `queue`, and
    `queue` where three wait already. `steer`: it joins the running turn at the next step, if the same person wrote
    both, and what the model had planned is asked anew. `followup` and `queue`: it waits for a turn of its own.
    `collect`: all that wait share one turn. `interrupt`: it stops the running turn of the same person and comes first.
    `steer-backlog`: as `steer`, and what the person wrote before it joins too."""
    cap: Annotated[int, Meta(ge=1, le=1_000)] = 20
    """Messages of a session that may wait; what is running does not count."""
    drop: DropPolicy = "summarise"
    """What happens when more wait, and their sender is told. `summarise`: the oldest is left out, and a line of it is
    kept for the sender's next turn. `old`: it is left out. `new`: the newest is left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """Settings of sessions: how long a conversation goes on."""

    idle_minutes: Annotated[int, Meta(ge=1, le=5_256_000)] | None = None
    """A person who writes after so many minutes of silence starts anew, as after `/reset`. Without it a conversation
    goes on for ever."""

    queue: QueueSettings = field(default_factory=QueueSettings)

    @property
    def idle_limit(self) -> timedelta | None:
        return None if self.idle_minutes is None else timedelta(minutes=self.idle_minutes)
