"""The choice of a queue mode: what a message does while its session is busy, and who has said so."""

from typing import Final, Literal

from msgspec import Struct

from finclaw.kernel.turn_options import QueueMode

QueueChoice = QueueMode | Literal["auto"]
"""A mode, or that the gateway chooses one by what goes on."""
ModeOrigin = Literal["message", "session", "channel", "settings", "auto", "reply"]
"""Who has said so. `reply`: the message answers a question that the assistant asked its sender."""

RECENT_S: Final = 30.0
"""A message within so many seconds of the last one goes on with what that was about."""
MANY: Final = 3
"""So many that wait are a line."""


class ChosenMode(Struct, frozen=True):
    """The mode in force for one message."""

    mode: QueueMode = "followup"
    origin: ModeOrigin = "auto"


class SessionMoment(Struct, frozen=True, kw_only=True):
    """What goes on in a session at the moment when a message reaches it."""

    has_conversation: bool = False
    """Something was said before, or is being said."""
    is_running: bool = False
    """Another message is being answered."""
    idle_s: float | None = None
    """Seconds since anybody said anything; None: nobody knows."""
    waiting: int = 0
    is_direct: bool = True


def choose_mode(
    message: QueueMode | None,
    session: QueueMode | None,
    channel: QueueChoice | None,
    settings: QueueChoice,
    moment: SessionMoment,
) -> ChosenMode:
    """The first that says something: the message itself, its session, its channel, the settings, else what goes on."""
    if message is not None:
        return ChosenMode(message, "message")
    if session is not None:
        return ChosenMode(session, "session")
    if channel is not None and channel != "auto":
        return ChosenMode(channel, "channel")
    if channel is None and settings != "auto":
        return ChosenMode(settings, "settings")
    return ChosenMode(choose_automatically(moment), "auto")


def choose_automatically(moment: SessionMoment) -> QueueMode:
    """By rules, the first that applies. A line that has formed comes before what a quick message would do."""
    if not moment.has_conversation:
        return "steer"  # there is nothing to join: it simply begins
    if moment.waiting >= MANY:
        return "queue"
    if not moment.is_running and moment.idle_s is not None and moment.idle_s <= RECENT_S:
        return "followup"
    if moment.is_running:
        return "steer" if moment.is_direct else "queue"
    return "followup"
