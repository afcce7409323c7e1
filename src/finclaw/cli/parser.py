"""What can be typed. Only words here: a command's module is loaded when the command is run."""

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import cast

from finclaw.cli.belongings import BELONGINGS
from finclaw.cli.keeping import SESSIONS, Words, approvals, backup, forget, prune, restore
from finclaw.cli.mcp_words import MCP
from finclaw.cli.upkeep import UPKEEP
from finclaw.cli.usage import Parser


def build_parser(only: str | None = None) -> Parser:
    """All that can be typed, or one command of it: to tell all forty takes 8 ms, which every run would pay."""
    parser = Parser(
        prog="finclaw",
        description="Talk to a finance agent from the chats you already use.",
        epilog='Try: finclaw ask "What is AAPL trading at?" Extensions may add commands: finclaw extensions',
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="store_true", help="print the version and leave")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands", prog=parser.prog)
    _add(
        commands,
        (
            ("serve", "run the gateway until Ctrl-C", _serve),
            ("chat", "talk: a line, its answer, and again", _chat),
            ("ask", "ask one question and print the answer", _ask),
            ("status", "say whether a gateway runs, and what it holds", _status),
        ),
        only,
    )
    about = "look at conversations, copy, export, import, repair, reset and erase them"
    for name, what, actions in (("sessions", about, SESSIONS), *BELONGINGS, MCP):
        if only not in (None, name):
            continue
        group = commands.add_parser(name, help=what, description=_sentence(what), allow_abbrev=False)
        choice = group.add_subparsers(dest="action", metavar="ACTION", title="actions", required=True, prog=group.prog)
        _add(choice, actions)
    _add(
        commands,
        (
            ("forget", "erase everything that one person said, for good", forget),
            ("backup", "write everything into one file, also while the gateway runs", backup),
            ("restore", "put a backup in the place of the state, which is kept beside it", restore),
            ("prune", "remove what nobody has used for long", prune),
            ("approvals", "decide about what waits for a person; see and revoke every yes that stands", approvals),
            ("tools", "list the tools, where they come from, and whether they may run", _tools),
            ("explain", "say why a tool may run, must be approved, or is denied", _explain),
            *UPKEEP,
        ),
        only,
    )
    return parser


def _add(commands: "argparse._SubParsersAction[Parser]", words: Iterable[Words], only: str | None = None) -> None:  # pyright: ignore[reportPrivateUsage]
    for name, about, add_arguments in words:
        if only not in (None, name):
            continue
        command = commands.add_parser(name, help=about, description=_sentence(about), allow_abbrev=False)
        _everywhere(command)
        add_arguments(command)


def _sentence(about: str) -> str:
    """With its first letter alone made large: names such as MCP and Ctrl-C keep theirs."""
    return f"{about[:1].upper()}{about[1:]}."


def extension_parser(name: str, about: str, *, add_help: bool = True) -> Parser:
    """For a command that is not ours: what we understand everywhere, and the rest is its own."""
    parser = Parser(prog=f"finclaw {name}", description=about, add_help=add_help, allow_abbrev=False)
    parser.set_defaults(command=name)
    _everywhere(parser)
    return parser


def _everywhere(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--state", type=_path, metavar="DIR", help="where everything lives (default: $FINCLAW_HOME or ~/.finclaw)"
    )
    parser.add_argument(
        "--config", type=_path, metavar="FILE", help="the settings file (default: finclaw.yaml in the state directory)"
    )


def _market(parser: argparse.ArgumentParser) -> None:
    market = parser.add_mutually_exclusive_group()
    market.add_argument("--demo", dest="market", action="store_const", const="demo", help="use the demo market")
    market.add_argument(
        "--live", dest="market", action="store_const", const="live", help="use live prices (there are none yet)"
    )


def _serve(parser: argparse.ArgumentParser) -> None:
    _market(parser)
    parser.add_argument("--port", type=_port, metavar="N", help="listen on this port (default: 8787; 0: any free one)")


def _chat(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--session", default="main", metavar="KEY", help="the conversation to go on with")
    _market(parser)


def _ask(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("text", nargs="*", metavar="TEXT", help="the question; - or nothing reads standard input")
    parser.add_argument("--json", action="store_true", help="print the whole outcome as one JSON object")
    parser.add_argument("--session", default="main", metavar="KEY", help="the conversation to go on with")
    parser.add_argument(
        "--model", metavar="NAME", help="the model or alias that answers this one question; no other is asked instead"
    )
    parser.add_argument("--demo", dest="market", action="store_const", const="demo", help="use the demo market")
    parser.add_argument("--verbose", action="store_true", help="show the log, where this command runs the turn itself")


def _status(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _tools(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what", nargs="?", choices=("list",), default="list", metavar="list", help="every tool that is registered"
    )
    _whom(parser)


def _explain(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words", nargs="+", metavar="NAME", help="the tool, as `finclaw tools list` has it; `tool NAME` will do, too"
    )
    parser.add_argument(
        "--args", type=_object, metavar="JSON", help="what it is called with, such as '{\"amount\": 5}'"
    )
    parser.add_argument(
        "--strangers", action="store_true", help="also judge it after strangers' words, such as a page, were read"
    )
    _whom(parser)


def _whom(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--user", metavar="ID", help="for this person, such as web:owner (default: you)")
    parser.add_argument("--channel", default="web", metavar="NAME", help="from this channel (default: web)")
    parser.add_argument("--role", action="append", metavar="ROLE", help="with this role; may be given several times")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _object(text: str) -> dict[str, object]:
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise argparse.ArgumentTypeError("this is no JSON; quote it for your shell, as in '{\"amount\": 5}'") from error
    if not isinstance(found, dict):
        raise argparse.ArgumentTypeError("arguments are a JSON object, such as '{\"amount\": 5}'")
    return cast("dict[str, object]", found)


def _path(text: str) -> Path:
    if not text:
        raise argparse.ArgumentTypeError("the path is empty; give one")
    return Path(text)


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and int(text) <= 65_535):
        raise argparse.ArgumentTypeError(f"{text!r} is not a port; give a number from 0 to 65535")
    return int(text)
