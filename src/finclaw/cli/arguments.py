"""Arguments that several commands share, what is accepted as their values, and the settings that they lead to."""

import os
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from finclaw.text import fix_surrogates

if TYPE_CHECKING:
    from finclaw.config.schema import Settings

_LONGEST: Final = 7_500  # characters of a key, escaped for an address, that a gateway still reads


def start_actions(parser: ArgumentParser) -> Callable[..., ArgumentParser]:
    """Return a function that adds an action by name, help and handler, such as `list`; it gives the action's parser.
    Each action takes --state and --config. The handler of the one that was typed is in `args.act`."""
    choice = parser.add_subparsers(dest="action", metavar="ACTION", title="actions", required=True, prog=parser.prog)

    def add_action(name: str, about: str, act: Callable[..., object]) -> ArgumentParser:
        action = choice.add_parser(name, help=about, description=to_sentence(about), allow_abbrev=False)
        action.set_defaults(act=act)
        add_state_options(action)
        return action

    return add_action


def to_sentence(about: str) -> str:
    """Capitalize the first letter alone: names such as MCP and Ctrl-C keep theirs."""
    return f"{about[:1].upper()}{about[1:]}."


def add_state_options(parser: ArgumentParser) -> None:
    about = "the state directory (default: $FINCLAW_HOME or ~/.finclaw)"
    parser.add_argument("--state", type=parse_path, metavar="DIR", help=about)
    about = "the settings file (default: finclaw.yaml in the state directory)"
    parser.add_argument("--config", type=parse_path, metavar="FILE", help=about)


def add_json_option(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def add_market_options(parser: ArgumentParser) -> None:
    market = parser.add_mutually_exclusive_group()
    market.add_argument("--demo", dest="market", action="store_const", const="demo", help="use the demo market")
    about = "use live prices, which need no key"
    market.add_argument("--live", dest="market", action="store_const", const="live", help=about)


def add_caller_options(parser: ArgumentParser) -> None:
    parser.add_argument("--user", metavar="ID", help="for this person, such as web:owner (default: you)")
    parser.add_argument("--channel", default="web", metavar="NAME", help="from this channel (default: web)")
    parser.add_argument("--role", action="append", metavar="ROLE", help="with this role; may be given several times")
    add_json_option(parser)


def add_erasure_options(parser: ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="only show what would be erased")
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    add_json_option(parser)


def add_output_options(parser: ArgumentParser) -> None:
    parser.add_argument("-o", "--output", default="-", metavar="FILE", help="where to (default: standard output)")
    parser.add_argument("--force", action="store_true", help="replace the file if it is there")
    add_json_option(parser)


def add_turn_argument(parser: ArgumentParser) -> None:
    add_state_options(parser)
    parser.add_argument("turn", metavar="TURN", help="the id of a turn or of its message, or: last")
    add_json_option(parser)


def parse_path(text: str) -> Path:
    if not text:
        raise ArgumentTypeError("the path is empty; give one")
    return Path(text)


def parse_text(text: str) -> str:
    if fix_surrogates(text) != text:
        raise ArgumentTypeError("this is not UTF-8 text; check your terminal's character encoding")
    if len(quote(quote(text, safe=":%+"), safe="")) > _LONGEST:
        raise ArgumentTypeError("this is longer than any session's key; give less of it")
    return text


def parse_count(text: str, most: int = 500, noun: str = "number") -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(most)) and 1 <= int(text) <= most):
        raise ArgumentTypeError(f"{text!r} is not a {noun} from 1 to {most}; give one")
    return int(text)


# ── the settings; only here is the process's environment handed to the configuration ────────────────────────────


def settings_from(
    args: Namespace, overrides: Mapping[str, object] | None = None, *, only_looking: bool = False
) -> "Settings":
    from finclaw.config.load import load_settings  # noqa: PLC0415  start-up: the parser of commands reads no settings

    return load_settings(state=args.state, config=args.config, overrides=overrides, only_looking=only_looking)


def settings_to_look(args: Namespace, overrides: Mapping[str, object] | None = None) -> "Settings":
    """The same without any secret: a shell that has no keys can still look, and ask a gateway that has them."""
    return settings_from(args, overrides, only_looking=True)


def unread_file_hint(args: Namespace) -> str:
    """A line about a settings file in the working directory that somebody may think is read; empty if there is none."""
    here = Path("finclaw.yaml").absolute()
    if args.config is not None or not here.is_file():
        return ""
    from finclaw.config.load import FILE_NAME, state_directory  # noqa: PLC0415  start-up: mostly there is no such file

    read = state_directory(args.state, os.environ) / FILE_NAME
    if not read.exists():
        there = "would be read, and is not there"
    elif read.samefile(here):
        return ""
    else:
        there = "is read"
    return f"{here} is not read; {read} {there}. To use the one here, add: --config {FILE_NAME}"
