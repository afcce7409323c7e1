"""The erasure and the backup in the store, for when no gateway runs; extensions are loaded to erase their own data."""

from collections.abc import Awaitable, Callable
from functools import partial

from msgspec.structs import replace

from finclaw.builtin_extensions import load_registrar
from finclaw.config.schema import Settings
from finclaw.diagnostics.event_stream import EventStream
from finclaw.erasure import Forgetting
from finclaw.extensions.registrar import Registrar
from finclaw.extensions.registration import NULL_SERVICES
from finclaw.kernel.erasure import Erased, PersonId
from finclaw.kernel.port import Clock
from finclaw.kernel.store_port import Store
from finclaw.storage.sqlite.extension import EXTENSIONS, ExtensionDatabase


class StoredErasure:
    """Erasure in a store that this process holds the lock of."""

    def __init__(self, store: Store, settings: Settings, clock: Clock) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock

    async def erase_session(self, session: str, *, dry_run: bool) -> Erased:
        if dry_run:
            return await self._store.erase_session(session, dry_run=True)
        return await self._with_extensions(lambda forgetting: forgetting.erase_session(session))

    async def forget_person(self, person: PersonId, *, dry_run: bool) -> Erased:
        return await self._with_extensions(lambda forgetting: forgetting.forget_person(person, dry_run=dry_run))

    async def copy_for_backup(self) -> str:
        registrar = Registrar(EventStream(), NULL_SERVICES)
        return await Forgetting(self._store, registrar, self._settings.state, lambda _: None).copy_for_backup()

    async def _with_extensions(self, work: Callable[[Forgetting], Awaitable[Erased]]) -> Erased:
        databases = self._settings.state / EXTENSIONS
        services = replace(
            NULL_SERVICES,
            recall=self._store.recall,
            remember=self._store.remember,
            database=partial(ExtensionDatabase, databases),
            clock=self._clock,
        )
        registrar = load_registrar(self._settings, services)
        try:
            return await work(Forgetting(self._store, registrar, self._settings.state, lambda _: None))
        finally:
            await registrar.close()
