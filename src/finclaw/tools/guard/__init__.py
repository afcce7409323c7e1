"""The guard of a tool's result: the last filter before the model and the store get it."""

from finclaw.tools.guard.options import GuardOptions
from finclaw.tools.guard.result import (
    NO_RESULT,
    TRUNCATED,
    Guarded,
    guard,
    guard_off_loop,
    guard_result,
    strip_traceback,
)

__all__ = [
    "guard",
    "guard_off_loop",
    "Guarded",
    "GuardOptions",
    "strip_traceback",
    "guard_result",
    "NO_RESULT",
    "TRUNCATED",
]
