"""Settings of sessions."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated

from msgspec import Meta


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """Settings of sessions: how long a conversation goes on."""

    idle_minutes: Annotated[int, Meta(ge=1, le=5_256_000)] | None = None
    """A person who writes after so many minutes of silence starts anew, as after `/reset`. Without it a conversation
    goes on for ever."""

    @property
    def idle_limit(self) -> timedelta | None:
        return None if self.idle_minutes is None else timedelta(minutes=self.idle_minutes)
