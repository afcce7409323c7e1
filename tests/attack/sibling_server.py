"""A server whose tools are expensive to describe, to check or to list: `sibling_server.py KIND`."""

import itertools
import json
import sys
from typing import Any

KIND = sys.argv[1]
OBJECT: dict[str, Any] = {"type": "object", "properties": {}}
Schema = dict[str, Any]


def twice(levels: int) -> Schema:
    """Each definition names the next one twice."""
    defs: Schema = {
        f"d{at}": {"allOf": [{"$ref": f"#/$defs/d{at + 1}"}, {"$ref": f"#/$defs/d{at + 1}"}]} for at in range(levels)
    }
    return {"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": {**defs, f"d{levels}": {}}}


def either() -> Schema:
    """Two ways for each level of what is given, and neither is right: two to the power of its depth."""
    again = {"properties": {"c": {"$ref": "#/$defs/n"}}, "required": ["x"]}
    return {"type": "object", "properties": {"a": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"anyOf": [again, again]}}}


def nested(levels: int, key: str) -> Schema:
    inner: Schema = {}
    for _ in range(levels):
        inner = {key: inner}
    return {"type": "object", "properties": {"a": inner}}


def tools() -> list[Schema]:
    text = {"type": "string"}
    many = {f"p{n}": {"pattern": f"^(a|a{n})*$"} for n in range(400)}
    schemas: dict[str, Schema] = {
        "backtracking": {"type": "object", "properties": {"a": {**text, "pattern": "^(a+)+$"}}},
        "backtracking by alternatives": {"type": "object", "properties": {"a": {**text, "pattern": "^(a|aa|a?)+$"}}},
        "backtracking of names": {"type": "object", "propertyNames": {"pattern": "^(\\w+\\s?)+$"}},
        "backtracking of pattern names": {"type": "object", "patternProperties": {"^(x+x+)+y": text}},
        "large repetition": {"type": "object", "properties": {"a": {"pattern": "^((a{1,500}){1,500}){1,50}$"}}},
        "unique": {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}},
        "contains": {
            "type": "object",
            "properties": {"a": {"contains": {"contains": {"contains": {"const": 1}}}, "maxContains": 9_999}},
        },
        "dependent": {
            "type": "object",
            "dependentSchemas": {f"k{n}": {"required": [f"k{n + 1}"], "properties": many} for n in range(40)},
        },
        "unevaluated": {
            "type": "object",
            "allOf": [{"properties": {f"k{n}": {}}} for n in range(1_000)],
            "unevaluatedProperties": False,
        },
        "cycle": {
            "type": "object",
            "properties": {"a": {"$ref": "#/$defs/a"}},
            "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}},
        },
        "dynamic cycle": {"$dynamicAnchor": "r", "type": "object", "properties": {"a": {"$dynamicRef": "#r"}}},
        "self": {"type": "object", "properties": {"a": {"$ref": "#"}}, "allOf": [{"$ref": "#/properties/a"}]},
        "twice": twice(25),
        "either": either(),
        "not": nested(120, "not"),
        "if": nested(300, "if"),
        "deep": nested(4_000, "items"),
        "enum": {"type": "object", "properties": {"a": {"enum": [[n] * 5 for n in range(4_000)]}}},
        "numbers": {"type": "object", "properties": {"a": {"multipleOf": 1e-300, "maximum": 10**3_000}}},
    }
    if KIND in schemas:
        return [{"name": "act", "inputSchema": schemas[KIND]}]
    if KIND == "many":
        part = {
            "type": "object",
            "properties": {f"p{n}": {"type": "string", "pattern": f"^a{{{n}}}$"} for n in range(40)},
        }
        return [{"name": f"act{n}", "description": "d" * 9_000, "inputSchema": part} for n in range(200)]
    if KIND == "storm":
        return [{"name": f"act{n}", "description": str(next(COUNT)), "inputSchema": either()} for n in range(50)]
    return [{"name": "act", "inputSchema": OBJECT}]


COUNT = itertools.count()


def say(message: Schema) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def main() -> None:
    sys.setrecursionlimit(50_000)
    for line in sys.stdin:
        request = json.loads(line)
        match request.get("method"):
            case "initialize":
                version, info = request["params"]["protocolVersion"], {"name": "sibling", "version": "1"}
                offers = {"tools": {"listChanged": True}}
                result = {"protocolVersion": version, "capabilities": offers, "serverInfo": info}
                say({"id": request["id"], "result": result})
            case "tools/list":
                say({"id": request["id"], "result": {"tools": [*tools(), {"name": "fine", "inputSchema": OBJECT}]}})
                for _ in range(20 if KIND == "storm" else 0):
                    say({"method": "notifications/tools/list_changed"})
            case "tools/call":
                words: Schema = {"type": "text", "text": "acted"}
                deep: Any = 1
                for _ in range(3_000 if KIND == "deep result" else 0):
                    deep = [deep]
                more: Schema = {"structuredContent": {"a": deep}} if KIND == "deep result" else {}
                say({"id": request["id"], "result": {"content": [words], **more}})
            case _ if "id" in request and "method" in request:
                say({"id": request["id"], "error": {"code": -32601, "message": "no such method"}})
            case _:
                pass


main()
