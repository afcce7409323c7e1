"""`finclaw NAME` where NAME is an extension's command: only then are the settings read and the extensions loaded."""

import asyncio
import inspect
from argparse import Namespace
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final, TypeVar, cast
from weakref import WeakKeyDictionary

from finclaw.builtins.extension_services import NAME, RememberRequest, SayRequest, ServiceRequest
from finclaw.cli.arguments import settings_from
from finclaw.cli.attach import PATIENCE
from finclaw.cli.client import find_gateway
from finclaw.cli.parser import Parser, extension_parser
from finclaw.clock import SystemClock
from finclaw.composition.extensions import load_registrar
from finclaw.config.schema import Settings
from finclaw.diagnostics.event_stream import EventStream
from finclaw.errors import ConfigError, ExtensionError, FinclawError, StateBusy
from finclaw.extensions.loading import attribute_error, origin_of
from finclaw.extensions.registration import CliCommand, Services
from finclaw.fetch.fetchers import open_fetchers
from finclaw.kernel.envelope import Inbound
from finclaw.kernel.record import Accepted
from finclaw.kernel.store_port import Store
from finclaw.pipeline.accept import make_storable
from finclaw.storage.kinds import open_kind
from finclaw.storage.locks import StateLock
from finclaw.storage.sqlite.database import DATABASE
from finclaw.storage.sqlite.extension import EXTENSIONS, ExtensionDatabase
from finclaw.storage.sqlite.state import encode
from finclaw.text import did_you_mean, suggest_name


def run(ours: Parser, name: str, rest: Sequence[str]) -> int:
    """The exit code of an extension's command. Raises SystemExit(2) with the usual complaint when there is none."""
    theirs = _load_commands(ours, name, rest)
    command = next((each for each in theirs if each.name == name), None)
    if command is None:
        names = [*ours.commands, *(each.name for each in theirs)]
        ours.error(f"{name!r} is no command{suggest_name(name, names)}")
    return _run_command(command, rest)


def _load_commands(ours: Parser, name: str, rest: Sequence[str]) -> Sequence[CliCommand]:
    where, _ = extension_parser(name, "", add_help=False).parse_known_args(rest)
    try:
        settings = settings_from(where)
        return load_registrar(settings, services(settings)).cli
    except (ConfigError, ExtensionError):
        if did_you_mean(name, ours.commands):  # a slip of the finger is told first
            return ()
        raise


def _run_command(command: CliCommand, rest: Sequence[str]) -> int:
    parser = extension_parser(command.name, command.about)
    try:
        command.arguments(parser)
        args: Namespace = parser.parse_args(rest)
        code: Any = command.run(args)
    except (FinclawError, OSError):
        raise
    except Exception as error:  # an extension is a stranger; its failure ends in one line like any other
        raise attribute_error(command.extension, origin_of(command.run), error) from error
    if inspect.iscoroutine(code):
        code.close()
        says = "a command's function must not be async; use asyncio.run"
        raise ExtensionError(f"extension {command.extension!r}: {says}")
    return code if isinstance(code, int) else 0


# ── its services: by the running gateway if there is one, else in the store under its lock ──────────────────────
# Each call stands alone: nothing stays open between two of them, so a gateway may start or stop meanwhile.


T = TypeVar("T")
_ANYTHING: Final = cast("type[object]", Any)


def services(settings: Settings) -> Services:
    """What `api.state`, `api.send`, `api.database` and `api.fetcher` are in a process without a gateway."""
    command_services = _CommandServices(settings)
    return Services(
        recall=command_services.recall,
        remember=command_services.remember,
        accept=command_services.accept,
        database=partial(ExtensionDatabase, settings.state / EXTENSIONS),
        fetcher=open_fetchers(),
        clock=command_services.clock,
    )


class _CommandServices:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.clock = SystemClock()
        self._one_at_a_time: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()
        """A command may run one loop after another; within one, its own calls need not find each other busy."""

    async def recall(self, extension: str, session: str) -> Any:
        if not (self._settings.state / DATABASE).exists():
            return None  # asking makes nothing
        request = ServiceRequest(extension=extension, session=session)
        return await self._run("recall", request, _ANYTHING, lambda store: store.recall(extension, session))

    async def remember(self, extension: str, session: str, value: Any) -> None:
        if value is not None:
            encode(extension, value)  # what cannot be kept is told in the same words, gateway or not
        request = RememberRequest(extension=extension, session=session, value=value)
        await self._run("remember", request, type(None), lambda store: store.remember(extension, session, value))

    async def accept(self, inbound: Inbound, session: str) -> Accepted:
        """Without a gateway it is on disk, and the next start says it."""
        words = make_storable(inbound)
        request = SayRequest(extension=words.from_extension or "", session=session, inbound=words)
        return await self._run("say", request, Accepted, lambda store: store.accept(words, session, lambda _: None))

    async def _run(
        self, name: str, request: ServiceRequest, answer: type[T], here: Callable[[Store], Awaitable[T]]
    ) -> T:
        path = f"/api/v1/extensions/{NAME}/{name}"
        async with self._one_at_a_time.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
            give_up = self.clock.monotonic() + PATIENCE
            while True:
                client = await asyncio.to_thread(find_gateway, self._settings.state)
                if client is not None:
                    return await asyncio.to_thread(client.call, "POST", path, answer, request)
                try:
                    return await self._run_in_store(here)
                except StateBusy:
                    if self.clock.monotonic() > give_up:
                        raise
                await self.clock.sleep(0.1)

    async def _run_in_store(self, here: Callable[[Store], Awaitable[T]]) -> T:
        with StateLock(self._settings.state):
            store = open_kind(self._settings.storage.kind, self._settings.state, self.clock, EventStream().emit)
            try:
                return await here(store)
            finally:
                await store.close()
