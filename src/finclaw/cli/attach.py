"""A client of the state for commands that look at stored data or change it: `attach` gives a StateClient.

A command asks by a request of the HTTP API. The running gateway answers it if there is one, else the handler of the
same route does, here, with the store under the state lock. Nothing here starts a gateway: looking at a session must
not answer anybody's message.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, quote, unquote

from msgspec import structs

from finclaw.cli.client import TIMEOUT, GatewayClient, NotThere, StateClient, find_gateway, retry_while_busy
from finclaw.clock import SystemClock
from finclaw.config.schema import Settings
from finclaw.diagnostics.event_stream import EventStream
from finclaw.errors import ConfigError, FinclawError, SessionError
from finclaw.gateway import QueuedMessage, StopReport, StopRequest
from finclaw.kernel.port import Clock
from finclaw.kernel.record import Cost, CostsBy, Today, TurnTrace
from finclaw.kernel.store_port import Store
from finclaw.spend_lines import sum_costs, sum_today
from finclaw.storage.kinds import open_kind
from finclaw.storage.locks import StateLock
from finclaw.storage.sqlite.database import DATABASE
from finclaw.upkeep.stored_data import Upkeep
from finclaw.web.approvals import ApprovalsApi
from finclaw.web.errors import ApiError
from finclaw.web.exchange import ApiRequest, Handler, HttpRoute
from finclaw.web.principal import OWNER
from finclaw.web.sessions_api import PeopleApi, SessionsApi
from finclaw.web.view import TurnsView

if TYPE_CHECKING:
    from finclaw.extensions.registrar import Registrar
    from finclaw.pipeline.persons import PersonService

PATIENCE = 10.0
"""Seconds to wait for a state that is busy: a gateway is starting, or a `finclaw ask` is running."""
LONG: Final = 3_600.0  # seconds that a removal of very much may take


def session_path(key: str) -> str:
    """Return the path of a session. Its key is full of escapes, which are escaped once more."""
    return f"/api/v1/sessions/{quote(key, safe='')}"


def find_turn(client: StateClient, settings: Settings, name: str) -> TurnTrace:
    """By a turn's id, a message's id, or `last`. Raises ConfigError when there is none, with what to type instead."""
    turn_id = name
    if name == "last":
        latest = client.call("GET", "/api/v1/turns?limit=1", TurnsView).items
        if not latest:
            raise ConfigError(f"there is no turn yet in {settings.state}; `finclaw ask` makes the first")
        turn_id = latest[0].turn_id
    found = client.turn(turn_id)
    if found is None:
        raise ConfigError(f"there is no turn {name!r} in {settings.state}; `finclaw turns` lists the latest")
    return found


@contextmanager
def attach(settings: Settings, *, make: bool = False) -> Generator[StateClient]:
    """`make` says that a state may begin here; without it a state that is not there is not made, and is empty."""
    exists = make or (settings.state / DATABASE).exists()

    def reach() -> GatewayClient | StateLock | None:
        if (gateway := find_gateway(settings.state)) is not None:
            return gateway
        return StateLock(settings.state) if exists else None

    reached = retry_while_busy(reach, PATIENCE)
    if reached is None:
        with TemporaryDirectory() as aside, _open_at_rest(replace(settings, state=Path(aside))) as client:
            client.is_empty = True
            yield client
    elif isinstance(reached, StateLock):
        with reached, _open_at_rest(settings) as client:
            yield client
    else:
        yield reached


@contextmanager
def _open_at_rest(settings: Settings) -> Generator["StateAtRest"]:
    clock = SystemClock()

    async def open_store() -> Store:  # which wants a running loop
        return open_kind(settings.storage.kind, settings.state, clock, EventStream().emit)

    with asyncio.Runner() as runner:
        store = runner.run(open_store())
        try:
            yield StateAtRest(store, settings, clock, runner)
        finally:
            runner.run(store.close())


class StateAtRest(StateClient):
    """A client of a state that no gateway runs on: it calls the handlers of the HTTP API itself."""

    name = "the state"
    is_running = False

    def __init__(self, store: Store, settings: Settings, clock: Clock, runner: asyncio.Runner) -> None:
        gateway = GatewayAtRest(store, settings, clock)
        self._make_approvals = lambda: ApprovalsApi(ApprovalsAtRest(store, settings, clock))
        self._routes = [*SessionsApi(gateway).routes(), *PeopleApi(gateway).routes()]
        self._store = store
        self._people = settings.everybody()
        self._runner = runner

    def fetch(self, method: str, path: str, body: bytes | None = None, *, timeout: float = TIMEOUT) -> bytes:
        where, _, query = path.partition("?")
        routes: Sequence[HttpRoute] = self._routes
        if where.startswith(("/api/v1/approvals", "/api/v1/grants")):
            routes = self._make_approvals().routes()
        elif where == "/api/v1/people":  # those of the settings are known as at the start of a gateway
            self._runner.run(self._store.seed_people(self._people.entries))
        for route in routes:
            found = re.fullmatch(re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", route.path), where)
            if found is not None and route.method == method:
                values = {name: unquote(value) for name, value in found.groupdict().items()}
                asked = dict(parse_qsl(query, keep_blank_values=True))
                request = ApiRequest(path_values=values, query=asked, body=body or b"")
                return self._runner.run(_answer(route.handler, request))
        raise NotThere(f"there is no {path}")


async def _answer(handler: Handler, request: ApiRequest) -> bytes:
    try:
        return (await handler(request, OWNER)).body
    except ApiError as error:
        if isinstance(error.__cause__, FinclawError):
            raise error.__cause__ from None
        if error.status == 404:
            raise NotThere(str(error)) from error
        raise SessionError(str(error)) from error


class GatewayAtRest:
    """What can be asked about stored data while no gateway runs. Its next start continues with what is decided here."""

    def __init__(self, store: Store, settings: Settings, clock: Clock) -> None:
        self.store = store
        self.upkeep = Upkeep(store, clock, settings.state, self._open_extensions)
        self._settings = settings
        self._clock = clock

    @asynccontextmanager
    async def _open_extensions(self) -> AsyncGenerator["Registrar"]:
        from finclaw.composition.extensions import load_registrar  # noqa: PLC0415  start-up: for erasure only
        from finclaw.extensions.registration import NULL_SERVICES  # noqa: PLC0415  start-up: for erasure only
        from finclaw.storage.sqlite.extension import EXTENSIONS, ExtensionDatabase  # noqa: PLC0415  start-up: the same

        store = self.store
        database = partial(ExtensionDatabase, self._settings.state / EXTENSIONS)
        services = structs.replace(
            NULL_SERVICES, recall=store.recall, remember=store.remember, database=database, clock=self._clock
        )
        registrar = load_registrar(self._settings, services)
        try:
            yield registrar
        finally:
            await registrar.close()

    @property
    def persons(self) -> "PersonService":
        from finclaw.pipeline.persons import PersonDirectory, PersonService  # noqa: PLC0415  start-up: for persons only

        return PersonService(self.store, self._settings.everybody(), PersonDirectory())

    async def reset(self, session: str) -> None:
        await self.store.reset(session)

    async def stop_session(self, request: StopRequest) -> StopReport:
        return StopReport()

    def queue(self, session: str) -> Sequence[QueuedMessage]:
        return ()

    async def costs(self, days: int, by: CostsBy) -> Sequence[Cost]:
        return await sum_costs(self.store, self._clock.now(), days, by)

    async def today(self) -> Today:
        settings = self._settings
        return await sum_today(self.store, self._clock.now(), settings.agent.name, settings.budget.agent_day_usd)


class ApprovalsAtRest:
    """Approvals, decided by the owner: only the owner can open the state, as with the token in it."""

    def __init__(self, store: Store, settings: Settings, clock: Clock) -> None:
        from finclaw.approvals.announce import unheard  # noqa: PLC0415  start-up: for approvals only
        from finclaw.approvals.approvals import Approvals  # noqa: PLC0415  start-up: the same
        from finclaw.approvals.display import summaries  # noqa: PLC0415  start-up: the same
        from finclaw.approvals.remote_approvers import NoChats  # noqa: PLC0415  start-up: the same

        people = settings.everybody()
        # What is decided is on disk; the next start of a gateway runs it.
        approvals = Approvals(store, people, settings.approvals, clock, lambda _: None, NoChats(), unheard())
        self.approval = approvals.approval
        self.approvals = approvals.approvals
        self.decide = approvals.decide
        self.grants = approvals.grants.list_grants
        self.revoke = approvals.grants.revoke
        self.summaries = summaries

    async def came_of(self, approval_id: str, seconds: float) -> None:
        """Return at once: an approved action runs at the next start."""
