"""`finclaw costs`: what the models have cost, and what the cache has saved, by day, model, person or agent."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial

from msgspec.structs import replace

from finclaw.cli.arguments import add_json_option, add_state_options, parse_count, settings_to_look
from finclaw.cli.attach import StateClient, attach
from finclaw.cli.formatting import fit_line, money, plural, print_result, short, table, terminal_columns
from finclaw.config.routes import open_catalog
from finclaw.config.schema import Settings
from finclaw.errors import ConfigError
from finclaw.kernel.record import Cost, CostsBy
from finclaw.web.view import CostsView

_FIGURES = range(1, 9)


def arguments(parser: ArgumentParser) -> None:
    add_state_options(parser)
    days = partial(parse_count, most=3660, noun="number of days")
    parser.add_argument("--days", type=days, default=30, metavar="N", help="how many, today included (default: 30)")
    about = "what a line is for (default: day)"
    parser.add_argument("--by", choices=("day", "model", "user", "agent"), default="day", help=about)
    add_json_option(parser)


def run(args: Namespace) -> None:
    settings = settings_to_look(args)
    with attach(settings) as client:
        view = _sum_costs(client, args.days, args.by)
        if client.is_empty:
            view = replace(view, today=None)
        by_model = view if args.json else _sum_costs(client, args.days, "model")
    print_result(args, view, _lines(view, _gaps(settings, by_model.items)))


def _sum_costs(client: StateClient, days: int, by: CostsBy) -> CostsView:
    return client.call("GET", f"/api/v1/costs?days={days}&by={by}", CostsView)


def _lines(view: CostsView, gaps: Iterable[str]) -> Sequence[str]:
    if not view.items:
        return (f"nothing was spent in the last {plural(view.days, 'day')}", *_today(view))
    head = (view.by.upper(), "CALLS", "IN", "OUT", "CACHE READ", "CACHE WRITE", "HIT", "COST", "SAVED")
    lines = table([head, *map(_row, (*view.items, view.total))], right=_FIGURES)
    legend = "HIT: the cache's part of all input. SAVED: by that, less writing to it."
    if view.today is not None:
        legend = f"Days: {view.today.zone}. {legend}"
    lines += (legend, *_remarks(view.total), *_today(view), *gaps)
    return [fit_line(line, terminal_columns()) for line in lines]


def _remarks(total: Cost) -> Iterator[str]:
    if total.interrupted:
        calls = plural(total.interrupted, "call")
        estimate = money(total.interrupted_cost)
        yield f"interrupted: {calls} of these, cut off by a crash or a restart; their {estimate} is an estimate."
    if total.overstated:
        calls = plural(total.overstated, "call")
        yield f"overstated: the provider reported more than {calls} could cost; each is booked at its reserved maximum."


def _today(view: CostsView) -> Iterator[str]:
    if (today := view.today) is None:
        return
    if today.agent_day_usd is None:
        yield f"today: {money(today.cost)}, without a limit (budget.agent_day_usd is null)"
    else:
        yield f"today: {money(today.cost)} of ${today.agent_day_usd:.2f} (budget.agent_day_usd)"


def _row(cost: Cost) -> tuple[str, ...]:
    use = cost.usage
    numbers = (cost.calls, use.input, use.output, use.cache_read, use.cache_write)
    saved = f"{'-' if cost.saved < 0 else ''}{money(abs(cost.saved))}"
    return (short(cost.name, 60), *(f"{each:,}" for each in numbers), f"{use.hit_rate:.0%}", money(cost.cost), saved)


def _gaps(settings: Settings, used: Sequence[Cost]) -> Iterator[str]:
    """What the sum leaves out: those of which nobody says what they cost."""
    catalog = open_catalog(settings)
    for each in used:
        with suppress(ConfigError):  # nobody knows the model any more
            if each.cost or catalog.find(each.name).priced:
                continue
        yield f"No price is known of {short(each.name, 100)}: its calls are counted, their cost not."
