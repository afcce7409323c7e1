"""`finclaw extensions`: who extends the agent, in the order in which they are loaded, and with what."""

from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import finclaw
from finclaw.builtin_extensions import registered
from finclaw.cli import new_extension
from finclaw.cli.chat.clean import json_line
from finclaw.cli.options import settings_from
from finclaw.extensions.registration import Registered


def run(args: Namespace) -> int:
    if args.what == "new":
        return new_extension.run(args)
    found = [_described(each) for each in registered(settings_from(args)).loaded]
    print(json_line({"extensions": found}) if args.json else "\n".join(_lines(found)))
    return 0


def _described(extension: Registered) -> dict[str, Any]:
    return {
        "name": extension.name,
        "origin": extension.origin,
        "built_in": Path(extension.origin).is_relative_to(Path(finclaw.__file__).parent),
        "why": extension.why,
        "layers": [{"ring": ring, "name": layer.name, "priority": layer.priority} for ring, layer in extension.layers],
        "tools": [tool.spec.name for tool in extension.tools],
        "commands": [command.name for command in extension.commands],
        "sections": [section.title for section in extension.sections],
        "context": [field.field for field in extension.fields],
        "checks": len(extension.checks),
        "tasks": [f"every {task.seconds:g} s" for task in extension.recurring],
        "cli": [command.name for command in extension.cli],
        "routes": [f"{route.method} {route.path}" for route in extension.routes],
        "doctor": [check.name for check in extension.doctor],
        "database": extension.database is not None,
    }


_WORDS = {
    "tools": "tools",
    "commands": "commands",
    "sections": "prompt",
    "context": "context",
    "tasks": "tasks",
    "cli": "finclaw …",
    "routes": "routes",
    "doctor": "doctor",
}


def _lines(found: list[dict[str, Any]]) -> Iterator[str]:
    for each in found:
        yield f"{each['name']}  ({'built in' if each['built_in'] else each['origin']})" + _because(each["why"])
        layers = [f"{layer['ring']} {layer['name']} (priority {layer['priority']})" for layer in each["layers"]]
        yield from _row("layers", layers)
        for key, word in _WORDS.items():
            yield from _row(word, each[key])
        yield from _row("checks", [f"{each['checks']} of what may be seen"] if each["checks"] else [])
        yield from _row("database", ["one of its own"] if each["database"] else [])


def _because(why: str) -> str:
    return f": {why}" if why else ""


def _row(word: str, things: list[str]) -> Iterator[str]:
    if things:
        yield f"  {word:<10}{', '.join(things)}"
