"""Crash points: armed by name and count, for real in a child and as an exception at home."""

import os
import signal
import subprocess
import sys

import pytest

from finclaw.diagnostics import crash_points
from finclaw.diagnostics.crash_points import CRASH_POINTS, crash_point
from finclaw.errors import ConfigError
from finclaw.testing import SimulatedCrash, arm_from_environment, crash_at, passings

CHILD = """
from finclaw.diagnostics.crash_points import crash_point
from finclaw.testing import arm_from_environment
arm_from_environment()
for n in range(1, 4):
    crash_point("send:before")
    crash_point("send:after")
    print(n, flush=True)
"""


def child(wish: str | None) -> subprocess.CompletedProcess[str]:
    environ = {key: value for key, value in os.environ.items() if key != "FINCLAW_CRASH"}
    if wish is not None:
        environ["FINCLAW_CRASH"] = wish
    return subprocess.run([sys.executable, "-c", CHILD], env=environ, capture_output=True, text=True, check=False)


def test_a_child_dies_at_the_second_passing():
    done = child("send:after:2")
    assert (done.returncode, done.stdout.split()) == (-signal.SIGKILL, ["1"])


def test_without_a_count_it_is_the_first():
    done = child("send:before")
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, "")


def test_without_the_variable_nothing_happens():
    done = child(None)
    assert (done.returncode, done.stdout.split()) == (0, ["1", "2", "3"])
    assert not arm_from_environment({})


def test_an_unknown_name_suggests_the_nearest():
    with pytest.raises(ConfigError, match=r"no crash point 'send:befor'; did you mean 'send:before'\?"):
        arm_from_environment({"FINCLAW_CRASH": "send:befor:1"})
    with pytest.raises(ConfigError, match="known: accept:before_commit, "):
        arm_from_environment({"FINCLAW_CRASH": "zzz"})


def test_a_count_starts_at_one():
    with pytest.raises(ConfigError, match="counted from 1"):
        arm_from_environment({"FINCLAW_CRASH": "send:before:0"})


def test_in_process_the_nth_passing_raises_once():
    with crash_at("finish:after_commit", 2):
        crash_point("finish:after_commit")
        crash_point("send:before")
        with pytest.raises(SimulatedCrash, match="finish:after_commit"):
            crash_point("finish:after_commit")
        crash_point("finish:after_commit")
    assert crash_points.armed is None


def test_except_exception_does_not_stop_a_crash():
    assert not issubclass(SimulatedCrash, Exception)


def test_another_action():
    seen: list[str] = []
    with crash_at("send:before", action=seen.append):
        crash_point("send:before")
        crash_point("send:before")
    assert seen == ["send:before"]


def test_passings_are_noted_in_order():
    with passings() as passed:
        for name in CRASH_POINTS:
            crash_point(name)
    assert passed == list(CRASH_POINTS)


def test_one_crash_at_a_time():
    with crash_at("send:before"), pytest.raises(RuntimeError, match="already armed"), crash_at("send:after"):
        pass
    assert crash_points.armed is None
