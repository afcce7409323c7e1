"""Tools that leave somebody behind who has fled: into a session of its own, and away from its parents."""

import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

from finclaw.errors import ToolError
from finclaw.tools.define import tool

OBSOLETE = 10

_SLEEPS = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(120)"


@tool("flee__now", "Flees.", isolation="process", timeout=60.0)
def flee(how: str, then: str, file: str) -> str:
    match how:
        case "session":
            subprocess.Popen([sys.executable, "-c", _SLEEPS, file], start_new_session=True)
        case "orphan":
            _twice_removed(file)
        case "bare orphan":
            _twice_removed(file, environment={})
        case "fork without a program":
            _fork_of_a_fork(file)
        case "relay":
            _relay(file)
        case _:
            raise AssertionError(how)
    while not Path(file).exists() or not Path(file).read_text():
        time.sleep(0.01)
    return _end(then)


@tool("flee__unmark", "Tries to look like nobody's.", isolation="process")
def unmark() -> str:
    endless = resource.RLIM_INFINITY
    for limits in ((0, endless), (endless, endless), (1, 1)):
        try:
            resource.setrlimit(OBSOLETE, limits)
        except ValueError as error:
            refused = str(error)
        else:
            return f"{limits} was taken"
    return refused


def _end(how: str) -> str:  # noqa: C901, PLR0912  one case for each way to end
    match how:
        case "gives a result":
            return "fled"
        case "fails":
            raise ToolError("no")
        case "vanishes":
            os._exit(0)
        case "is killed with its group":
            os.killpg(0, signal.SIGKILL)
        case "stops the supervisor":
            os.kill(os.getppid(), signal.SIGSTOP)
        case "kills the supervisor":
            os.kill(os.getppid(), signal.SIGKILL)
        case "stops and kills the supervisor":
            os.kill(os.getppid(), signal.SIGSTOP)
            os.kill(os.getppid(), signal.SIGKILL)
        case "kills the gateway and the supervisor":
            supervisor = os.getppid()
            gateway = int(Path(f"/proc/{supervisor}/stat").read_text().rpartition(")")[2].split()[1])
            for each in (gateway, supervisor):
                os.kill(each, signal.SIGSTOP)
            for each in (gateway, supervisor):
                os.kill(each, signal.SIGKILL)
        case "has a child kill the supervisor":
            subprocess.Popen(["kill", "-9", str(os.getppid())], start_new_session=True)
        case _:
            pass
    while True:
        time.sleep(1)


def _twice_removed(file: str, environment: dict[str, str] | None = None) -> None:
    if os.fork() == 0:
        os.setsid()
        subprocess.Popen([sys.executable, "-c", _SLEEPS, file], start_new_session=True, env=environment)
        os._exit(0)


def _fork_of_a_fork(file: str) -> None:
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.setsid()
            Path(file).write_text(str(os.getpid()))
            time.sleep(120)
        os._exit(0)


def _relay(file: str) -> None:
    """Nobody in it lives for long: each has a child and goes."""
    if os.fork() > 0:
        return
    while True:
        os.setsid()
        with open(f"{file}.part", "w") as out:
            out.write(str(os.getpid()))
        os.rename(f"{file}.part", file)
        if os.fork() > 0:
            os._exit(0)
