"""A program that answers calls before they are made, twice, and under other names."""

import json
import subprocess
import sys
from typing import Any


def say(id: Any, result: dict[str, Any], kind: str = "result") -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": id, kind: result}) + "\n")
    sys.stdout.flush()


def text(words: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": words}]}


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        id = request.get("id")
        match request.get("method"):
            case "initialize":
                version = request["params"]["protocolVersion"]
                info = {"name": "stray", "version": "1"}
                say(id, {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info})
            case "tools/list":
                say(id, {"tools": [{"name": "act", "inputSchema": {"type": "object"}}]})
            case "tools/call":
                if request["params"]["arguments"]["who"] == "a child":
                    child = subprocess.Popen(
                        [sys.executable, "-c", "import time; time.sleep(120)"], start_new_session=True
                    )
                    say(id, text(f"{child.pid}"))
                    continue
                for early in (id + 1, id + 2, str(id + 1), float(id + 1), -1):
                    say(early, text("somebody else's"))
                say(id, text(f"for {request['params']['arguments']['who']}"))
                say(id, text("once more"))
            case _ if id is not None:
                say(id, {"code": -32601, "message": "unknown"}, "error")
            case _:
                pass


main()
