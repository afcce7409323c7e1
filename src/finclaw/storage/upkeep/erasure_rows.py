"""The store's port for erasure: hops to the writer, as in `store.py`; each session is one all-or-nothing piece."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from msgspec.structs import replace

from finclaw.kernel.message import Message
from finclaw.kernel.record import Erased, PartOf, SenderId
from finclaw.storage.blobs.store import BlobRows
from finclaw.storage.sqlite import persons
from finclaw.storage.sqlite.transcript import Transcript
from finclaw.storage.upkeep import erasure
from finclaw.storage.upkeep.erasure import Target


class ErasureRows(BlobRows, ABC):
    """The part of a store that erases."""

    transcript: Transcript

    @abstractmethod
    async def messages(self, session: str) -> Sequence[Message]: ...

    async def erase_session(self, session: str, *, dry_run: bool = False) -> Erased:
        targets = await self._read(lambda db: erasure.targets_of_session(db, self._ids, session))
        return await self._erase_all(targets, dry_run)

    async def erase_person(self, person: SenderId, part_of: PartOf, *, dry_run: bool = False) -> Erased:
        targets = await self._targets_of_person(person, part_of)
        targets = await self._read(lambda db: erasure.with_helpers(db, self._ids, targets))
        erased = await self._erase_all(targets, dry_run)
        if dry_run:
            return erased
        told = await self._commit(lambda db: erasure.erase_decisions(db, person))
        await self._commit(lambda db: persons.forget(db, str(person)))
        return replace(erased, messages=erased.messages + told)

    async def scrub(self) -> None:
        await self._alone(erasure.scrub)

    async def _targets_of_person(self, person: SenderId, part_of: PartOf) -> list[Target]:
        """Where nobody else wrote, the session is theirs alone, whatever its kind."""
        wrote = await self._read(lambda db: erasure.sessions_written_in(db, person))
        found: list[Target] = []
        for row, key in await self._read(erasure.all_sessions):
            part = part_of(key)
            if part == "own":
                found.append(Target(row, key))
            elif row in wrote or part == "shared":
                target = await self._target(row, key, person, has_written=row in wrote)
                found += [] if target is None else [target]
        return found

    async def _target(self, row: int, key: str, person: SenderId, *, has_written: bool) -> Target | None:
        """A conversation may be older than the records of who wrote in it: its messages tell as well."""
        speakers = erasure.senders(await self.messages(key))
        if not has_written and person.sender not in speakers:
            return None
        shared = await self._read(lambda db: erasure.others_wrote_in(db, row, person))
        return Target(row, key, person if shared or speakers - {person.sender} else None)

    async def _erase_all(self, targets: Sequence[Target], dry_run: bool) -> Erased:
        messages = 0
        for target in targets:
            if dry_run:
                messages += await self._read(lambda db: erasure.count(db, target))  # noqa: B023  awaited at once
            else:
                messages += await self._erase(target)
        if not dry_run:
            await self._remove_unused_blobs()
        return Erased(
            sessions=tuple(target.key for target in targets if target.person is None),
            shared=tuple(target.key for target in targets if target.person is not None),
            messages=messages,
        )

    async def _erase(self, target: Target) -> int:
        return await self._commit(lambda db: erasure.erase(db, self.transcript, target))
