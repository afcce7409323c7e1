"""A program that never stops talking, not even when nobody listens any more."""

import json
import sys
import threading
import time
from typing import Any

_saying = threading.Lock()


def say(message: dict[str, Any]) -> None:
    with _saying:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def chatter() -> None:
    while True:
        say({"id": 10**6, "result": {}})
        time.sleep(0.0005)


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        match request.get("method"):
            case "initialize":
                version = request["params"]["protocolVersion"]
                info = {"name": "chatter", "version": "1"}
                told: dict[str, Any] = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
                say({"id": request["id"], "result": told})
            case "tools/list":
                say({"id": request["id"], "result": {"tools": [{"name": "act", "inputSchema": {"type": "object"}}]}})
                threading.Thread(target=chatter, daemon=True).start()
            case _ if "id" in request:
                say({"id": request["id"], "error": {"code": -32601, "message": "unknown"}})
            case _:
                pass


main()
