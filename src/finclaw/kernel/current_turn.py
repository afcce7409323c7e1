"""Which turn this code runs in: known to its task and to all that the task starts, without anybody passing it on."""

from contextvars import ContextVar
from typing import Final

current_turn: Final[ContextVar[str | None]] = ContextVar("finclaw_current_turn", default=None)
