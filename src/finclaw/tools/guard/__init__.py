"""The last look at a tool's result before the model and the store get it."""

from finclaw.tools.guard.failure import without_traceback
from finclaw.tools.guard.result import Guarded, GuardOptions, guard, guard_off_loop
from finclaw.tools.guard.storable import NO_RESULT, TRUNCATED, guard_result

__all__ = [
    "guard",
    "guard_off_loop",
    "Guarded",
    "GuardOptions",
    "without_traceback",
    "guard_result",
    "NO_RESULT",
    "TRUNCATED",
]
