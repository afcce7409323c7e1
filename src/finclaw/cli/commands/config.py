"""`finclaw config`: check the settings, and show the values in effect."""

import logging
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from finclaw.cli.arguments import add_json_option, add_state_options
from finclaw.cli.formatting import print_result
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
    if found:
        print_result(args, {"valid": False, "problems": found, "warnings": ()}, map(escape_controls, found))
        return 1
    warned = warnings(args)
    file = _gather(args).file
    says = f"there is no {file}, and none is needed; `finclaw init` writes one with every setting explained"
    if file.exists():
        says = f"{file} is valid"
    lines = (says, *(f"warning: {escape_controls(each)}" for each in warned))
    print_result(args, {"valid": True, "problems": (), "warnings": warned}, lines)
    return 0


def _show(args: Namespace) -> int:
    gathered = _gather(args)
    origin = HOME if os.environ.get(HOME) else DEFAULT
    if args.state is not None:
        origin = "the command line"
    shown = tuple(effective(gathered.settings(), gathered.tree, {"state": origin}))
    print_result(args, {each.setting.key: _view(each) for each in shown}, _lines(shown))
    return 0


def _view(each: Effective) -> dict[str, object]:
    setting = each.setting
    try:
        value = msgspec.json.decode(redact_for_display(_encode(each.value)))
    except msgspec.DecodeError:  # a number was hidden, and words do not stand where it stood
        value = "[hidden]"
    default = str(setting.default) if isinstance(setting.default, Path) else setting.default
    return {"value": value, "origin": each.origin, "default": default, "takes": setting.takes, "doc": setting.doc}


def _encode(value: object) -> str:
    return msgspec.json.encode(value, enc_hook=str).decode()


def _lines(shown: Sequence[Effective]) -> Iterator[str]:
    values = [f"{each.setting.key} = {_format_value(each.value)}" for each in shown]
    width = min(max(map(len, values)), 44)
    is_dimmed = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    for each, value in zip(shown, values, strict=True):
        yield f"{value:<{width}}  {each.origin}"
        yield f"\x1b[2m    {each.setting.doc}\x1b[0m" if is_dimmed else f"    {each.setting.doc}"


def _format_value(value: object) -> str:
    """Also a setting that is no secret may hold one, such as an extension's."""
    return redact_for_display(str(value) if isinstance(value, Path) else _encode(value))
