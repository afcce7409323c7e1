"""What can be typed to set a gateway up and look after it. Only words, as in `parser.py`."""

from argparse import ArgumentParser
from collections.abc import Callable

SHELLS = ("bash", "zsh", "fish")


def _doctor(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _config(parser: ArgumentParser) -> None:
    parser.add_argument(
        "what", choices=("check", "show"), metavar="check|show", help="is it valid; or what it comes to, and from where"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _init(_: ArgumentParser) -> None:
    """Only --state and --config, as everywhere."""


def _completion(parser: ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, metavar="|".join(SHELLS), help="the shell that is to read it")


UPKEEP: tuple[tuple[str, str, Callable[[ArgumentParser], None]], ...] = (
    ("init", "make a state directory, a token and a settings file with everything explained", _init),
    ("config", "check the settings, or show what they come to", _config),
    ("doctor", "look at everything that could be wrong, and say what to do; it changes nothing", _doctor),
    ("completion", "print a script that lets your shell complete commands and options", _completion),
)
