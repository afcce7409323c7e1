"""Settings of sessions."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Annotated

from msgspec import Meta

from finclaw.sessions.steering import QueueMode


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """Settings of a busy conversation."""

    mode: QueueMode = "followup"
    """What a message does while another is being answered. `followup`: it waits for its turn. `steer`: it joins the
    running turn at the next step, if the same person wrote both, and what the model had planned is asked anew."""


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
