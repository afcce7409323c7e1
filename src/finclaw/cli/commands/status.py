"""`finclaw status`: whether a gateway runs on this state, and what the state holds. It changes nothing."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import closing

import apsw
from msgspec import Struct
from msgspec.structs import replace

from finclaw.channels.unreachable import memory_key, read_unreachable
from finclaw.cli.arguments import add_json_option, add_state_options, settings_to_look
from finclaw.cli.client import find_gateway
from finclaw.cli.formatting import clean, print_result, short
from finclaw.config.routes import chosen_model
from finclaw.config.schema import Settings
from finclaw.errors import StateBusy
from finclaw.gateway import UnreachableChat
from finclaw.kernel.record import Counts
from finclaw.storage.locks import StateLock
from finclaw.storage.sqlite.database import DATABASE, explain, open_database
from finclaw.storage.sqlite.inbox import counts
from finclaw.storage.sqlite.state import recall


class Status(Struct, frozen=True, kw_only=True):
    running: bool
    url: str | None = None
    pid: int | None = None
    ready: bool = False
    problem: str = ""  # why the gateway can record nothing
    busy: str = ""  # why nothing can be said about what the state holds
    state: str
    market: str
    model: str
    counts: Counts | None = None
    unreachable: tuple[UnreachableChat, ...] = ()


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


def find_status(settings: Settings) -> Status:
    client = find_gateway(settings.state)
    if client is None:
        return _read_store(settings)
    status = client.status()
    return Status(
        running=True,
        url=client.address.url,
        pid=client.address.pid,
        ready=status.ready,
        problem=status.problem,
        state=str(settings.state),
        market=status.market,
        model=status.model,
        counts=status.counts,
        unreachable=status.unreachable,
    )


def _read_store(settings: Settings) -> Status:
    """Read under the lock, without waking the gateway: asking must not answer anybody's message."""
    at_rest = Status(running=False, state=str(settings.state), market=settings.market, model=chosen_model(settings))
    database = settings.state / DATABASE
    if not database.exists():
        return at_rest
    try:
        with StateLock(settings.state), closing(open_database(database)) as connection:
            kept = [(name, recall(connection, memory_key(name), "")) for name in settings.channels]
            found = tuple(read_unreachable(kept))
            return replace(at_rest, counts=counts(connection), unreachable=found)
    except StateBusy as error:
        return replace(at_rest, busy=str(error))
    except apsw.Error as error:
        raise explain(error, database) from error
