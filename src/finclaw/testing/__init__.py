"""Fakes for the tests of an extension: a scripted model, a channel in memory, a virtual clock and crash points."""

from finclaw.testing.channel import MemoryChannel, Sent
from finclaw.testing.clock import ClockStuck, FakeClock
from finclaw.testing.crash import SimulatedCrash, arm_from_environment, crash_at, passings
from finclaw.testing.provider import Reply, ScriptedProvider, call, delay, fails, hold, reply, say, think

__all__ = [
    "ClockStuck",
    "FakeClock",
    "MemoryChannel",
    "Reply",
    "ScriptedProvider",
    "Sent",
    "SimulatedCrash",
    "arm_from_environment",
    "call",
    "crash_at",
    "delay",
    "fails",
    "hold",
    "passings",
    "reply",
    "say",
    "think",
]
