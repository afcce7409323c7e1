"""`finclaw init`: make a state directory, its token, and a settings file in which every setting is explained.

Everything that is there already is kept, so that it can be run again at any time.
"""

import contextlib
import os
import stat
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from textwrap import wrap
from typing import Any, get_type_hints

import msgspec

from finclaw.cli.arguments import add_state_options
from finclaw.cli.formatting import command_name
from finclaw.config.describe import Described, describe
from finclaw.config.load import FILE_NAME, state_directory
from finclaw.config.schema import Settings
from finclaw.errors import ConfigError
from finclaw.web.token import FILE_NAME as TOKEN
from finclaw.web.token import obtain_token

_HEAD = """\
# FinClaw's settings. A line like `#port: 8787` shows a default; take its # away to change it.
# A variable such as FINCLAW_WEB__PORT wins over this file, and the command line over both.
# `finclaw config check` tells whether all is well, `finclaw config show` what counts.
"""


def arguments(parser: ArgumentParser) -> None:
    add_state_options(parser)


def run(args: Namespace) -> int:
    state = state_directory(args.state, os.environ)
    file = args.config or state / FILE_NAME
    made = [_make_directory(state), _make_file(file)]
    _, is_new = obtain_token(state)
    made.append(_line(is_new, state / TOKEN, "only you can read it; the API and the web page ask for it"))
    print("\n".join(made))
    extra = "".join(f" --{name} {value}" for name, value in vars(args).items() if name in ("state", "config") and value)
    typed = command_name()
    print(f'start it:  {typed} serve{extra}\nthen ask:  {typed} ask "What is AAPL trading at?"{extra}')
    print(f"a model:   set agent.model in {file}, and its key; `{typed} models{extra}` lists them with prices")
    return 0


def _line(is_new: bool, path: Path, about: str) -> str:
    return f"{'made' if is_new else 'kept'}  {path}  {about}"


def _make_directory(state: Path) -> str:
    is_new = not state.exists()
    try:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"cannot make the state directory {state}: {error.strerror}; choose another place with --state DIR"
        ) from error
    if stat.S_IMODE(state.stat().st_mode) & 0o077:  # not ours to change: it may be shared on purpose
        return _line(is_new, state, f"other users can look into it; better: chmod 700 {state}")
    return _line(is_new, state, "everything that lasts, for you alone")


def _make_file(path: Path) -> str:
    about = "every setting, explained"
    try:
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return _line(False, path, "your settings")
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}; choose another file with --config FILE") from error
    try:
        with open(opened, "w", encoding="utf-8") as file:
            file.write(example())
    except OSError:  # a full disk: half a file would be kept, and trusted, the next time
        with contextlib.suppress(OSError):
            path.unlink()
        raise
    return _line(True, path, about)


def example() -> str:
    """The settings file: every setting with its words, commented out at its default."""
    settings = {each.path: each for each in describe(Settings) if each.key != "state"}
    return _HEAD + "".join(_section(Settings, (), settings))


def _section(schema: type, above: tuple[str, ...], settings: dict[tuple[str, ...], Described]) -> Iterator[str]:
    indent = "  " * len(above)
    kinds: dict[str, Any] = get_type_hints(schema)
    for field in fields(schema):
        path, kind = (*above, field.name), kinds[field.name]
        if is_dataclass(kind):
            yield f"\n{indent}# {(kind.__doc__ or '').strip()}\n{indent}{field.name}:\n"
            yield from _section(kind, path, settings)  # pyright: ignore[reportArgumentType]
        elif path in settings:
            setting = settings[path]
            words = f"{setting.doc.removesuffix('.')} ({setting.takes})." if setting.doc else setting.takes
            yield "" if above else "\n"
            yield from (f"{indent}# {line}\n" for line in wrap(words, 100, break_long_words=False))
            yield f"{indent}#{field.name}: {msgspec.json.encode(setting.default).decode()}\n"
