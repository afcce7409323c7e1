"""`finclaw turns`: the latest turns in a list, with the ids that `trace` and `replay` want."""

from argparse import ArgumentParser, Namespace

from finclaw.cli.arguments import add_json_option, add_state_options, parse_count, settings_to_look
from finclaw.cli.attach import attach
from finclaw.cli.formatting import fit_table, local_time, milliseconds, money, print_result, short, turn_ms
from finclaw.kernel.record import TurnRecord
from finclaw.web.view import TurnsView

_HEAD = ("TURN", "STARTED", "STATUS", "STEPS", "TIME", "COST", "TEXT", "SESSION")
_FIGURES = (3, 4, 5)


def arguments(parser: ArgumentParser) -> None:
    add_state_options(parser)
    parser.add_argument("--limit", type=parse_count, default=20, metavar="N", help="how many, 1 to 500 (default: 20)")
    add_json_option(parser)


def run(args: Namespace) -> None:
    with attach(settings_to_look(args)) as client:
        turns = client.call("GET", f"/api/v1/turns?limit={args.limit}", TurnsView)
    lines = ['there is no turn yet; try: finclaw ask "What is AAPL trading at?"']
    if turns.items:
        lines = fit_table([_HEAD, *map(_row, turns.items)], right=_FIGURES)
    print_result(args, turns, lines)


def _row(turn: TurnRecord) -> tuple[str, ...]:
    return (
        turn.turn_id,
        local_time(turn.started_at),
        turn.status,
        str(turn.steps),
        milliseconds(turn_ms(turn)),
        money(turn.cost),
        short(turn.opening, 40),
        short(turn.session, 100),
    )
