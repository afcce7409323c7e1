"""`finclaw init`: make a state directory, its token, and a settings file in which every setting is explained.

Everything that is there already is kept, so that it can be run again at any time. At a terminal it asks one question,
demo or live prices; a script says `--demo` or `--live`, or gets the demo market.
"""

import contextlib
import os
import re
import stat
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from dataclasses import is_dataclass
from pathlib import Path
from textwrap import wrap
from typing import get_type_hints

import msgspec

from finclaw.cli.arguments import add_market_options, add_state_options
from finclaw.cli.formatting import command_name
from finclaw.config.describe import Described, describe
from finclaw.config.load import FILE_NAME, state_directory
from finclaw.config.schema import Settings
from finclaw.errors import ConfigError
from finclaw.private_files import make_private_directory
from finclaw.web.token import FILE_NAME as TOKEN
from finclaw.web.token import obtain_token

_HEAD = """\
# FinClaw's settings. A line like `#port: 8787` shows a default; take its # away to change it.
# A variable such as FINCLAW_WEB__PORT wins over this file, and the command line over both.
# `finclaw config check` tells whether all is well, `finclaw config show` what counts.
"""


_QUESTION = """\
Prices / 시세:
  demo  made up, works offline / 가상 시세, 인터넷 없이
  live  real, from public sources, no key needed / 실제 시세, 공개 소스, 키 필요 없음
demo or live? / demo 또는 live? [demo] """
_ANSWERS = {
    **dict.fromkeys(("", "demo", "d", "데모", "가상"), "demo"),
    **dict.fromkeys(("live", "l", "실제", "실시간", "라이브"), "live"),
}
_SOURCES = "none of the sources is verified live yet; `{typed} doctor{extra}` asks each of them"


def arguments(parser: ArgumentParser) -> None:
    add_state_options(parser)
    add_market_options(parser)


def run(args: Namespace) -> None:
    state = state_directory(args.state, os.environ)
    file = args.config or state / FILE_NAME
    is_asked = args.market is None and sys.stdin.isatty() and sys.stdout.isatty() and not file.exists()
    market = _ask_market() if is_asked else args.market
    made = [_make_directory(state), _make_file(file, market)]
    _, is_new = obtain_token(state)
    made.append(_line(is_new, state / TOKEN, "only you can read it; the HTTP API asks for it"))
    print("\n".join(made))
    extra = "".join(f" --{name} {value}" for name, value in vars(args).items() if name in ("state", "config") and value)
    typed = command_name()
    if market is not None and made[1].startswith("kept"):
        print(f"prices:    {file} is kept as it is; for {market} ones write there: market: {market}")
    elif market == "live":
        print(f"prices:    live; {_SOURCES.format(typed=typed, extra=extra)}")
    print(f'start it:  {typed} serve{extra}\nthen ask:  {typed} ask "What is AAPL trading at?"{extra}')
    print(f"a model:   set agent.model in {file}, and its key; `{typed} models{extra}` lists them with prices")


def _ask_market() -> str:
    """`demo` or `live`. Whoever leaves without an answer, or gives none that is known three times, gets the demo."""
    for _ in range(3):
        try:
            typed = input(_QUESTION)
        except EOFError:
            print()
            break
        if known := _ANSWERS.get(typed.strip().casefold()):
            return known
        print("Type demo or live. / demo 또는 live 를 입력해 주세요.")
    return "demo"


def _line(is_new: bool, path: Path, about: str) -> str:
    return f"{'made' if is_new else 'kept'}  {path}  {about}"


def _make_directory(state: Path) -> str:
    is_new = not state.exists()
    try:
        make_private_directory(state)
    except OSError as error:
        says = f"cannot make the state directory {state}: {error.strerror}"
        raise ConfigError(f"{says}; choose another place with --state DIR") from error
    if stat.S_IMODE(state.stat().st_mode) & 0o077:  # not ours to change: it may be shared on purpose
        return _line(is_new, state, f"other users can look into it; better: chmod 700 {state}")
    return _line(is_new, state, "everything that lasts, for you alone")


def _make_file(path: Path, market: str | None) -> str:
    try:
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return _line(False, path, "your settings")
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}; choose another file with --config FILE") from error
    try:
        with open(opened, "w", encoding="utf-8") as file:
            file.write(example(market))
    except OSError:  # a full disk: half a file would be kept, and trusted, the next time
        with contextlib.suppress(OSError):
            path.unlink()
        raise
    return _line(True, path, "every setting, explained")


def example(market: str | None = None) -> str:
    """The settings file: every setting with its words, commented out at its default but for the chosen market."""
    settings = {each.path: each for each in describe(Settings) if each.key != "state"}
    text = _HEAD + "".join(_section(Settings, (), settings))
    if market is not None:
        text = re.sub(r"^#market: .*$", f"market: {market}", text, count=1, flags=re.MULTILINE)
    return text


def _section(schema: type, above: tuple[str, ...], settings: dict[tuple[str, ...], Described]) -> Iterator[str]:
    indent = "  " * len(above)
    for name, kind in get_type_hints(schema).items():
        path = (*above, name)
        if is_dataclass(kind):
            yield f"\n{indent}# {(kind.__doc__ or '').strip()}\n{indent}{name}:\n"
            yield from _section(kind, path, settings)  # pyright: ignore[reportArgumentType]
        elif path in settings:
            setting = settings[path]
            words = f"{setting.doc.removesuffix('.')} ({setting.takes})." if setting.doc else setting.takes
            if not above:
                yield "\n"
            yield from (f"{indent}# {line}\n" for line in wrap(words, 100, break_long_words=False))
            yield f"{indent}#{name}: {msgspec.json.encode(setting.default).decode()}\n"
