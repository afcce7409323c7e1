"""`finclaw forget`: erase everything that one person said, at any age."""

from argparse import Namespace

from finclaw.cli.erasing import confirm, erase_typed_lines, must_be_confirmed, report_erased
from finclaw.cli.options import settings_to_look
from finclaw.cli.shelf import opened
from finclaw.kernel.erasure import PersonId
from finclaw.tools.approval.people import LOCAL


def run(args: Namespace) -> int:
    settings = settings_to_look(args)
    person = PersonId.parse(args.person)
    asks = must_be_confirmed(args)
    with opened(settings) as shelf:
        if asks and not confirm(shelf.forget(person, dry_run=True)):
            print("nothing was erased")
            return 1
        erased = shelf.forget(person, dry_run=args.dry_run)
        if not args.dry_run and str(person) in LOCAL:
            erase_typed_lines(settings.state)
    report_erased(erased, args)
    return 0
