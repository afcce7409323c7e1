"""Where kept conversations are reached: through the running gateway if there is one, else in the state under its lock.

Nothing here wakes the gateway: looking at a session must not answer anybody's message.
"""

import asyncio
import time
from collections.abc import Coroutine, Generator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from finclaw.cli.address import read_address
from finclaw.config.schema import Settings
from finclaw.diagnostics.event_stream import EventStream
from finclaw.errors import SessionError, StateBusy
from finclaw.kernel.approval import Approval, ApprovalScope, ApprovalVerdict, Standing
from finclaw.kernel.clock import SystemClock, local_day
from finclaw.kernel.erasure import Erased, PersonId
from finclaw.kernel.port import Clock
from finclaw.kernel.record import CostsBy, Finding, Pruned, SessionPage, TurnRecord, TurnTrace, today_of
from finclaw.kernel.store_port import Store
from finclaw.storage.kinds import open_kind
from finclaw.storage.sqlite.database import DATABASE
from finclaw.storage.state_lock import StateLock
from finclaw.transcript.conversation_file import read_conversation, write_conversation
from finclaw.web.view import CostsView, costs_view

if TYPE_CHECKING:
    from finclaw.cli.shelf_approvals import ApprovalsHere
    from finclaw.cli.shelf_erasing import ErasingHere

T = TypeVar("T")
PATIENCE = 10.0
"""Seconds to wait for a state that is busy: a gateway is starting, or a `finclaw ask` is at it."""


class Shelf(Protocol):
    """All raise FinclawError. Keys are whole; a conversation travels as the file that `export` writes."""

    def page(self, limit: int, after: str | None = None, containing: str = "") -> SessionPage: ...
    def export(self, key: str) -> bytes: ...
    def restore(self, key: str, content: bytes) -> None: ...
    def reset(self, key: str) -> None: ...
    def repair(self, key: str, *, dry_run: bool) -> Sequence[Finding]: ...
    def erase(self, key: str, *, dry_run: bool) -> Erased: ...
    def forget(self, person: PersonId, *, dry_run: bool) -> Erased: ...
    def copy(self) -> Path: ...
    def prune(self, days: int, *, dry_run: bool) -> Pruned: ...
    def turns(self, limit: int) -> Sequence[TurnRecord]: ...
    def turn(self, name: str) -> TurnTrace | None: ...
    def costs(self, days: int, by: CostsBy) -> CostsView: ...
    def approvals(self, *, everything: bool, session: str | None = None) -> Sequence[Approval]: ...
    def approval(self, typed: str) -> Approval | None: ...
    def decide(self, typed: str, verdict: ApprovalVerdict, scope: ApprovalScope, reason: str) -> Approval: ...
    def grants(self) -> Sequence[Standing]: ...
    def revoke(self, typed: str) -> Standing: ...


@contextmanager
def opened(settings: Settings, *, make: bool = False) -> Generator[Shelf]:
    """`make` says that a state may begin here; without it a state that is not there stays so, and is empty."""
    clock = SystemClock()
    give_up = clock.monotonic() + PATIENCE
    while True:
        remote = _remote(settings)
        if remote is not None:
            yield remote
            return
        if not make and not (settings.state / DATABASE).exists():
            yield EmptyShelf()
            return
        try:
            lock = StateLock(settings.state)
        except StateBusy:
            if clock.monotonic() > give_up:
                raise
            time.sleep(0.1)
            continue
        with lock, asyncio.Runner() as runner:
            shelf = ShelfHere(runner, settings, clock)
            try:
                yield shelf
            finally:
                shelf.close()
            return


def _remote(settings: Settings) -> Shelf | None:
    if read_address(settings.state) is None:
        return None
    from finclaw.cli.shelf_remote import find_remote  # noqa: PLC0415  the HTTP client costs 20 ms; mostly nobody listens

    return find_remote(settings.state)


