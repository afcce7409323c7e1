"""A client of the state for commands that look at stored data or change it: `attach` gives a StateClient.

A command asks by a request of the HTTP API. The running gateway answers it if there is one, else the handler of the
same route does, here, with the store under the state lock. Nothing here starts a gateway: looking at a session must
not answer anybody's message.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Collection, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, Protocol, TypeVar
from urllib.parse import parse_qsl, quote, unquote

import msgspec
from msgspec import Struct, structs

from finclaw.cli.client import GatewayClient, find_gateway, retry_while_busy
from finclaw.clock import SystemClock
from finclaw.config.schema import Settings
from finclaw.diagnostics.event_stream import EventStream
from finclaw.errors import ConfigError, FinclawError, SessionError
from finclaw.gateway import PersonRecord, QueuedMessage, StopReport, StopRequest, Summary
from finclaw.kernel.approval import Approval, ApprovalScope, ApprovalState, ApprovalVerdict, Refusal, Standing
from finclaw.kernel.envelope import Inbound
from finclaw.kernel.port import Clock
from finclaw.kernel.record import Accepted, Cost, CostsBy, Today, TurnTrace
from finclaw.kernel.store_port import Store
from finclaw.spend_lines import sum_costs, sum_today
from finclaw.storage.kinds import open_kind
from finclaw.storage.locks import StateLock
from finclaw.storage.sqlite.database import DATABASE
from finclaw.upkeep.stored_data import Upkeep
from finclaw.web.approvals import ApprovalsApi
from finclaw.web.errors import ApiError
from finclaw.web.exchange import ApiRequest, Handler
from finclaw.web.principal import OWNER
from finclaw.web.sessions_api import PeopleApi, SessionsApi
from finclaw.web.view import TurnsView

if TYPE_CHECKING:
    from finclaw.approvals.approvals import Approvals
    from finclaw.extensions.registrar import Registrar
    from finclaw.pipeline.persons import PersonService

T = TypeVar("T")
PATIENCE = 10.0
"""Seconds to wait for a state that is busy: a gateway is starting, or a `finclaw ask` is running."""
LONG: Final = 3_600.0
"""Seconds that a removal of very much may take."""


class StateClient(Protocol):
    """Answers requests of the HTTP API about one state. All methods raise FinclawError."""

    @property
    def is_running(self) -> bool:
        """Whether a gateway answers."""
        ...

    @property
    def is_empty(self) -> bool:
        """Whether nothing was ever stored there."""
        ...

    def call(
        self, method: str, path: str, answer: type[T], body: Struct | bytes | None = None, *, timeout: float = 30.0
    ) -> T: ...
    def find(self, path: str, answer: type[T]) -> T | None: ...  # None: there is no such thing
    def fetch(self, method: str, path: str, body: bytes | None = None, *, timeout: float = 30.0) -> bytes: ...


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
    found = client.find(f"/api/v1/turns/{quote(turn_id, safe='', errors='replace')}", TurnTrace)
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
    with asyncio.Runner() as runner:
        store = runner.run(_open_store(settings, clock))
        try:
            yield StateAtRest(GatewayAtRest(store, settings, clock), runner)
        finally:
            runner.run(store.close())


async def _open_store(settings: Settings, clock: Clock) -> Store:
    return open_kind(settings.storage.kind, settings.state, clock, EventStream().emit)


class _NotThere(SessionError):
    """There is no such thing in the state."""


class StateAtRest:
    """A client of a state that no gateway runs on: it calls the handlers of the HTTP API itself."""

    is_running = False

    def __init__(self, gateway: "GatewayAtRest", runner: asyncio.Runner) -> None:
        self.is_empty = False
        self._runner = runner
        apis = (SessionsApi(gateway), ApprovalsApi(gateway), PeopleApi(gateway))
        self._routes = [route for api in apis for route in api.routes()]

    def call(
        self, method: str, path: str, answer: type[T], body: Struct | bytes | None = None, *, timeout: float = 30.0
    ) -> T:
        content = msgspec.json.encode(body) if isinstance(body, Struct) else body
        return msgspec.json.decode(self.fetch(method, path, content, timeout=timeout), type=answer)

    def find(self, path: str, answer: type[T]) -> T | None:
        try:
            return self.call("GET", path, answer)
        except _NotThere:
            return None

    def fetch(self, method: str, path: str, body: bytes | None = None, *, timeout: float = 30.0) -> bytes:
        where, _, query = path.partition("?")
        for route in self._routes:
            found = re.fullmatch(re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", route.path), where)
            if found is not None and route.method == method:
                values = {name: unquote(value) for name, value in found.groupdict().items()}
                asked = dict(parse_qsl(query, keep_blank_values=True))
                request = ApiRequest(path_values=values, query=asked, body=body or b"")
                return self._runner.run(_answer(route.handler, request))
        raise _NotThere(f"there is no {path}")


async def _answer(handler: Handler, request: ApiRequest) -> bytes:
    try:
        return (await handler(request, OWNER)).body
    except ApiError as error:
        if isinstance(error.__cause__, FinclawError):
            raise error.__cause__ from None
        if error.status == 404:
            raise _NotThere(str(error)) from error
        raise SessionError(str(error)) from error


class GatewayAtRest:
    """What can be asked about stored data while no gateway runs. Its next start continues with what is decided here."""

    def __init__(self, store: Store, settings: Settings, clock: Clock) -> None:
        self.store = store
        self.persons = _PersonsAtRest(store, settings)
        self.upkeep = Upkeep(store, clock, settings.state, self._open_extensions)
        self._settings = settings
        self._clock = clock

    @asynccontextmanager
    async def _open_extensions(self) -> AsyncGenerator["Registrar"]:
        """Load the extensions, which erase their own data."""
        from finclaw.composition.extensions import load_registrar  # noqa: PLC0415  start-up: for erasure only
        from finclaw.extensions.registration import NULL_SERVICES  # noqa: PLC0415  start-up: for erasure only
        from finclaw.storage.sqlite.extension import EXTENSIONS, ExtensionDatabase  # noqa: PLC0415  start-up: the same

        services = structs.replace(
            NULL_SERVICES,
            recall=self.store.recall,
            remember=self.store.remember,
            database=partial(ExtensionDatabase, self._settings.state / EXTENSIONS),
            clock=self._clock,
        )
        registrar = load_registrar(self._settings, services)
        try:
            yield registrar
        finally:
            await registrar.close()

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

    # ── approvals, decided by the owner: only the owner can open the state, as with the token in it ──────────────

    @cached_property
    def _consents(self) -> "Approvals":
        from finclaw.approvals.announce import unheard  # noqa: PLC0415  start-up: for approvals only
        from finclaw.approvals.approvals import Approvals  # noqa: PLC0415  start-up: the same
        from finclaw.approvals.remote_approvers import NoChats  # noqa: PLC0415  start-up: the same

        settings = self._settings
        people = settings.everybody()
        return Approvals(
            self.store, people, settings.approvals, self._clock, _leave_to_next_start, NoChats(), unheard()
        )

    async def approval(self, typed: str) -> Approval | None:
        return await self._consents.approval(typed)

    async def approvals(
        self, states: Collection[ApprovalState] = ("pending",), session: str | None = None, limit: int = 100
    ) -> Sequence[Approval]:
        return await self._consents.approvals(states, session, limit)

    async def decide(
        self,
        typed: str,
        verdict: ApprovalVerdict,
        evidence: Inbound,
        *,
        scope: ApprovalScope = "once",
        reason: str = "",
    ) -> Approval | Refusal:
        return await self._consents.decide(typed, verdict, evidence, scope=scope, reason=reason)

    def summaries(self, approvals: Sequence[Approval]) -> Sequence[Summary]:
        from finclaw.approvals.display import summaries  # noqa: PLC0415  start-up: for approvals only

        return summaries(approvals)

    async def came_of(self, approval_id: str, seconds: float) -> None:
        """Return at once: an approved action runs at the next start."""

    async def grants(self, limit: int = 100) -> Sequence[Standing]:
        return await self._consents.grants.list_grants(limit)

    async def revoke(self, typed: str, evidence: Inbound) -> Standing | Refusal:
        return await self._consents.grants.revoke(typed, evidence)


def _leave_to_next_start(_: Accepted) -> None:
    """It is on disk; nobody here runs turns."""


class _PersonsAtRest:
    """Persons, with those of the settings in the store as at the start of a gateway."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._settings = settings

    async def _open(self) -> "PersonService":
        from finclaw.pipeline.persons import PersonService, open_directory  # noqa: PLC0415  start-up: for persons only

        everybody = self._settings.everybody()
        return PersonService(self._store, everybody, await open_directory(self._store, everybody))

    async def list_people(self, limit: int, after: str = "") -> Sequence[PersonRecord]:
        return await (await self._open()).list_people(limit, after)

    async def find(self, who: str) -> PersonRecord | None:
        return await (await self._open()).find(who)

    async def change(self, who: str, fields: Mapping[str, str]) -> PersonRecord:
        return await (await self._open()).change(who, fields)
