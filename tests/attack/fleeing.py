"""Tools that leave somebody behind who has fled: into a session of its own, and away from its parents."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from finclaw.errors import ToolError
from finclaw.tools.define import tool

_SLEEPS = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(120)"


@tool("flee__now", "Flees.", isolation="process", timeout=6.0)
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
        case _:
            raise AssertionError(how)
    while not Path(file).exists() or not Path(file).read_text():
        time.sleep(0.01)
    return _end(then)


def _end(how: str) -> str:
    match how:
        case "gives a result":
            return "fled"
        case "fails":
            raise ToolError("no")
        case "vanishes":
            os._exit(0)
        case "is killed with its group":
            os.killpg(0, signal.SIGKILL)
        case "stops the warden":
            os.kill(os.getppid(), signal.SIGSTOP)
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
