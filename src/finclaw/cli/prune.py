"""`finclaw prune`: remove what nobody has used for long."""

import sys
from argparse import Namespace

from finclaw.cli.chat.clean import json_line
from finclaw.cli.options import settings_to_look
from finclaw.cli.shelf import opened
from finclaw.errors import ConfigError
from finclaw.kernel.record import Pruned
from finclaw.kernel.retention import DEDUPE_DAYS
from finclaw.web.sessions_view import PrunedView


def run(args: Namespace) -> int:
    settings = settings_to_look(args)
    asked = args.older_than or settings.storage.retention_days
    days = max(asked, DEDUPE_DAYS)
    asks = not (args.yes or args.dry_run)
    if asks and (args.json or not _at_terminal()):
        raise ConfigError("prune removes for good; say --yes, or look first with --dry-run")
    if days > asked:
        print(
            f"finclaw: the last {DEDUPE_DAYS} days are always kept, so that a message which arrives twice is known",
            file=sys.stderr,
        )
    with opened(settings) as shelf:
        if asks:
            expected = shelf.prune(days, dry_run=True)
            if (expected.messages or expected.sessions) and not _agreed(expected, days):
                print("nothing was removed")
                return 1
        pruned = shelf.prune(days, dry_run=args.dry_run)
    _tell(pruned, days, args)
    return 0


def _at_terminal() -> bool:
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))  # pyright: ignore


def _agreed(expected: Pruned, days: int) -> bool:
    print(f"{_amount(expected)} not used for {days} days will be removed for good.")
    try:
        answer = input("Go on? [y/N] ")
    except EOFError:
        return False
    return answer.strip().lower() in ("y", "yes", "예", "네")


def _amount(pruned: Pruned) -> str:
    messages = f"{pruned.messages:,} message{'' if pruned.messages == 1 else 's'} with their answers"
    return f"{messages} and {pruned.sessions:,} session{'' if pruned.sessions == 1 else 's'}"


def _tell(pruned: Pruned, days: int, args: Namespace) -> None:
    if args.json:
        view = PrunedView(
            messages=pruned.messages, sessions=pruned.sessions, older_than_days=days, dry_run=args.dry_run
        )
        print(json_line(view))
    elif not (pruned.messages or pruned.sessions):
        print(f"nothing is older than {days} days")
    else:
        print(f"{_amount(pruned)} {'would be' if args.dry_run else 'were'} removed")
