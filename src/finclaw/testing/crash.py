"""Simulated crashes: arms the named points of `finclaw.diagnostics.crash_points`.

A child process dies for real (`FINCLAW_CRASH="finish:after_commit:2"` is SIGKILL at the second passing); a test
in one process gets a `SimulatedCrash`, which no `except Exception` can swallow.
"""

import difflib
import itertools
import os
import signal
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import NoReturn

from finclaw.diagnostics import crash_points
from finclaw.errors import ConfigError

VARIABLE = "FINCLAW_CRASH"


class SimulatedCrash(BaseException):
    """A simulated crash of the process: only what is on disk counts from here."""


def die(name: str) -> NoReturn:
    """End this process as a power switch would: no handlers, no clean-up, no flush."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError(f"still alive after SIGKILL at {name}")


def arm_from_environment(environ: Mapping[str, str] = os.environ) -> bool:
    """Arm what the variable asks for, for the rest of this process. False: it asks for nothing."""
    wish = environ.get(VARIABLE, "")
    if not wish:
        return False
    crash_points.armed = _trigger(*_parse(wish), die)
    return True


@contextmanager
def crash_at(name: str, n: int = 1, action: Callable[[str], object] | None = None) -> Generator[None]:
    """Inside, the n-th passing of the point raises SimulatedCrash, or does `action`. Later passings do nothing."""
    with _arm(_trigger(_check_name(name), _check_positive(n), action or _raise)):
        yield


@contextmanager
def passings() -> Generator[list[str]]:
    """Inside, every passing is noted in the list and nobody dies: shows which points a scenario meets."""
    passed: list[str] = []
    with _arm(passed.append):
        yield passed


@contextmanager
def _arm(callback: Callable[[str], None]) -> Generator[None]:
    if crash_points.armed is not None:
        raise RuntimeError("crash points are already armed; one crash at a time")
    crash_points.armed = callback
    try:
        yield
    finally:
        crash_points.armed = None


def _trigger(name: str, n: int, action: Callable[[str], object]) -> Callable[[str], None]:
    # next() on a count is atomic, and points are passed on more than one thread.
    passing = itertools.count(1)

    def count_passing(point: str) -> None:
        if point == name and next(passing) == n:
            action(point)

    return count_passing


def _raise(name: str) -> NoReturn:
    raise SimulatedCrash(name)


def _parse(wish: str) -> tuple[str, int]:
    """`name` or `name:n`; names have colons themselves, so only a number at the end is a count."""
    name, _, count = wish.rpartition(":")
    if not count.isdecimal():
        return _check_name(wish), 1
    return _check_name(name), _check_positive(int(count))


def _check_name(name: str) -> str:
    points = crash_points.ALL_CRASH_POINTS
    if name not in points:
        near = difflib.get_close_matches(name, points, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(points)}"
        raise ConfigError(f"{VARIABLE}: there is no crash point {name!r}; {hint}")
    return name


def _check_positive(n: int) -> int:
    if n < 1:
        raise ConfigError(f"{VARIABLE}: passings are counted from 1, not {n}")
    return n
