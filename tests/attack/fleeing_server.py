"""An MCP program whose child flees from it, twice removed, before it does something itself."""

import json
import os
import signal
import subprocess
import sys
from typing import Any

_SLEEPS = "import time; time.sleep(120)"


def say(id: Any, result: dict[str, Any], kind: str = "result") -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": id, kind: result}) + "\n")
    sys.stdout.flush()


def flee() -> int:
    """In a session of its own, without our environment, with our pipes, and with its parent gone."""
    reads, writes = os.pipe()
    between = os.fork()
    if between == 0:
        os.setsid()
        child = subprocess.Popen([sys.executable, "-c", _SLEEPS], start_new_session=True, env={})
        os.write(writes, str(child.pid).encode())
        os._exit(0)
    os.waitpid(between, 0)
    return int(os.read(reads, 32))


def then(how: str) -> None:
    match how:
        case "vanishes":
            os._exit(0)
        case "crashes":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "kills the supervisor":
            os.kill(os.getppid(), signal.SIGKILL)
        case "stops the supervisor":
            os.kill(os.getppid(), signal.SIGSTOP)
        case "has a child kill the supervisor":
            subprocess.Popen(["kill", "-9", str(os.getppid())], start_new_session=True)
        case "ignores every word":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            while True:
                signal.pause()
        case _:
            pass


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        id = request.get("id")
        match request.get("method"):
            case "initialize":
                version = request["params"]["protocolVersion"]
                info = {"name": "fleeing", "version": "1"}
                say(id, {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info})
            case "tools/list":
                say(id, {"tools": [{"name": "act", "inputSchema": {"type": "object"}}]})
            case "tools/call":
                say(id, {"content": [{"type": "text", "text": f"{flee()} {os.getpid()}"}]})
                then(request["params"]["arguments"]["then"])
            case _ if id is not None:
                say(id, {"code": -32601, "message": "unknown"}, "error")
            case _:
                pass


main()
