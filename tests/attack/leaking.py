"""A tool in a process of its own that ends badly, with what it was given on its lips."""

import os
import signal
import sys

from finclaw.errors import ToolError
from finclaw.tools.define import tool


@tool("own__leak", "Leaks.", isolation="process")
def leak(how: str, text: str) -> str:
    sys.stderr.write(text)
    match how:
        case "exit":
            sys.exit(text)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "word":
            raise ToolError(f"not with {text}", suggestion=text)
        case _:
            raise ValueError(text)
    return text
