"""`finclaw forget`: erase everything that one person said, at any age."""

from argparse import ArgumentParser, Namespace

from finclaw.cli.arguments import add_erasure_options, add_state_options, parse_text
from finclaw.cli.attach import attach
from finclaw.cli.erasure import confirm, erase_typed_lines, needs_confirmation, report_erased
from finclaw.cli.options import settings_to_look
from finclaw.kernel.erasure import PersonId
from finclaw.tools.approval.people import LOCAL


def arguments(parser: ArgumentParser) -> None:
    add_state_options(parser)
    parser.add_argument(
        "person",
        type=parse_text,
        metavar="CHANNEL:ACCOUNT:SENDER",
        help="who, as /whoami shows it, such as web:owner:owner",
    )
    add_erasure_options(parser)


def run(args: Namespace) -> int:
    settings = settings_to_look(args)
    person = PersonId.parse(args.person)
    asks = needs_confirmation(args)
    with attach(settings) as client:
        if asks and not confirm(client.forget_person(person, dry_run=True)):
            print("nothing was erased")
            return 1
        erased = client.forget_person(person, dry_run=args.dry_run)
        if not args.dry_run and str(person) in LOCAL:
            erase_typed_lines(settings.state)
    report_erased(erased, args)
    return 0
