"""`finclaw extensions`: the extensions in the order in which they are loaded, and what each adds."""

import importlib.util
import keyword
import os
import re
import shlex
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any, Final

import finclaw
from finclaw.cli.arguments import add_json_option, add_state_options, settings_from
from finclaw.cli.formatting import print_result
from finclaw.cli.write_file import write_file
from finclaw.composition.extensions import load_registrar
from finclaw.errors import ConfigError
from finclaw.extensions.registration import Registered

_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_TAKEN: Final = sys.stdlib_module_names | {"finclaw", "msgspec", "pytest"}
"""A file of such a name beside the test would be imported instead of what it is named after."""


def arguments(parser: ArgumentParser) -> None:
    add_state_options(parser)
    parser.add_argument("what", nargs="?", choices=("new",), metavar="new", help="make one instead, with its test")
    parser.add_argument("name", nargs="?", metavar="NAME", help="what the new one is called")
    parser.add_argument("--dir", type=Path, metavar="DIR", help="where to make it (default: here)")
    add_json_option(parser)


def run(args: Namespace) -> None:
    if args.what == "new":
        _make_extension(args)
        return
    found = [_describe(each) for each in load_registrar(settings_from(args)).loaded]
    print_result(args, {"extensions": found}, _lines(found))


def _describe(extension: Registered) -> dict[str, Any]:
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


_LABELS = {
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
        origin = "built in" if each["built_in"] else each["origin"]
        why = f": {each['why']}" if each["why"] else ""
        yield f"{each['name']}  ({origin}){why}"
        layers = [f"{layer['ring']} {layer['name']} (priority {layer['priority']})" for layer in each["layers"]]
        rows = {"layers": layers, **{label: each[key] for key, label in _LABELS.items()}}
        if each["checks"]:
            rows["checks"] = [f"{each['checks']} of what may be seen"]
        if each["database"]:
            rows["database"] = ["one of its own"]
        yield from (f"  {label:<10}{', '.join(things)}" for label, things in rows.items() if things)


def _make_extension(args: Namespace) -> None:
    directory = args.dir or Path()
    if args.name is None:
        raise ConfigError("the new extension needs a name; try: finclaw extensions new price-alarm")
    made = {directory / name: text for name, text in render(args.name).items()}
    if taken := next((path for path in made if path.exists()), None):  # all of them or none
        raise ConfigError(f"{taken} is there already; choose another name, or another place with --dir")
    directory.mkdir(parents=True, exist_ok=True)
    for path, text in made.items():
        write_file(path, text.encode(), force=False)
    extension, test = made
    print(f"made  {extension}  a tool, a layer and some state\nmade  {test}  whole messages through it")
    python = shlex.quote(sys.executable.removeprefix(f"{Path.cwd()}{os.sep}"))
    print(f"try it:      {python} -m pytest {shlex.quote(str(test))}")
    has_pytest = False
    with suppress(ValueError):  # somebody has put it out of reach
        has_pytest = importlib.util.find_spec("pytest") is not None
    if not has_pytest:
        print(f"             needs pytest: scripts/venv test in a clone, else {python} -m pip install pytest")
    print(f"switch on:   in finclaw.yaml, under agent:  extensions: [{extension.absolute()}]")


def render(name: str) -> dict[str, str]:
    """The two files by name. Raises ConfigError for a name that Python or the gateway would not take."""
    module = name.replace("-", "_")
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{name!r} cannot name an extension; take small letters, digits and '-', such as price-alarm")
    if keyword.iskeyword(module) or module in _TAKEN:
        raise ConfigError(f"Python has something called {module!r} already; choose another name, such as my-{name}")
    template = files("finclaw.cli") / "extension_template"
    return {
        file: Template((template / source).read_text(encoding="utf-8")).substitute(name=name, module=module)
        for source, file in (("extension.txt", f"{module}.py"), ("test.txt", f"test_{module}.py"))
    }
