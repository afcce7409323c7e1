"""`finclaw prune`: remove conversations that were not used for long."""

import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from typing import Final

from finclaw.cli.arguments import add_json_option, add_state_options, settings_to_look
from finclaw.cli.attach import LONG, StateClient, attach
from finclaw.cli.commands.forget import ask_to_go_on, needs_confirmation
from finclaw.cli.formatting import plural, print_result
from finclaw.kernel.store_port import DEDUPE_DAYS
from finclaw.web.view import PruneBody, PrunedView

_DAYS: Final = {"d": 1, "w": 7, "y": 365}


def arguments(parser: ArgumentParser) -> None:
    add_state_options(parser)
    about = "such as 90d, 12w or 1y (default: storage.retention_days)"
    parser.add_argument("--older-than", type=_parse_age, metavar="AGE", help=about)
    parser.add_argument("--dry-run", action="store_true", help="only show what would be removed")
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    add_json_option(parser)


def _parse_age(text: str) -> int:
    """In days."""
    number = text[:-1]
    unit = text[-1:]
    if not (number.isascii() and number.isdigit() and len(number) <= 5 and int(number) and unit in _DAYS):
        advice = "give a number of days, weeks or years, such as 90d, 12w or 1y"
        raise ArgumentTypeError(f"{text!r} is not an age; {advice}")
    return min(int(number) * _DAYS[unit], 100_000)


def run(args: Namespace) -> int:
    settings = settings_to_look(args)
    asked = args.older_than or settings.storage.retention_days
    days = max(asked, DEDUPE_DAYS)
    asks = needs_confirmation(args, "prune removes for good; say --yes, or look first with --dry-run")
    if days > asked:
        kept = f"the last {DEDUPE_DAYS} days are always kept, so that a message which arrives twice is known"
        print(f"finclaw: {kept}", file=sys.stderr)
    with attach(settings) as client:
        if asks:
            expected = _prune(client, days, dry_run=True)
            if expected.messages or expected.sessions:
                print(f"{_amount(expected)} not used for {days} days will be removed for good.")
                if not ask_to_go_on():
                    print("nothing was removed")
                    return 1
        pruned = _prune(client, days, dry_run=args.dry_run)
    lines = [f"nothing is older than {pruned.older_than_days} days"]
    if pruned.messages or pruned.sessions:
        lines = [f"{_amount(pruned)} {'would be' if args.dry_run else 'were'} removed"]
    print_result(args, pruned, lines)
    return 0


def _prune(client: StateClient, days: int, *, dry_run: bool) -> PrunedView:
    return client.call("POST", "/api/v1/prune", PrunedView, PruneBody(days, dry_run), timeout=LONG)


def _amount(pruned: PrunedView) -> str:
    return f"{plural(pruned.messages, 'message', ',')} with their answers and {plural(pruned.sessions, 'session', ',')}"
