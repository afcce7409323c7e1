"""What can be typed to set a gateway up and look after it. Only words, as in `parser.py`."""

from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable
from pathlib import Path

SHELLS = ("bash", "zsh", "fish")


def _doctor(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _config(parser: ArgumentParser) -> None:
    parser.add_argument(
        "what", choices=("check", "show"), metavar="check|show", help="is it valid; or what it comes to, and from where"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _models(parser: ArgumentParser) -> None:
    parser.add_argument(
        "what",
        nargs="?",
        choices=("list", "show"),
        default="list",
        metavar="list|show",
        help="every model that can be named; or all that is known of one",
    )
    parser.add_argument("name", nargs="?", metavar="MODEL", help="which to show (default: the chosen one)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _turns(parser: ArgumentParser) -> None:
    parser.add_argument("--limit", type=_limit, default=20, metavar="N", help="how many, 1 to 500 (default: 20)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _limit(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 3 and 1 <= int(text) <= 500):
        raise ArgumentTypeError(f"{text!r} is no such number; give one from 1 to 500")
    return int(text)


def _costs(parser: ArgumentParser) -> None:
    parser.add_argument("--days", type=_days, default=30, metavar="N", help="how many, today included (default: 30)")
    parser.add_argument(
        "--by", choices=("day", "model", "user", "agent"), default="day", help="what a line is for (default: day)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _days(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 4 and 1 <= int(text) <= 3660):
        raise ArgumentTypeError(f"{text!r} is no such number of days; give one from 1 to 3660")
    return int(text)


def _one_turn(parser: ArgumentParser) -> None:
    parser.add_argument("turn", metavar="TURN", help="the id of a turn or of its message, or: last")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _extensions(parser: ArgumentParser) -> None:
    parser.add_argument("what", nargs="?", choices=("new",), metavar="new", help="make one instead, with its test")
    parser.add_argument("name", nargs="?", metavar="NAME", help="what the new one is called")
    parser.add_argument("--dir", type=Path, metavar="DIR", help="where to make it (default: here)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _init(_: ArgumentParser) -> None:
    """Only --state and --config, as everywhere."""


def _completion(parser: ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, metavar="|".join(SHELLS), help="the shell that is to read it")


UPKEEP: tuple[tuple[str, str, Callable[[ArgumentParser], None]], ...] = (
    ("init", "make a state directory, a token and a settings file with everything explained", _init),
    ("config", "check the settings, or show what they come to", _config),
    ("doctor", "look at everything that could be wrong, and say what to do; it changes nothing", _doctor),
    ("extensions", "list what extends the agent, in order, with what each adds; or make a new one", _extensions),
    ("models", "list the models that can be used: windows, prices, what they can do", _models),
    ("turns", "list the latest turns", _turns),
    ("costs", "show what the models have cost, by day, model, person or agent, and what caching saved", _costs),
    ("trace", "show what a turn did: its steps, calls, times and costs", _one_turn),
    ("replay", "run a recorded turn again, offline, and show what would come out differently", _one_turn),
    ("completion", "print a script that lets your shell complete commands and options", _completion),
)
