"""`finclaw status`: whether a gateway runs on this state, and what the state holds. It changes nothing."""

from argparse import ArgumentParser, Namespace

import apsw
import msgspec

from finclaw.channels.unreachable import memory_key, read_unreachable
from finclaw.cli.arguments import add_json_option, add_state_options, settings_to_look
from finclaw.cli.client import find_gateway
from finclaw.cli.formatting import clean, json_line, short
from finclaw.config.routes import chosen_model
from finclaw.config.schema import Settings
from finclaw.errors import StateBusy
from finclaw.gateway import UnreachableChat
from finclaw.kernel.record import Counts
from finclaw.storage.sqlite.database import DATABASE, explain, open_database
from finclaw.storage.sqlite.inbox import counts
from finclaw.storage.sqlite.state import recall
from finclaw.storage.state_lock import StateLock

_LABELS = {
    "sessions": "sessions",
    "waiting": "messages waiting",
    "running": "messages being answered",
    "ended": "messages ended",
    "units_pending": "replies to send",
    "dead_letters": "dead letters (messages that failed)",
    "units_dead": "replies that could not be sent",
}


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a gateway, or of a store at rest."""

    running: bool
    url: str | None = None
    pid: int | None = None
    ready: bool = False
    problem: str = ""
    """Why the gateway can record nothing."""
    busy: str = ""
    """Why nothing can be said about what the state holds."""
    state: str
    market: str
    model: str
    counts: Counts | None = None
    unreachable: tuple[UnreachableChat, ...] = ()


def arguments(parser: ArgumentParser) -> None:
    add_state_options(parser)
    add_json_option(parser)


def run(args: Namespace) -> int:
    settings = settings_to_look(args)
    status = find_status(settings)
    print(json_line(status) if args.json else _format_text(status))
    return 0


def find_status(settings: Settings) -> Status:
    return _ask_gateway(settings) or _read_store(settings)


def _ask_gateway(settings: Settings) -> Status | None:
    client = find_gateway(settings.state)
    if client is None:
        return None
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
    at_rest = Status(running=False, state=str(settings.state), market=settings.market, model=chosen_model(settings))
    try:
        return _read_database(settings, at_rest)
    except StateBusy as error:
        return msgspec.structs.replace(at_rest, busy=str(error))


def _read_database(settings: Settings, status: Status) -> Status:
    """Read under the lock, without waking the gateway: asking must not answer anybody's message."""
    database = settings.state / DATABASE
    if not database.exists():
        return status
    with StateLock(settings.state):
        connection = open_database(database)
        try:
            kept = [(name, recall(connection, memory_key(name), "")) for name in settings.channels]
            found = tuple(read_unreachable(kept))
            return msgspec.structs.replace(status, counts=counts(connection), unreachable=found)
        except apsw.Error as error:
            raise explain(error, database) from error
        finally:
            connection.close()


def _format_text(status: Status) -> str:
    lines = [
        _headline(status),
        f"  state   {status.state}",
        f"  market  {status.market}",
        f"  model   {short(status.model, 100)}",
    ]
    if status.counts is not None:
        figures = msgspec.structs.asdict(status.counts)
        lines += [f"  {figures[name]:>6}  {label}" for name, label in _LABELS.items()]
        if status.unreachable:
            lines.append(f"  {len(status.unreachable):>6}  chats that cannot be reached: finclaw channels list")
        if status.counts.dead_letters:
            lines.append("  what failed: finclaw turns; why: finclaw trace TURN")
    elif not status.busy:
        lines.append("  nothing was ever stored there; `finclaw serve` or `finclaw ask` begins")
    return "\n".join(lines)


def _headline(status: Status) -> str:
    if status.busy:
        return f"no gateway answers, but the state is in use: {status.busy}"
    if not status.running:
        return "no gateway runs on this state; start it with: finclaw serve"
    if status.problem:
        return f"a gateway runs at {status.url} (process {status.pid}), and is not ready: {clean(status.problem)}"
    return f"a gateway runs at {status.url} (process {status.pid}{'' if status.ready else ', not ready yet'})"
