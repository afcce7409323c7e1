"""Tools for processes of their own, each with another way of not ending well."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from finclaw.errors import InvalidArguments, ToolError, ToolUnavailable
from finclaw.kernel.fact import Fact
from finclaw.kernel.port import ToolOutput, ToolScope
from finclaw.tools.define import raw_tool, tool

FACT = Fact(subject="AAPL", field="price", value=Decimal("1.50"), as_of=datetime(2025, 1, 6, tzinfo=UTC), source="x")


@tool("own__add", "Adds.", isolation="process")
def add(one: int, other: Decimal, scope: ToolScope) -> dict[str, Any]:
    sys.stdout.write("noise on the line")
    os.write(1, b"more noise")
    return {"sum": one + other, "for": scope.sender.id, "pid": os.getpid()}


@tool("own__fact", "Knows.", isolation="process")
async def fact() -> ToolOutput:
    await asyncio.sleep(0)
    return ToolOutput("1.50", (FACT,))


@tool("own__fail", "Fails.", isolation="process")
def fail(how: str) -> str:
    match how:
        case "word":
            raise ToolError("the market is closed", suggestion="tomorrow", code="closed")
        case "line":
            raise ToolUnavailable("no line")
        case "invalid":
            raise InvalidArguments("not so")
        case "exit":
            sys.exit(3)
        case "hard exit":
            os._exit(3)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "memory":
            return "x" * (2 << 30)
        case "recursion":
            return fail.function(how) + ""  # type: ignore[operator]
        case _:
            raise ValueError(how)
    return ""


@tool("own__environment", "Looks around.", isolation="process")
def environment() -> dict[str, Any]:
    return {"names": sorted(os.environ), "open": len(os.listdir("/proc/self/fd"))}


@tool("own__hang", "Hangs, and so do its children.", isolation="process", timeout=60)
def hang(file: str) -> str:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    with open(f"{file}.part", "w") as out:
        out.write(f"{os.getpid()} {child.pid}")
    os.rename(f"{file}.part", file)
    while True:
        time.sleep(1)


@tool("own__spin", "Spins.", isolation="process", timeout=0.5)
def spin() -> str:
    while True:
        pass


@tool("own__large", "Gives much.", isolation="process")
def large(megabytes: int) -> str:
    return "x" * (megabytes << 20)


@tool("own__fork", "Forks.", isolation="process")
def fork(file: str) -> str:
    child = os.fork()
    if child == 0:
        return "I am the child"
    with open(file, "w") as out:
        out.write(str(child))
    return "parent"


@tool("own__daemon", "Dies and leaves a child with its pipes.", isolation="process", timeout=20)
def daemon() -> str:
    if os.fork() == 0:
        time.sleep(60)
    os._exit(0)


async def look(args: dict[str, Any], scope: ToolScope) -> dict[str, Any]:
    return {"args": args, "call": scope.call_id}


raw = raw_tool("own__raw", "Raw.", {"type": "object"}, look, isolation="process")
