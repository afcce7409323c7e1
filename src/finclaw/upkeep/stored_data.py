"""Upkeep of stored data: erasure of sessions and persons, retention, and copies for a backup.

Erasure reaches the store's records, extensions' data, free pages, and what a running gateway holds in memory.
"""

import logging
import secrets
import shutil
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from pathlib import Path
from typing import Final, Protocol

from msgspec.structs import replace

from finclaw.errors import ExtensionError
from finclaw.extensions.registrar import Registrar
from finclaw.kernel.extension import EXTENSIONS
from finclaw.kernel.person import Person
from finclaw.kernel.port import Clock
from finclaw.kernel.record import Erased, Erasure, Part, Pruned, SenderId
from finclaw.kernel.store_port import Store
from finclaw.sessions.session_key import place_of

log = logging.getLogger(__name__)
COPY_PREFIX: Final = ".backup-"
"""The prefix of the directories that hold a copy until it has become an archive."""


class GatewayMemory(Protocol):
    def drop_sessions(self, sessions: Sequence[str]) -> None: ...
    async def drop_person(self, person: Person) -> None: ...
    async def drop_pruned(self) -> None: ...


class Upkeep:
    """Erases, prunes and copies stored data. An erasure that failed may be tried again; it starts from the beginning.
    Erasing raises SessionError (a message waits), StoreFailed, or ExtensionError. `memory` is None where no gateway
    runs."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        state: Path,
        open_extensions: Callable[[], AbstractAsyncContextManager[Registrar]],
        memory: GatewayMemory | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._state = state
        self._open_extensions = open_extensions
        self._memory = memory

    async def erase_session(self, session: str, *, dry_run: bool = False) -> Erased:
        if dry_run:
            return await self._store.erase_session(session, dry_run=True)
        async with self._open_extensions() as registrar:
            erased = await self._store.erase_session(session)
            return await self._follow_up(registrar, erased, Erasure(sessions=erased.sessions))

    async def forget_person(self, person: SenderId, *, dry_run: bool = False) -> Erased:
        """Erase everything of the person who is known by this identity, under all their identities."""
        known = await self._store.find_person(str(person))
        identities = () if known is None else known.identities
        others = [SenderId.parse(identity) for identity in identities if identity != str(person)]
        every = (*others, person)  # the given one last: it finds the person again if another one fails
        if dry_run:
            return await self._erase_identities(every, dry_run=True)
        async with self._open_extensions() as registrar:
            erased = await self._erase_identities(every, dry_run=False)
            names = () if known is None else (known.id, *known.identities)
            if known is not None and self._memory is not None:
                await self._memory.drop_person(known)
            sessions = (*erased.sessions, *erased.shared)
            return await self._follow_up(registrar, erased, Erasure(sessions=sessions, person=person, names=names))

    async def prune(self, older_than: timedelta, *, dry_run: bool = False) -> Pruned:
        pruned = await self._store.prune(self._clock.now() - older_than, dry_run=dry_run)
        if pruned.sessions and not dry_run and self._memory is not None:
            await self._memory.drop_pruned()
        return pruned

    async def prepare_backup(self) -> str:
        """Copy the store into a new directory inside the state, and return the directory's name."""
        self._remove_backup_copies()
        directory = self._state / f"{COPY_PREFIX}{secrets.token_hex(4)}"
        directory.mkdir(mode=0o700)
        try:
            await self._store.copy_into(directory)
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)
            raise
        return directory.name

    def _remove_backup_copies(self) -> None:
        for directory in self._state.glob(f"{COPY_PREFIX}*"):
            shutil.rmtree(directory, ignore_errors=True)

    async def _erase_identities(self, identities: Sequence[SenderId], *, dry_run: bool) -> Erased:
        erased = Erased()
        for identity in identities:
            part = await self._store.erase_person(identity, _part_of(identity), dry_run=dry_run)
            erased = Erased(
                sessions=(*erased.sessions, *part.sessions),
                shared=(*erased.shared, *part.shared),
                messages=erased.messages + part.messages,
            )
        return erased

    async def _follow_up(self, registrar: Registrar, erased: Erased, erasure: Erasure) -> Erased:
        if self._memory is not None:
            self._memory.drop_sessions(erasure.sessions)
        self._remove_backup_copies()
        failed = await _ask_extensions(registrar, erasure)
        await self._store.scrub()
        for extension in registrar.loaded:
            if extension.database is not None:
                await extension.database.scrub()
        if failed:
            says = f"what the gateway keeps is erased, but these extensions could not erase theirs: {', '.join(failed)}"
            raise ExtensionError(f"{says}; the log says why. Mend them and run the same command again")
        # What was not searched: databases of extensions that are not loaded, or that registered no `on_forget`.
        asked = {extension.name for extension in registrar.loaded if extension.forgetters}
        databases = {path.stem for path in (self._state / EXTENSIONS).glob("*.db")}
        return replace(erased, not_searched=tuple(sorted(databases - asked)))


async def _ask_extensions(registrar: Registrar, erasure: Erasure) -> list[str]:
    failed: list[str] = []
    for extension in registrar.loaded:
        for forget in extension.forgetters:
            try:
                await forget(erasure)
            except Exception:  # the others are asked all the same, and the caller is told
                log.exception("extension %s could not erase", extension.name)
                failed.append(extension.name)
    return failed


def _part_of(person: SenderId) -> Callable[[str], Part | None]:
    """Return a function that tells a person's part in a session by the session's key."""

    def part(key: str) -> Part | None:
        place = place_of(key)
        if place is None or (place.channel, place.account) != (person.channel, person.account):
            return None
        if place.peer is None:
            return "shared"
        return "own" if place.peer == person.sender else None

    return part
