"""`finclaw extensions new NAME`: an extension that works, and its test, to be changed into what you want."""

import importlib.util
import keyword
import re
import shlex
import sys
from argparse import Namespace
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Final

from finclaw.cli.new_file import write_new
from finclaw.errors import ConfigError

_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_TAKEN: Final = sys.stdlib_module_names | {"finclaw", "msgspec", "pytest"}
"""A file of such a name beside the test would be imported instead of what it is named after."""


def run(args: Namespace) -> int:
    directory = args.dir or Path()
    if args.name is None:
        raise ConfigError("the new extension needs a name; try: finclaw extensions new price-alarm")
    made = render(args.name)
    for name in made:  # all of them or none
        if (directory / name).exists():
            raise ConfigError(f"{directory / name} is there already; choose another name, or another place with --dir")
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in made.items():
        write_new(directory / name, text.encode(), force=False)
    extension, test = (directory / name for name in made)
    print(f"made  {extension}  a tool, a layer and some state\nmade  {test}  whole messages through it")
    python = shlex.quote(_shown(Path(sys.executable)))
    print(f"try it:      {python} -m pytest {shlex.quote(str(test))}")
    if not _has_pytest():
        print(f"             needs pytest: scripts/venv test in a clone, else {python} -m pip install pytest")
    print(f"switch on:   in finclaw.yaml, under agent:  extensions: [{extension.absolute()}]")
    return 0


def _has_pytest() -> bool:
    try:
        return importlib.util.find_spec("pytest") is not None
    except ValueError:  # somebody has put it out of reach
        return False


def _shown(path: Path) -> str:
    """As short as it can be typed here."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


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
