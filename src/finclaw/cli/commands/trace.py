"""`finclaw trace`: what became of a message, with the steps, calls, times and costs of its turn."""

from argparse import ArgumentParser, Namespace

import msgspec

from finclaw.cli.arguments import add_turn_argument
from finclaw.cli.formatting import fit_line, terminal_columns
from finclaw.cli.options import settings_to_look
from finclaw.cli.terminal_text import escape_json
from finclaw.cli.trace.find_turn import find_turn_and_approvals
from finclaw.cli.trace.tree import trace_of, tree_lines
from finclaw.redaction import hide_known_secrets


def arguments(parser: ArgumentParser) -> None:
    add_turn_argument(parser)


def run(args: Namespace) -> int:
    trace = trace_of(*find_turn_and_approvals(settings_to_look(args), args.turn))
    if args.json:
        print(escape_json(hide_known_secrets(msgspec.json.encode(trace).decode())))
    else:
        print("\n".join(fit_line(line, terminal_columns()) for line in tree_lines(trace)))
    return 0
