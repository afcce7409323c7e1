"""`finclaw config`: check the settings, and show the values in effect."""

import logging
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from pathlib import Path

import msgspec

from finclaw.cli.arguments import add_json_option, add_state_options
from finclaw.cli.formatting import json_line
from finclaw.config.describe import DEFAULT, Effective, effective
from finclaw.config.fill import BadSettings
from finclaw.config.load import HOME, Gathered, gather
from finclaw.config.problems import problems_of_extensions, problems_of_models, warnings_of_models
from finclaw.config.routes import with_windows
from finclaw.errors import ConfigError
from finclaw.redaction.redact import redact_for_display
from finclaw.text import escape_controls


def arguments(parser: ArgumentParser) -> None:
    add_state_options(parser)
    parser.add_argument(
        "what",
        choices=("check", "show"),
        metavar="check|show",
        help="whether it is valid; or the values in effect, and where each comes from",
    )
    add_json_option(parser)


def run(args: Namespace) -> int:
    return _check(args) if args.what == "check" else _show(args)


def problems(args: Namespace) -> tuple[str, ...]:
    """Everything that is wrong with the settings. It changes nothing."""
    return (*own_problems(args), *_problems_of_extensions(args))


def own_problems(args: Namespace) -> tuple[str, ...]:
    """Without what only an extension would miss."""
    try:
        settings = with_windows(_gather(args).settings(), load=False)
    except BadSettings as error:
        return error.problems
    except ConfigError as error:
        return (redact_for_display(str(error)),)
    return tuple(map(redact_for_display, problems_of_models(settings)))


def loading_problems(args: Namespace) -> tuple[str, ...]:
    """What shows only when the extensions are loaded, where they get that far."""
    from finclaw.cli.doctor.extensions import problems_when_loaded  # noqa: PLC0415  start-up: it loads the extensions

    try:
        settings = _gather(args).settings()
        if _problems_of_extensions(args):
            return ()
        with_model = not own_problems(args)
        settings = with_windows(settings, load=False) if with_model else settings
    except ConfigError:  # told already
        return ()
    return tuple(map(redact_for_display, problems_when_loaded(settings, with_model=with_model)))


def warnings(args: Namespace) -> tuple[str, ...]:
    """What valid settings should not be left at."""
    return tuple(map(redact_for_display, warnings_of_models(_gather(args).settings())))


def _problems_of_extensions(args: Namespace) -> tuple[str, ...]:
    try:
        return tuple(map(redact_for_display, problems_of_extensions(_gather(args))))
    except ConfigError:  # nothing can be gathered, which is told already
        return ()


def _gather(args: Namespace) -> Gathered:
    return gather(state=args.state, config=args.config, environ=os.environ)


def _check(args: Namespace) -> int:
    logging.getLogger("finclaw").addHandler(logging.NullHandler())  # what loading has to say is said by the problems
    logging.getLogger("finclaw").propagate = False
    found = (*problems(args), *loading_problems(args))
    warned = () if found else warnings(args)
    if args.json:
        print(json_line({"valid": not found, "problems": found, "warnings": warned}))
    elif found:
        print("\n".join(map(escape_controls, found)))
    else:
        print(
            "\n".join((_describe_valid(_gather(args).file), *(f"warning: {escape_controls(each)}" for each in warned)))
        )
    return 1 if found else 0


def _describe_valid(file: Path) -> str:
    if file.exists():
        return f"{file} is valid"
    return f"there is no {file}, and none is needed; `finclaw init` writes one with every setting explained"


def _show(args: Namespace) -> int:
    gathered = _gather(args)
    shown = tuple(effective(gathered.settings(), gathered.tree, {"state": _origin_of_state(args)}))
    print(_as_json(shown) if args.json else _format_text(shown))
    return 0


def _origin_of_state(args: Namespace) -> str:
    if args.state is not None:
        return "the command line"
    return HOME if os.environ.get(HOME) else DEFAULT


def _as_json(shown: Iterable[Effective]) -> str:
    rows = {
        each.setting.key: {
            "value": _redact_value(each.value),
            "origin": each.origin,
            "default": _path_to_text(each.setting.default),
            "takes": each.setting.takes,
            "doc": each.setting.doc,
        }
        for each in shown
    }
    return json_line(rows)


def _path_to_text(value: object) -> object:
    return str(value) if isinstance(value, Path) else value


def _redact_value(value: object) -> object:
    """The same value, or with words in the place of what looks like a secret."""
    written = msgspec.json.encode(_path_to_text(value)).decode()
    try:
        return msgspec.json.decode(redact_for_display(written))
    except msgspec.DecodeError:  # a number was hidden, and words do not stand where it stood
        return "[hidden]"


def _format_text(shown: tuple[Effective, ...]) -> str:
    values = [f"{each.setting.key} = {_value(each.value)}" for each in shown]
    width = min(max(map(len, values)), 44)
    dim, plain = ("\x1b[2m", "\x1b[0m") if sys.stdout.isatty() and not os.environ.get("NO_COLOR") else ("", "")
    lines: list[str] = []
    for each, value in zip(shown, values, strict=True):
        lines.append(f"{value:<{width}}  {each.origin}")
        lines.append(f"{dim}    {each.setting.doc}{plain}")
    return "\n".join(lines)


def _value(value: object) -> str:
    """Also a setting that is no secret may hold one, such as an extension's."""
    return redact_for_display(str(value) if isinstance(value, Path) else msgspec.json.encode(value).decode())
