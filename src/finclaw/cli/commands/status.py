"""`finclaw status`: whether a gateway runs on this state, and what the state holds. It changes nothing."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator

from finclaw.cli.arguments import add_json_option, add_state_options, settings_to_look
from finclaw.cli.formatting import clean, print_result, short
from finclaw.cli.gateway_status import Status, find_status

_LABELS = {
    "sessions": "sessions",
    "waiting": "messages waiting",
    "running": "messages being answered",
    "ended": "messages ended",
    "units_pending": "replies to send",
    "dead_letters": "dead letters (messages that failed)",
    "units_dead": "replies that could not be sent",
}


def arguments(parser: ArgumentParser) -> None:
    add_state_options(parser)
    add_json_option(parser)


def run(args: Namespace) -> None:
    status = find_status(settings_to_look(args))
    print_result(args, status, _lines(status))


def _lines(status: Status) -> Iterator[str]:
    yield _headline(status)
    yield f"  state   {status.state}"
    yield f"  market  {status.market}"
    yield f"  model   {short(status.model, 100)}"
    if status.counts is not None:
        for name, label in _LABELS.items():
            yield f"  {getattr(status.counts, name):>6}  {label}"
        if status.unreachable:
            yield f"  {len(status.unreachable):>6}  chats that cannot be reached: finclaw channels list"
        if status.counts.dead_letters:
            yield "  what failed: finclaw turns; why: finclaw trace TURN"
    elif not status.busy:
        yield "  nothing was ever stored there; `finclaw serve` or `finclaw ask` begins"


def _headline(status: Status) -> str:
    if status.busy:
        return f"no gateway answers, but the state is in use: {status.busy}"
    if not status.running:
        return "no gateway runs on this state; start it with: finclaw serve"
    runs = f"a gateway runs at {status.url} (process {status.pid}"
    if status.problem:
        return f"{runs}), and is not ready: {clean(status.problem)}"
    return f"{runs})" if status.ready else f"{runs}, not ready yet)"
