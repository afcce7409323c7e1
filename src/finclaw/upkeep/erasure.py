"""Erasure of sessions and persons: the store's records, extensions' data, free pages, and what is held in memory."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from msgspec.structs import replace

from finclaw.errors import ExtensionError
from finclaw.extensions.registrar import Registrar
from finclaw.kernel.erasure import Erased, Erasure, Part, SenderId
from finclaw.kernel.extension import EXTENSIONS
from finclaw.kernel.person import Person
from finclaw.kernel.store_port import Store
from finclaw.routing.session_key import place_of
from finclaw.upkeep.backup_copy import remove_backup_copies

log = logging.getLogger(__name__)


class Eraser:
    """Erases sessions and persons. Raises SessionError (a message waits), StoreFailed, or ExtensionError.

    `drop_sessions` and `drop_person` forget what a running gateway holds in memory. An erasure that failed may be
    tried again; it starts from the beginning.
    """

    def __init__(
        self,
        store: Store,
        registrar: Registrar,
        state: Path,
        drop_sessions: Callable[[Sequence[str]], None] | None = None,
        drop_person: Callable[[Person], Awaitable[None]] | None = None,
    ) -> None:
        self._store = store
        self._registrar = registrar
        self._state = state
        self._drop_sessions = drop_sessions
        self._drop_person = drop_person

    async def erase_session(self, session: str, *, dry_run: bool = False) -> Erased:
        erased = await self._store.erase_session(session, dry_run=dry_run)
        if dry_run:
            return erased
        return await self._follow_up(erased, Erasure(sessions=erased.sessions))

    async def forget_person(self, person: SenderId, *, dry_run: bool = False) -> Erased:
        """Erase everything of the person who is known by this identity, under all their identities."""
        known = await self._store.find_person(str(person))
        identities = () if known is None else known.identities
        others = [SenderId.parse(identity) for identity in identities if identity != str(person)]
        erased = Erased()
        for identity in (*others, person):  # the given one last: it finds the person again if another one fails
            part = await self._store.erase_person(identity, _part_of(identity), dry_run=dry_run)
            erased = Erased(
                sessions=(*erased.sessions, *part.sessions),
                shared=(*erased.shared, *part.shared),
                messages=erased.messages + part.messages,
            )
        if dry_run:
            return erased
        names: tuple[str, ...] = ()
        if known is not None:
            names = (known.id, *known.identities)
            if self._drop_person is not None:
                await self._drop_person(known)
        sessions = (*erased.sessions, *erased.shared)
        return await self._follow_up(erased, Erasure(sessions=sessions, person=person, names=names))

    async def _follow_up(self, erased: Erased, erasure: Erasure) -> Erased:
        if self._drop_sessions is not None:
            self._drop_sessions(erasure.sessions)
        remove_backup_copies(self._state)
        failed = await self._ask_extensions(erasure)
        await self._store.scrub()
        for extension in self._registrar.loaded:
            if extension.database is not None:
                await extension.database.scrub()
        if failed:
            raise ExtensionError(
                f"what the gateway keeps is erased, but these extensions could not erase theirs: {', '.join(failed)}; "
                "the log says why. Mend them and run the same command again"
            )
        return replace(erased, not_searched=self._list_not_searched())

    async def _ask_extensions(self, erasure: Erasure) -> list[str]:
        failed: list[str] = []
        for extension in self._registrar.loaded:
            for forget in extension.forgetters:
                try:
                    await forget(erasure)
                except Exception:  # the others are asked all the same, and the caller is told
                    log.exception("extension %s could not erase", extension.name)
                    failed.append(extension.name)
        return failed

    def _list_not_searched(self) -> tuple[str, ...]:
        """Return the databases of extensions that are not loaded, or that registered no `on_forget`."""
        asked = {extension.name for extension in self._registrar.loaded if extension.forgetters}
        return tuple(sorted(path.stem for path in (self._state / EXTENSIONS).glob("*.db") if path.stem not in asked))


def _part_of(person: SenderId) -> Callable[[str], Part | None]:
    """Return a function that tells a person's part in a session by the session's key."""

    def part(key: str) -> Part | None:
        place = place_of(key)
        if place is None or (place.channel, place.account) != (person.channel, person.account):
            return None
        if place.peer is None:
            return "shared"
        if place.peer == person.sender:
            return "own"
        return None

    return part
