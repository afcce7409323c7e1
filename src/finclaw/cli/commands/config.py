"""`finclaw config`: check the settings, and show the values in effect."""

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from finclaw.cli.arguments import add_json_option, add_state_options
from finclaw.cli.doctor.settings import gather_settings, loading_problems, problems, warnings
from finclaw.cli.formatting import colored, print_result
from finclaw.config.describe import DEFAULT, Effective, effective
from finclaw.config.load import HOME
from finclaw.diagnostics.log import silence_logging
from finclaw.redaction.redact import redact_for_display
from finclaw.text import escape_controls


def arguments(parser: ArgumentParser) -> None:
    add_state_options(parser)
    about = "whether it is valid; or the values in effect, and where each comes from"
    parser.add_argument("what", choices=("check", "show"), metavar="check|show", help=about)
    add_json_option(parser)


def run(args: Namespace) -> int | None:
    return _check(args) if args.what == "check" else _show(args)


def _check(args: Namespace) -> int:
    silence_logging()  # the problems say what loading has to say
    found = (*problems(args), *loading_problems(args))
    if found:
        print_result(args, {"valid": False, "problems": found, "warnings": ()}, map(escape_controls, found))
        return 1
    warned = warnings(args)
    file = gather_settings(args).file
    says = f"{file} is valid"
    if not file.exists():
        says = f"there is no {file}, and none is needed; `finclaw init` writes one with every setting explained"
    lines = (says, *(f"warning: {escape_controls(each)}" for each in warned))
    print_result(args, {"valid": True, "problems": (), "warnings": warned}, lines)
    return 0


def _show(args: Namespace) -> None:
    gathered = gather_settings(args)
    origin = DEFAULT
    if args.state is not None:
        origin = "the command line"
    elif os.environ.get(HOME):
        origin = HOME
    shown = tuple(effective(gathered.settings(), gathered.tree, {"state": origin}))
    print_result(args, {each.setting.key: _view(each) for each in shown}, _lines(shown))


def _view(each: Effective) -> dict[str, object]:
    setting = each.setting
    try:
        value = msgspec.json.decode(redact_for_display(_encode(each.value)))
    except msgspec.DecodeError:  # a number was hidden, and words do not stand where it stood
        value = "[hidden]"
    default = msgspec.to_builtins(setting.default, enc_hook=str)
    return {"value": value, "origin": each.origin, "default": default, "takes": setting.takes, "doc": setting.doc}


def _encode(value: object) -> str:
    return msgspec.json.encode(value, enc_hook=str).decode()


def _lines(shown: Sequence[Effective]) -> Iterator[str]:
    # Also a setting that is no secret may hold one, such as an extension's.
    texts = [each.value if isinstance(each.value, Path) else _encode(each.value) for each in shown]
    values = [f"{each.setting.key} = {redact_for_display(str(text))}" for each, text in zip(shown, texts, strict=True)]
    width = min(max(map(len, values)), 44)
    for each, value in zip(shown, values, strict=True):
        yield f"{value:<{width}}  {each.origin}"
        yield colored(f"    {each.setting.doc}", "2")
