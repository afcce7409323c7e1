"""The fakes that FinClaw's own tests use, shipped so that an extension's tests can use them too.

A scripted model, a channel in memory, a clock in virtual time, crash points, a bad disk, a fake chat service and
a judge of histories. What needs `apsw` or `aiohttp` is loaded when it is first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from finclaw.testing.channel import MemoryChannel, Sent
from finclaw.testing.checker import Verdict, judge
from finclaw.testing.clock import ClockStuck, FakeClock
from finclaw.testing.crash import SimulatedCrash, arm_from_environment, crash_at, passings
from finclaw.testing.history import (
    Acked,
    History,
    HistoryEvent,
    InboundRow,
    ReplySeen,
    Rows,
    SentIn,
    TurnRow,
    UnitRow,
    read_history,
)
from finclaw.testing.platter import Platter
from finclaw.testing.provider import Reply, ScriptedProvider, call, delay, fails, hold, reply, say, think

if TYPE_CHECKING:
    from finclaw.testing.disk import Disk
    from finclaw.testing.loopback import LoopbackChannel
    from finclaw.testing.platform import FakePlatform, SendFault

_WHEN_ASKED: Final = {
    "Disk": "finclaw.testing.disk",
    "FakePlatform": "finclaw.testing.platform",
    "LoopbackChannel": "finclaw.testing.loopback",
    "SendFault": "finclaw.testing.platform",
}

__all__ = [
    "Acked",
    "ClockStuck",
    "Disk",
    "FakeClock",
    "FakePlatform",
    "History",
    "HistoryEvent",
    "InboundRow",
    "LoopbackChannel",
    "MemoryChannel",
    "Platter",
    "Reply",
    "ReplySeen",
    "Rows",
    "ScriptedProvider",
    "SendFault",
    "Sent",
    "SentIn",
    "SimulatedCrash",
    "TurnRow",
    "UnitRow",
    "Verdict",
    "arm_from_environment",
    "call",
    "crash_at",
    "delay",
    "fails",
    "hold",
    "judge",
    "passings",
    "read_history",
    "reply",
    "say",
    "think",
]


def __getattr__(name: str) -> Any:
    if name in _WHEN_ASKED:
        return getattr(import_module(_WHEN_ASKED[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
