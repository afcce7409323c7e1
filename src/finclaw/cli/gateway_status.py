"""The status of a gateway and of what its state holds, asked without changing anything."""

from contextlib import closing

import apsw
from msgspec import Struct
from msgspec.structs import replace

from finclaw.channels.unreachable import memory_key, read_unreachable
from finclaw.cli.client import find_gateway
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
