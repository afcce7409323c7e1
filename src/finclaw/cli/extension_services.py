"""The services of an extension's command: by the running gateway if there is one, else in the store under its lock.

Each call stands alone: nothing stays open between two of them, so a gateway may start or stop meanwhile.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, TypeVar, cast
from weakref import WeakKeyDictionary

import msgspec

from finclaw.builtins.errands import NAME, Errand, Remember, Say
from finclaw.cli.address import find_running
from finclaw.cli.attach import PATIENCE
from finclaw.config.schema import Settings
from finclaw.diagnostics.event_stream import EventStream
from finclaw.errors import StateBusy
from finclaw.extensions.registration import Services
from finclaw.kernel.clock import SystemClock
from finclaw.kernel.envelope import Inbound
from finclaw.kernel.record import Accepted
from finclaw.kernel.store_port import Store
from finclaw.pipeline.accept import make_storable
from finclaw.storage.kinds import open_kind
from finclaw.storage.sqlite.database import DATABASE
from finclaw.storage.sqlite.extension import EXTENSIONS, ExtensionDatabase
from finclaw.storage.sqlite.state import encode
from finclaw.storage.state_lock import StateLock

T = TypeVar("T")
_ANYTHING: Final = cast("type[object]", Any)


def services(settings: Settings) -> Services:
    """What `api.state`, `api.send` and `api.database` are in a process without a gateway."""
    errands = _Errands(settings)
    return Services(
        recall=errands.recall,
        remember=errands.remember,
        accept=errands.accept,
        database=partial(ExtensionDatabase, settings.state / EXTENSIONS),
        clock=errands.clock,
    )


class _Errands:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.clock = SystemClock()
        self._one_at_a_time: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()
        """A command may run one loop after another; within one, its own errands need not find each other busy."""

    async def recall(self, extension: str, session: str) -> Any:
        if not (self._settings.state / DATABASE).exists():
            return None  # asking makes nothing

        async def here(store: Store) -> object:
            return await store.recall(extension, session)

        return await self._run("recall", Errand(extension=extension, session=session), _ANYTHING, here)

    async def remember(self, extension: str, session: str, value: Any) -> None:
        if value is not None:
            encode(extension, value)  # what cannot be kept is told in the same words, gateway or not

        async def here(store: Store) -> None:
            await store.remember(extension, session, value)

        errand = Remember(extension=extension, session=session, value=value)
        await self._run("remember", errand, type(None), here)

    async def accept(self, inbound: Inbound, session: str) -> Accepted:
        """Without a gateway it is on disk, and the next start says it."""
        words = make_storable(inbound)

        async def here(store: Store) -> Accepted:
            return await store.accept(words, session, lambda _: None)

        errand = Say(extension=words.from_extension or "", session=session, inbound=words)
        return await self._run("say", errand, Accepted, here)

    async def _run(self, path: str, errand: Errand, answer: type[T], here: Callable[[Store], Awaitable[T]]) -> T:
        async with self._one_at_a_time.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
            give_up = self.clock.monotonic() + PATIENCE
            while True:
                there = await asyncio.to_thread(self._call_gateway, path, errand, answer)
                if there is not None:
                    return there[0]
                try:
                    return await self._run_in_store(here)
                except StateBusy:
                    if self.clock.monotonic() > give_up:
                        raise
                await self.clock.sleep(0.1)

    def _call_gateway(self, path: str, errand: Errand, answer: type[T]) -> tuple[T] | None:
        """What it answers; None where no gateway runs."""
        client = find_running(self._settings.state)
        if client is None:
            return None
        body = msgspec.json.encode(errand)
        return (client.call("POST", f"/api/v1/extensions/{NAME}/{path}", answer, body),)

    async def _run_in_store(self, here: Callable[[Store], Awaitable[T]]) -> T:
        with StateLock(self._settings.state):
            store = open_kind(self._settings.storage.kind, self._settings.state, self.clock, EventStream().emit)
            try:
                return await here(store)
            finally:
                await store.close()
