"""A client of the state for commands that look at it or change it: `attach` gives a StateClient.

It speaks to the running gateway if there is one, else to the store under the state lock; where nothing was ever stored
it answers as an empty store would. Nothing here starts a gateway: looking at a session must not answer anybody's
message.
"""

import asyncio
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from finclaw.cli.address import find_running, retry_while_busy
from finclaw.clock import SystemClock
from finclaw.config.schema import Settings
from finclaw.diagnostics.event_stream import EventStream
from finclaw.errors import SessionError
from finclaw.gateway import PersonRecord
from finclaw.kernel.approval import Approval, ApprovalScope, ApprovalVerdict, Standing
from finclaw.kernel.erasure import Erased, SenderId
from finclaw.kernel.port import Clock
from finclaw.kernel.record import CostsBy, IntegrityFinding, Pruned, SessionPage, TurnRecord, TurnTrace
from finclaw.kernel.store_port import Store
from finclaw.spend_lines import sum_costs, sum_today
from finclaw.storage.kinds import open_kind
from finclaw.storage.sqlite.database import DATABASE
from finclaw.storage.state_lock import StateLock
from finclaw.transcript.conversation_file import read_conversation, read_earlier_facts, write_conversation
from finclaw.web.approvals_view import WAIT, ApprovalsView, ApproveBody, DecidedApproval, DenyBody, GrantsView
from finclaw.web.sessions_view import (
    BackupView,
    ForgetBody,
    ForkBody,
    PeopleView,
    PersonBody,
    PruneBody,
    PrunedView,
    RepairBody,
    RepairView,
    SessionView,
)
from finclaw.web.view import CostsView, costs_view

if TYPE_CHECKING:
    from finclaw.cli.client import GatewayClient
    from finclaw.cli.stored_state import StoredApprovals, StoredErasure
    from finclaw.pipeline.persons import PersonService

T = TypeVar("T")
PATIENCE = 10.0
"""Seconds to wait for a state that is busy: a gateway is starting, or a `finclaw ask` is running."""
_MORE: Final = 10.0
"""Seconds beyond those that the gateway itself waits."""
_LONG: Final = 3_600.0
"""Seconds that a removal of very much may take."""


@contextmanager
def attach(settings: Settings, *, make: bool = False) -> Generator["StateClient"]:
    """`make` says that a state may begin here; without it a state that is not there is not made, and is empty."""
    clock = SystemClock()

    def reach() -> "GatewayClient | StateLock | None":
        if (gateway := find_running(settings.state)) is not None:
            return gateway
        return StateLock(settings.state) if make or (settings.state / DATABASE).exists() else None

    reached = retry_while_busy(reach, PATIENCE)
    if not isinstance(reached, StateLock):
        yield StateClient(settings, clock, gateway=reached)
        return
    with reached, asyncio.Runner() as runner:
        store = runner.run(_open_store(settings, clock))
        try:
            yield StateClient(settings, clock, store=store, runner=runner)
        finally:
            runner.run(store.close())


async def _open_store(settings: Settings, clock: Clock) -> Store:
    return open_kind(settings.storage.kind, settings.state, clock, EventStream().emit)


