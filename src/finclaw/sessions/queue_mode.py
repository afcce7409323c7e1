"""The choice of a queue mode: what a message does while its session is busy, and who has said so."""

from collections.abc import Mapping
from typing import Final, Literal

from msgspec import Struct

from finclaw.kernel.turn_options import QueueMode

WaitingMode = Literal["followup", "steer", "queue", "collect", "interrupt", "steer-backlog"]
"""The six modes: `QueueMode` without `auto`, which becomes one of them."""
ModeOrigin = Literal["message", "session", "channel", "settings", "auto", "reply"]
"""Who has said so. `reply`: the message answers a question that the assistant asked its sender."""

RECENT_S: Final = 30.0
"""A message within so many seconds of the last one goes on with what that was about."""
MANY: Final = 3
"""So many that wait are a line."""


class ChosenMode(Struct, frozen=True):
    """The mode in force for one message."""

    mode: WaitingMode = "followup"
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


ANSWERS: Final = ChosenMode("followup", "reply")
"""Of a message that answers what its sender was asked: whatever mode is set, it has a turn of its own."""


def choose_mode(said: Mapping[ModeOrigin, QueueMode | None], moment: SessionMoment) -> ChosenMode:
    """By the first that says something, in the order of `said`, and by what goes on where that says `auto`."""
    for origin, mode in said.items():
        if mode == "auto":
            break
        if mode is not None:
            return ChosenMode(mode, origin)
    return ChosenMode(choose_automatically(moment), "auto")


def choose_automatically(moment: SessionMoment) -> WaitingMode:
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