class ShelfHere:
    """The store itself, without a gateway around it."""

    def __init__(self, runner: asyncio.Runner, settings: Settings, clock: Clock) -> None:
        self._runner = runner
        self._settings = settings
        self._clock = clock
        self._store: Store = self._run(_open(settings, clock))

    def _run(self, action: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(action)

    def page(self, limit: int, after: str | None = None, containing: str = "") -> SessionPage:
        return self._run(self._store.sessions(limit, after, containing))

    def export(self, key: str) -> bytes:
        return write_conversation(key, self._run(self._store.messages(key)))

    def restore(self, key: str, content: bytes) -> None:
        self._run(self._store.restore(key, read_conversation(content)[1]))

    def reset(self, key: str) -> None:
        self._run(self._store.reset(key))

    def repair(self, key: str, *, dry_run: bool) -> Sequence[Finding]:
        return self._run(self._store.repair(key, dry_run=dry_run))

    def erase(self, key: str, *, dry_run: bool) -> Erased:
        return self._run(self._erasing().erase_session(key, dry_run=dry_run))

    def forget(self, person: PersonId, *, dry_run: bool) -> Erased:
        return self._run(self._erasing().forget_person(person, dry_run=dry_run))

    def copy(self) -> Path:
        """A directory with a copy of the store, inside the state; the caller removes it."""
        return self._settings.state / self._run(self._erasing().copy_for_backup())

    def _erasing(self) -> "ErasingHere":
        from finclaw.cli.shelf_erasing import ErasingHere  # noqa: PLC0415  it loads the extensions

        return ErasingHere(self._store, self._settings, self._clock)

    def prune(self, days: int, *, dry_run: bool) -> Pruned:
        return self._run(self._store.prune(self._clock.now() - timedelta(days=days), dry_run=dry_run))

    def turns(self, limit: int) -> Sequence[TurnRecord]:
        return self._run(self._store.turns(limit))

    def turn(self, name: str) -> TurnTrace | None:
        return self._run(self._store.turn(name))

    def costs(self, days: int, by: CostsBy) -> CostsView:
        now, settings = self._clock.now(), self._settings
        items = self._run(self._store.costs(local_day(now) - timedelta(days=days - 1), by))
        agents = self._run(self._store.costs(local_day(now), "agent"))
        return costs_view(days, by, items, today_of(now, agents, settings.agent.name, settings.budget.agent_day_usd))

    def approvals(self, *, everything: bool, session: str | None = None) -> Sequence[Approval]:
        return self._run(self._approvals().listed(everything=everything, session=session))

    def approval(self, typed: str) -> Approval | None:
        return self._run(self._approvals().approval(typed))

    def decide(self, typed: str, verdict: ApprovalVerdict, scope: ApprovalScope, reason: str) -> Approval:
        return self._run(self._approvals().decide(typed, verdict, scope, reason))

    def grants(self) -> Sequence[Standing]:
        return self._run(self._approvals().grants())

    def revoke(self, typed: str) -> Standing:
        return self._run(self._approvals().revoke(typed))

    def _approvals(self) -> "ApprovalsHere":
        from finclaw.cli.shelf_approvals import ApprovalsHere  # noqa: PLC0415  other commands need none of it

        return ApprovalsHere(self._store, self._settings, self._clock)

    def close(self) -> None:
        self._run(self._store.close())


async def _open(settings: Settings, clock: Clock) -> Store:
    return open_kind(settings.storage.kind, settings.state, clock, EventStream().emit)


class EmptyShelf:
    """A state in which nothing was ever stored; asking does not make it."""

    def page(self, limit: int, after: str | None = None, containing: str = "") -> SessionPage:
        return SessionPage(items=())

    def prune(self, days: int, *, dry_run: bool) -> Pruned:
        return Pruned(messages=0, sessions=0)

    def erase(self, key: str, *, dry_run: bool) -> Erased:
        raise _nothing(key)

    def forget(self, person: PersonId, *, dry_run: bool) -> Erased:
        return Erased()

    def copy(self) -> Path:
        raise SessionError("there is nothing to back up: nothing was ever stored here")

    def turns(self, limit: int) -> Sequence[TurnRecord]:
        return ()

    def turn(self, name: str) -> TurnTrace | None:
        return None

    def costs(self, days: int, by: CostsBy) -> CostsView:
        return costs_view(days, by, ())

    def approvals(self, *, everything: bool, session: str | None = None) -> Sequence[Approval]:
        return ()

    def approval(self, typed: str) -> Approval | None:
        return None

    def decide(self, typed: str, verdict: ApprovalVerdict, scope: ApprovalScope, reason: str) -> Approval:
        raise SessionError("there is no such approval; nothing was ever stored here")

    def grants(self) -> Sequence[Standing]:
        return ()

    def revoke(self, typed: str) -> Standing:
        raise SessionError("there is no such standing yes; nothing was ever stored here")

    def export(self, key: str) -> bytes:
        raise _nothing(key)

    def restore(self, key: str, content: bytes) -> None:
        raise _nothing(key)

    def reset(self, key: str) -> None:
        raise _nothing(key)

    def repair(self, key: str, *, dry_run: bool) -> Sequence[Finding]:
        raise _nothing(key)


def _nothing(key: str) -> SessionError:
    return SessionError(f"there is no session {key!r}; nothing was ever stored here")
