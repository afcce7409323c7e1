"""What can be typed about what is kept: sessions, and how long. Only words, as in `parser.py`."""

from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable
from urllib.parse import quote

from finclaw.kernel.text import fix_surrogates

Words = tuple[str, str, Callable[[ArgumentParser], None]]

_LONGEST = 7_500
"""Characters of a key, escaped for an address, that a gateway still reads."""
_DAYS = {"d": 1, "w": 7, "y": 365}


def _json(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _key(parser: ArgumentParser) -> None:
    parser.add_argument(
        "key", type=_text, metavar="KEY", help="the session: its key, or the name you gave to --session"
    )


def _pages(parser: ArgumentParser, what: str, default: int) -> None:
    parser.add_argument(
        "--limit", type=_count, default=default, metavar="N", help=f"at most so many (default {default})"
    )
    parser.add_argument("--after", type=_text, metavar="PLACE", help=f"go on behind this {what}")
    _json(parser)


def _list(parser: ArgumentParser) -> None:
    parser.add_argument("--containing", type=_text, default="", metavar="TEXT", help="only keys with this in them")
    _pages(parser, "place, which the page before told", 50)


def _show(parser: ArgumentParser) -> None:
    _key(parser)
    _pages(parser, "message's id; without it the latest are shown", 50)


def _export(parser: ArgumentParser) -> None:
    _key(parser)
    parser.add_argument("-o", "--output", default="-", metavar="FILE", help="where to (default: standard output)")
    parser.add_argument("--force", action="store_true", help="replace the file if it is there")
    _json(parser)


def _import(parser: ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="what `finclaw sessions export` wrote; - reads standard input")
    parser.add_argument("--as", type=_text, dest="key", metavar="KEY", help="the new session (default: the one it was)")
    _json(parser)


def _repair(parser: ArgumentParser) -> None:
    parser.add_argument("key", type=_text, metavar="KEY", nargs="?", help="the session (default: all of them)")
    parser.add_argument("--dry-run", action="store_true", help="only tell what is broken")
    _json(parser)


def _reset(parser: ArgumentParser) -> None:
    _key(parser)
    _json(parser)


def _erasing(parser: ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="only tell what would be erased")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    _json(parser)


def _delete(parser: ArgumentParser) -> None:
    _key(parser)
    _erasing(parser)


def forget(parser: ArgumentParser) -> None:
    parser.add_argument(
        "person", type=_text, metavar="CHANNEL:ACCOUNT:SENDER", help="who, as /whoami shows it, such as web:owner:owner"
    )
    _erasing(parser)


def backup(parser: ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="the archive to write; only you can read it")
    parser.add_argument("--with-token", action="store_true", help="with the API's token, which opens the gateway")
    parser.add_argument("--force", action="store_true", help="replace the file if it is there")
    _json(parser)


def restore(parser: ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="what `finclaw backup` wrote")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    _json(parser)


def _fork(parser: ArgumentParser) -> None:
    _key(parser)
    parser.add_argument(
        "into", type=_text, metavar="NEWKEY", help="the new session: a name for --session, or a whole key"
    )
    _json(parser)


SESSIONS: tuple[Words, ...] = (
    ("list", "list sessions, the most recently used first", _list),
    ("show", "print a conversation, the newest message last", _show),
    ("export", "write a conversation to a file", _export),
    ("import", "make a session from such a file", _import),
    ("fork", "copy a conversation into a new session", _fork),
    ("reset", "begin a conversation anew, as /reset does; its records stay", _reset),
    ("delete", "erase a conversation with its turns, traces and answers, for good", _delete),
    ("repair", "make broken conversations whole, and say what was wrong", _repair),
)


def prune(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--older-than", type=_age, metavar="AGE", help="such as 90d, 12w or 1y (default: storage.retention_days)"
    )
    parser.add_argument("--dry-run", action="store_true", help="only tell what would be removed")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    _json(parser)


def _text(text: str) -> str:
    if fix_surrogates(text) != text:
        raise ArgumentTypeError("this is not UTF-8 text; check your terminal's character encoding")
    if len(quote(quote(text, safe=":%+"), safe="")) > _LONGEST:
        raise ArgumentTypeError("this is longer than any session's key; give less of it")
    return text


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 3 and 1 <= int(text) <= 500):
        raise ArgumentTypeError(f"{text!r} is not a number from 1 to 500; give one")
    return int(text)


def _age(text: str) -> int:
    """In days."""
    number, unit = text[:-1], text[-1:]
    if not (number.isascii() and number.isdigit() and len(number) <= 5 and int(number) and unit in _DAYS):
        raise ArgumentTypeError(
            f"{text!r} is not an age; give a number of days, weeks or years, such as 90d, 12w or 1y"
        )
    return min(int(number) * _DAYS[unit], 100_000)


def approvals(parser: ArgumentParser) -> None:
    parser.add_argument(
        "what",
        nargs="?",
        choices=("list", "show", "approve", "deny", "grants", "revoke"),
        default="list",
        help="what to do (default: list); `grants` lists every yes that stands, `revoke` takes one back",
    )
    parser.add_argument("id", type=_text, nargs="?", metavar="ID", help="the approval's id, whole")
    parser.add_argument("--all", action="store_true", help="list those that were decided or have expired, too")
    parser.add_argument(
        "--scope", choices=("once", "session", "always"), default="once", help="how far a yes reaches (default: once)"
    )
    parser.add_argument("--reason", type=_text, default="", metavar="TEXT", help="why not, for whoever asked")
    _json(parser)
