"""A server whose tools have schemas made to keep a validator busy, named by its argument; they change on request."""

import json
import sys
from typing import Any

HOW = sys.argv[1]
_PAGE = 12
"""Tools of one page, so that it fits into one message."""
listings = 0


def takes(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **more}


def large_patterns(seed: int) -> dict[str, Any]:
    """31 kB of patterns, each of which compiles to megabytes."""
    return takes({}, patternProperties={rf"^(\w{{90}}|\p{{L}}{{9}}){{9}}x{seed}y{n}$": {} for n in range(700)})


def nested_pattern_properties(seed: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for level in range(20):
        patterns = {rf"(\d{{{50 + level}}}a){{{20 + n}}}{seed}": schema if n == 0 else {} for n in range(8)}
        schema = {"type": "object", "patternProperties": patterns}
    return schema


def reference_bomb(seed: int) -> dict[str, Any]:
    defs: dict[str, Any] = {"d0": {"const": seed}}
    for n in range(1, 40):
        defs[f"d{n}"] = {"allOf": [{"$ref": f"#/$defs/d{n - 1}"}] * 2}
    return takes({"a": {"$ref": "#/$defs/d39"}}, **{"$defs": defs})


def deep_alternatives(seed: int) -> dict[str, Any]:
    """A chain of references: as JSON it is flat, and unfolded it is hundreds of levels deep."""
    defs: dict[str, Any] = {"d0": {"const": seed}}
    for n in range(1, 80):
        defs[f"d{n}"] = {"anyOf": [{"anyOf": [{"$ref": f"#/$defs/d{n - 1}"}]}]}
    return takes({"a": {"$ref": "#/$defs/d79"}}, **{"$defs": defs})


def unevaluated_in_unevaluated(seed: int) -> dict[str, Any]:
    schema = takes({"a": {"const": seed}})
    for _ in range(30):
        schema = {"type": "object", "allOf": [schema], "unevaluatedProperties": False}
    return schema


def at_the_limits(seed: int) -> dict[str, Any]:
    """As much as is taken of everything: it is offered, and read in time."""
    options = [f"option-{seed}-{n}" for n in range(900)]
    patterns = {rf"^[a-z]{{{n + 300}}}$": {"type": "string"} for n in range(40)}
    return takes({"a": {"type": "string", "enum": options}}, patternProperties=patterns)


def long_numbers(seed: int) -> dict[str, Any]:
    return takes({"a": {"minimum": 10**200 + seed}})


SCHEMAS = {
    "patterns": large_patterns,
    "nested": nested_pattern_properties,
    "references": reference_bomb,
    "deep": deep_alternatives,
    "unevaluated": unevaluated_in_unevaluated,
    "numbers": long_numbers,
}


def tools() -> list[dict[str, Any]]:
    global listings  # noqa: PLW0603  the state of a program of one page
    listings += 1
    changing = listings if "changing" in HOW else 0
    if HOW.startswith("descriptions"):
        return [{"name": f"t{n}", "description": "가" * 6_000, "inputSchema": takes({})} for n in range(200)]
    many = 200 if "200" in HOW else 6
    schema = SCHEMAS.get(HOW.split(" ", maxsplit=1)[0], at_the_limits)
    shown = [{"name": f"t{n}", "inputSchema": schema(n + 1_000 * changing)} for n in range(many)]
    return [{"name": "fine", "description": "Acts.", "inputSchema": takes({})}, *shown][:200]


def say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def main() -> None:
    shown: list[dict[str, Any]] = []
    for line in sys.stdin:
        request = json.loads(line)
        match request.get("method"):
            case "initialize":
                version, info = request["params"]["protocolVersion"], {"name": "hostile", "version": "1"}
                capabilities = {"tools": {"listChanged": True}}
                result = {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info}
                say({"id": request["id"], "result": result})
            case "tools/list":
                first = int(request["params"].get("cursor") or 0) if "params" in request else 0
                shown = shown if first else tools()
                page = {"tools": shown[first : first + _PAGE]}
                is_last = first + _PAGE >= len(shown)
                say({"id": request["id"], "result": page if is_last else {**page, "nextCursor": str(first + _PAGE)}})
                if is_last and "changing" in HOW:
                    say({"method": "notifications/tools/list_changed"})
            case "tools/call":
                say({"id": request["id"], "result": {"content": [{"type": "text", "text": "acted"}]}})
            case _ if "id" in request and "method" in request:
                say({"id": request["id"], "error": {"code": -32601, "message": "no such method"}})
            case _:
                pass


main()
