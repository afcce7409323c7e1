"""Erasure as a whole: the store's records, extensions' data, free pages, and what is held in memory. And backups."""

import logging
import secrets
import shutil
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from finclaw.delivery.outbox import OrderedSender
from finclaw.errors import ExtensionError
from finclaw.extensions.registrar import Registrar
from finclaw.kernel.erasure import Erased, Erasure, Part, SenderId
from finclaw.kernel.event import Emit, SessionsErased
from finclaw.kernel.extension import EXTENSIONS
from finclaw.kernel.person import Person
from finclaw.kernel.store_port import Store
from finclaw.routing.session_key import place_of
from finclaw.sessions.conversation import RecentConversations
from finclaw.sessions.kept_options import KeptOptions

log = logging.getLogger(__name__)

BACKUP_PREFIX: Final = ".backup-"
"""Of the directories, in the state directory, in which a copy is made before it becomes an archive."""


class Forgetting:
    """Erasure of sessions and persons. Raises SessionError (a message waits), StoreFailed, or ExtensionError.

    `drop` forgets what is held in memory of the sessions, `forgotten` what is held of a person, `state` is the
    directory of all. What failed may be tried again: all of it is done anew.
    """

    def __init__(
        self,
        store: Store,
        registrar: Registrar,
        state: Path,
        drop: Callable[[Sequence[str]], None],
        forgotten: Callable[[Person], Awaitable[None]] | None = None,
    ) -> None:
        self._store = store
        self._registrar = registrar
        self._state = state
        self._drop = drop
        self._forgotten = forgotten

    async def erase_session(self, session: str, *, dry_run: bool = False) -> Erased:
        erased = await self._store.erase_session(session, dry_run=dry_run)
        return erased if dry_run else await self._follow_up(erased, Erasure(sessions=erased.sessions))

    async def forget_person(self, person: SenderId, *, dry_run: bool = False) -> Erased:
        """Everything of the person who is known by this identity, under all their identities."""
        known = await self._store.find_person(str(person))
        others = [] if known is None else [SenderId.parse(who) for who in known.identities if who != str(person)]
        erased = Erased()
        for each in (*others, person):  # last the one by which they are found again, should another one fail
            more = await self._store.erase_person(each, _part_of(each), dry_run=dry_run)
            erased = Erased(
                sessions=(*erased.sessions, *more.sessions),
                shared=(*erased.shared, *more.shared),
                messages=erased.messages + more.messages,
            )
        if dry_run:
            return erased
        names = () if known is None else (known.id, *known.identities)
        if known is not None and self._forgotten is not None:
            await self._forgotten(known)
        sessions = (*erased.sessions, *erased.shared)
        return await self._follow_up(erased, Erasure(sessions=sessions, person=person, names=names))

    async def _follow_up(self, erased: Erased, erasure: Erasure) -> Erased:
        self._drop(erasure.sessions)
        self._remove_copies()
        failed = await self._ask_extensions(erasure)
        await self._store.scrub()
        for each in self._registrar.loaded:
            if each.database is not None:
                await each.database.scrub()
        if failed:
            raise ExtensionError(
                f"what the gateway keeps is erased, but these extensions could not erase theirs: {', '.join(failed)}; "
                "the log says why. Mend them and run the same command again"
            )
        return replace(erased, not_searched=self._not_searched())

    def _not_searched(self) -> tuple[str, ...]:
        """Databases of extensions that are not loaded, or that never said how to erase what they keep."""
        asked = {each.name for each in self._registrar.loaded if each.forgetters}
        return tuple(sorted(path.stem for path in (self._state / EXTENSIONS).glob("*.db") if path.stem not in asked))

    async def copy_for_backup(self) -> str:
        """Copy the store into a new directory inside the state; gives its name."""
        self._remove_copies()
        directory = self._state / f"{BACKUP_PREFIX}{secrets.token_hex(4)}"
        directory.mkdir(mode=0o700)
        try:
            await self._store.copy_into(directory)
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)
            raise
        return directory.name

    def _remove_copies(self) -> None:
        """What a backup that was cut off has left."""
        for left in self._state.glob(f"{BACKUP_PREFIX}*"):
            shutil.rmtree(left, ignore_errors=True)

    async def _ask_extensions(self, erasure: Erasure) -> list[str]:
        failed: list[str] = []
        for each in self._registrar.loaded:
            for forget in each.forgetters:
                try:
                    await forget(erasure)
                except Exception:  # the others are asked all the same, and the caller is told
                    log.exception("extension %s could not erase", each.name)
                    failed.append(each.name)
        return failed


def drop_copies(
    recent: RecentConversations, options: KeptOptions, sender: OrderedSender, emit: Emit
) -> Callable[[Sequence[str]], None]:
    """In a running gateway: the latest conversations, answers that wait to be sent, and what clients may read again."""

    def drop(sessions: Sequence[str]) -> None:
        for session in sessions:
            recent.forget(session)
            options.drop(session)
        sender.drop(sessions)
        emit(SessionsErased(sessions=tuple(sessions)))

    return drop


def _part_of(person: SenderId) -> Callable[[str], Part | None]:
    """What a session's key says about a person's part in it."""

    def part(key: str) -> Part | None:
        place = place_of(key)
        if place is None or (place.channel, place.account) != (person.channel, person.account):
            return None
        if place.peer is None:
            return "shared"
        return "own" if place.peer == person.sender else None

    return part