class StateClient:
    """Sessions, turns, costs, persons and approvals of one state, by the gateway, in the store, or of an empty state.

    All raise FinclawError. Keys are whole; a conversation travels as the file that `finclaw sessions export` writes.
    """

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        *,
        gateway: "GatewayClient | None" = None,
        store: Store | None = None,
        runner: asyncio.Runner | None = None,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._gateway = gateway
        self._store = store
        self._runner = runner

    def _choose(
        self,
        by_gateway: "Callable[[GatewayClient], T]",
        in_store: Callable[[Store], Coroutine[Any, Any, T]],
        empty: T | SessionError,
    ) -> T:
        """What the gateway answers, or the store, or (`empty`) what is true where nothing was ever stored."""
        if self._gateway is not None:
            return by_gateway(self._gateway)
        if self._store is not None and self._runner is not None:
            return self._runner.run(in_store(self._store))
        if isinstance(empty, SessionError):
            raise empty
        return empty

    # ── sessions ────────────────────────────────────────────────────────────────────────────────────────────────

    def list_sessions(self, limit: int, after: str | None = None, containing: str = "") -> SessionPage:
        query = {"limit": str(limit), "containing": containing} | ({} if after is None else {"after": after})
        return self._choose(
            lambda gateway: gateway.call("GET", f"/api/v1/sessions?{urlencode(query)}", SessionPage),
            lambda store: store.sessions(limit, after, containing),
            SessionPage(items=()),
        )

    def export_session(self, key: str) -> bytes:
        async def export(store: Store) -> bytes:
            return write_conversation(key, await store.messages(key), await store.facts(key))

        return self._choose(
            lambda gateway: gateway.fetch("GET", f"{_session_path(key)}/export"), export, _no_session(key)
        )

    def fork_session(self, key: str, into: str) -> int:
        """Copy a conversation as it is kept, and return how many messages it has. An export would be redacted."""

        async def copy(store: Store) -> int:
            messages = await store.messages(key)
            await store.restore(into, messages, [each.fact for each in reversed(await store.facts(key))])
            return len(messages)

        body, path = msgspec.json.encode(ForkBody(into)), f"{_session_path(key)}/fork"
        return self._choose(
            lambda gateway: gateway.call("POST", path, SessionView, body, timeout=_LONG).messages,
            copy,
            _no_session(key),
        )

    def import_session(self, key: str, content: bytes) -> None:
        def send(gateway: "GatewayClient") -> None:
            gateway.call("POST", f"{_session_path(key)}/import", SessionView, content, timeout=_LONG)

        messages, facts = read_conversation(content)[1], read_earlier_facts(content)
        return self._choose(send, lambda store: store.restore(key, messages, facts), _no_session(key))

    def reset_session(self, key: str) -> None:
        def send(gateway: "GatewayClient") -> None:
            gateway.call("POST", f"{_session_path(key)}/reset", SessionView)

        return self._choose(send, lambda store: store.reset(key), _no_session(key))

    def repair_session(self, key: str, *, dry_run: bool) -> Sequence[IntegrityFinding]:
        body = msgspec.json.encode(RepairBody(dry_run))
        return self._choose(
            lambda gateway: gateway.call("POST", f"{_session_path(key)}/repair", RepairView, body).findings,
            lambda store: store.repair(key, dry_run=dry_run),
            _no_session(key),
        )

    # ── erasure, retention and backups ──────────────────────────────────────────────────────────────────────────

    def erase_session(self, key: str, *, dry_run: bool) -> Erased:
        path = f"{_session_path(key)}{'?dry_run=true' if dry_run else ''}"
        return self._choose(
            lambda gateway: gateway.call("DELETE", path, Erased, timeout=_LONG),
            lambda store: self._erasure(store).erase_session(key, dry_run=dry_run),
            _no_session(key),
        )

    def forget_person(self, person: SenderId, *, dry_run: bool) -> Erased:
        body = msgspec.json.encode(ForgetBody(str(person), dry_run))
        return self._choose(
            lambda gateway: gateway.call("POST", "/api/v1/forget", Erased, body, timeout=_LONG),
            lambda store: self._erasure(store).forget_person(person, dry_run=dry_run),
            Erased(),
        )

    def copy_for_backup(self) -> Path:
        """A directory with a copy of the store, inside the state; the caller removes it."""
        return self._settings.state / self._choose(
            lambda gateway: gateway.call("POST", "/api/v1/backup", BackupView, b"{}", timeout=_LONG).directory,
            lambda store: self._erasure(store).copy_for_backup(),
            SessionError("there is nothing to back up: nothing was ever stored here"),
        )

    def prune(self, days: int, *, dry_run: bool) -> Pruned:
        def send(gateway: "GatewayClient") -> Pruned:
            body = msgspec.json.encode(PruneBody(days, dry_run))
            done = gateway.call("POST", "/api/v1/prune", PrunedView, body, timeout=_LONG)
            return Pruned(messages=done.messages, sessions=done.sessions)

        return self._choose(
            send,
            lambda store: store.prune(self._clock.now() - timedelta(days=days), dry_run=dry_run),
            Pruned(messages=0, sessions=0),
        )

    def _erasure(self, store: Store) -> "StoredErasure":
        from finclaw.cli.stored_state import StoredErasure  # noqa: PLC0415  start-up: it loads the extensions

        return StoredErasure(store, self._settings, self._clock)

    # ── turns and costs ─────────────────────────────────────────────────────────────────────────────────────────

    def list_turns(self, limit: int) -> Sequence[TurnRecord]:
        return self._choose(lambda gateway: gateway.turns(limit), lambda store: store.turns(limit), ())

    def find_turn(self, name: str) -> TurnTrace | None:
        return self._choose(lambda gateway: gateway.turn(name), lambda store: store.turn(name), None)

    def sum_costs(self, days: int, by: CostsBy) -> CostsView:
        async def add_up(store: Store) -> CostsView:
            now, settings = self._clock.now(), self._settings
            items = await sum_costs(store, now, days, by)
            today = await sum_today(store, now, settings.agent.name, settings.budget.agent_day_usd)
            return costs_view(days, by, items, today)

        return self._choose(
            lambda gateway: gateway.call("GET", f"/api/v1/costs?days={days}&by={by}", CostsView),
            add_up,
            costs_view(days, by, ()),
        )

    # ── persons ─────────────────────────────────────────────────────────────────────────────────────────────────

    def list_people(self, after: str = "") -> Sequence[PersonRecord]:
        path = f"/api/v1/people?{urlencode({'after': after})}"

        async def read(store: Store) -> Sequence[PersonRecord]:
            return await (await self._people(store)).list_people(1_000, after)

        return self._choose(lambda gateway: gateway.call("GET", path, PeopleView).items, read, ())

    def find_person(self, who: str) -> PersonRecord | None:
        path = f"/api/v1/people?{urlencode({'who': who})}"

        async def read(store: Store) -> PersonRecord | None:
            return await (await self._people(store)).find(who)

        return self._choose(lambda gateway: next(iter(gateway.call("GET", path, PeopleView).items), None), read, None)

    def change_person(self, who: str, fields: Mapping[str, str]) -> PersonRecord:
        async def change(store: Store) -> PersonRecord:
            return await (await self._people(store)).change(who, fields)

        body = msgspec.json.encode(PersonBody(who, dict(fields)))
        return self._choose(
            lambda gateway: gateway.call("POST", "/api/v1/people", PersonRecord, body),
            change,
            SessionError(f"there is no person {who!r}; nothing was ever stored here"),
        )

    async def _people(self, store: Store) -> "PersonService":
        from finclaw.pipeline.persons import PersonService, open_directory  # noqa: PLC0415  start-up: for persons only

        everybody = self._settings.everybody()
        return PersonService(store, everybody, await open_directory(store, everybody))

    # ── approvals and grants ────────────────────────────────────────────────────────────────────────────────────

    def list_approvals(self, *, everything: bool, session: str | None = None) -> Sequence[Approval]:
        query = {"state": "all" if everything else "pending", "limit": "500"}
        query |= {} if session is None else {"session": session}
        return self._choose(
            lambda gateway: gateway.call("GET", f"/api/v1/approvals?{urlencode(query)}", ApprovalsView).items,
            lambda store: self._approvals(store).list_approvals(everything=everything, session=session),
            (),
        )

    def find_approval(self, typed: str) -> Approval | None:
        return self._choose(
            lambda gateway: gateway.find(f"/api/v1/approvals/{quote(typed, safe='')}", Approval),
            lambda store: self._approvals(store).find_approval(typed),
            None,
        )

    def decide_approval(self, typed: str, verdict: ApprovalVerdict, scope: ApprovalScope, reason: str) -> Approval:
        def send(gateway: "GatewayClient") -> Approval:
            yes = verdict == "granted"
            body = msgspec.json.encode(ApproveBody(scope) if yes else DenyBody(reason))
            path = f"/api/v1/approvals/{quote(typed, safe='')}/{'approve' if yes else 'deny'}"
            return gateway.call("POST", path, DecidedApproval, body, timeout=WAIT + _MORE)

        return self._choose(
            send,
            lambda store: self._approvals(store).decide_approval(typed, verdict, scope, reason),
            SessionError("there is no such approval; nothing was ever stored here"),
        )

    def list_grants(self) -> Sequence[Standing]:
        return self._choose(
            lambda gateway: gateway.call("GET", "/api/v1/grants", GrantsView).items,
            lambda store: self._approvals(store).list_grants(),
            (),
        )

    def revoke_grant(self, typed: str) -> Standing:
        path = f"/api/v1/grants/{quote(typed, safe='')}/revoke"
        return self._choose(
            lambda gateway: gateway.call("POST", path, Standing, b"{}"),
            lambda store: self._approvals(store).revoke_grant(typed),
            SessionError("there is no such grant; nothing was ever stored here"),
        )

    def _approvals(self, store: Store) -> "StoredApprovals":
        from finclaw.cli.stored_state import StoredApprovals  # noqa: PLC0415  start-up: for approvals only

        return StoredApprovals(store, self._settings, self._clock)


def _session_path(key: str) -> str:
    """A key is full of escapes; they are escaped once more, so that the gateway reads back the key itself."""
    return f"/api/v1/sessions/{quote(key, safe='')}"


def _no_session(key: str) -> SessionError:
    return SessionError(f"there is no session {key!r}; nothing was ever stored here")
