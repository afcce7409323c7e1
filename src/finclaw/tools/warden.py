"""A program that may not be trusted to end, under a warden of its own: when either goes, so does all it has started.

`main` is the warden's side, in a fresh interpreter that knows nothing of ours and never runs a stranger's code; whoever
starts it is in `program.py`. On Linux only.
"""

import json
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Final

from finclaw.tools.family import adopt_orphans, bear_the_mark, die_with_parent, end_descendants, let_nobody_in

TELL: Final = signal.SIGHUP
"""To the warden: tell the program to leave. SIGTERM means: end it, with all it has started."""
_BEGIN: Final = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from finclaw.tools.warden import main; main()"
_NOT_STARTED: Final = 127


def with_warden(command: Sequence[str], word: int) -> list[str]:
    """The warden's own command. It has to be started in a session of its own, and ends with whoever starts it.

    Into `word`, a pipe it inherits, goes a line: 0 when the program has been started, or the number of the error. It is
    closed when the warden goes. Both share one environment, for a command line anybody may read.
    """
    told = [json.dumps(sys.path), str(os.getpid()), str(word)]
    return [sys.executable, "-I", "-S", "-c", _BEGIN, *told, *command]


def main() -> None:
    gateway, word, command = int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
    os.set_inheritable(word, False)
    environment = _as_we_got_it()
    adopt_orphans()
    let_nobody_in()
    warden = os.getpid()
    failure, writes = os.pipe()
    program = os.fork()
    if program == 0:
        _become(command, environment, warden, writes)

    def tell(_: int, __: FrameType | None) -> None:
        os.killpg(program, signal.SIGTERM)

    signal.signal(TELL, tell)
    signal.signal(signal.SIGTERM, _end_family)
    die_with_parent(gateway, signal.SIGTERM)
    _let_go(writes)
    os.write(word, (os.read(failure, 16) or b"0") + b"\n")
    while os.wait()[0] != program:  # the others are orphans that have come to us
        pass
    _end_family()


def _end_family(*_: object) -> None:
    end_descendants(os.getpid())
    os._exit(0)


def _let_go(failure: int) -> None:
    """Of what is the program's alone: who waits for the end of a pipe does not wait for us."""
    os.close(failure)
    nothing = os.open(os.devnull, os.O_RDWR)
    for each in range(3):
        os.dup2(nothing, each)


def _as_we_got_it() -> dict[bytes, bytes]:
    """Our environment, without what Python has added to it by itself."""
    with open("/proc/self/environ", "rb") as file:
        parts = (each.partition(b"=") for each in file.read().split(b"\0") if each)
        return {name: value for name, _, value in parts}


def _become(command: list[str], environment: dict[bytes, bytes], warden: int, failure: int) -> None:
    try:
        die_with_parent(warden)
        os.setsid()  # one that kills its own group does not kill the warden
        bear_the_mark()
        for each in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores, and a program would go on doing so
            signal.signal(each, signal.SIG_DFL)
        os.execvpe(command[0], command, environment)
    except OSError as error:
        os.write(failure, str(error.errno).encode())
    finally:
        os._exit(_NOT_STARTED)
