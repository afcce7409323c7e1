"""A supervisor process: it starts a program that may not be trusted to end, and kills all orphans that it leaves.

When either of the two exits, so does everything that the program has started. `main` is the supervisor itself, in a
fresh interpreter that knows nothing of ours and never runs a stranger's code; `program.py` starts it. On Linux only.
"""

import json
import os
import signal
import sys
from collections.abc import Sequence
from typing import Final

from finclaw.tools.process.process_tree import (
    become_subreaper,
    die_with_parent,
    kill_descendants,
    set_dumpable,
    set_marker_rlimits,
)

ASK_TO_EXIT: Final = signal.SIGHUP  # SIGTERM means: kill it, with all it has started
_BEGIN: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from finclaw.tools.process.supervisor import main; main()"
)
_NOT_STARTED: Final = 127


def build_supervisor_command(command: Sequence[str], status_pipe: int) -> list[str]:
    """Start it in a session of its own. It writes 0 or an errno into the status pipe, and closes that when it exits."""
    # The environment is inherited: anybody may read a command line.
    arguments = [json.dumps(sys.path), str(os.getpid()), str(status_pipe)]
    return [sys.executable, "-I", "-S", "-c", _BEGIN, *arguments, *command]


def main() -> None:
    gateway = int(sys.argv[2])
    status_pipe = int(sys.argv[3])
    command = sys.argv[4:]
    os.set_inheritable(status_pipe, False)
    environment = _read_initial_environment()
    become_subreaper()
    set_dumpable(dumpable=False)
    supervisor = os.getpid()
    failure, writes = os.pipe()
    program = os.fork()
    if program == 0:
        _exec_program(command, environment, supervisor, writes)

    def ask_to_exit(*_: object) -> None:
        os.killpg(program, signal.SIGTERM)

    signal.signal(ASK_TO_EXIT, ask_to_exit)
    signal.signal(signal.SIGTERM, _kill_tree_and_exit)
    die_with_parent(gateway, signal.SIGTERM)
    _release_pipes(writes)
    os.write(status_pipe, (os.read(failure, 16) or b"0") + b"\n")
    while os.wait()[0] != program:  # the others are orphans that became our children
        pass
    _kill_tree_and_exit()


def _kill_tree_and_exit(*_: object) -> None:
    kill_descendants(os.getpid())
    os._exit(0)


def _release_pipes(failure: int) -> None:
    """Close the program's own pipes: a reader that waits for the end of one must not wait for us."""
    os.close(failure)
    nothing = os.open(os.devnull, os.O_RDWR)
    for each in range(3):
        os.dup2(nothing, each)


def _read_initial_environment() -> dict[bytes, bytes]:
    """The environment as we were started with it, without what Python has added by itself."""
    with open("/proc/self/environ", "rb") as file:
        parts = (each.partition(b"=") for each in file.read().split(b"\0") if each)
        return {name: value for name, _, value in parts}


def _exec_program(command: list[str], environment: dict[bytes, bytes], supervisor: int, failure: int) -> None:
    try:
        die_with_parent(supervisor)
        os.setsid()  # one that kills its own group does not kill the supervisor
        set_marker_rlimits()
        for each in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores, and a program would go on doing so
            signal.signal(each, signal.SIG_DFL)
        os.execvpe(command[0], command, environment)
    except OSError as error:
        os.write(failure, str(error.errno).encode())
    finally:
        os._exit(_NOT_STARTED)
