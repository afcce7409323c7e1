"""The registrations of one extension, while it is loaded and afterwards."""

import logging
import math
from argparse import ArgumentParser, Namespace
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct, field

from finclaw.agent.prompt.sections import Section
from finclaw.clock import SystemClock
from finclaw.delivery.visible import Check
from finclaw.diagnostics.event_stream import EventStream
from finclaw.errors import ExtensionError
from finclaw.extensions.settings import refuse_reference
from finclaw.kernel.context import ContextField
from finclaw.kernel.envelope import Inbound
from finclaw.kernel.extension import Database, Finding, RingName
from finclaw.kernel.fetch import Fetcher, FetchReply, FetchRequest, FetchRules
from finclaw.kernel.middleware import Layer
from finclaw.kernel.port import ChannelFactory, Clock, Command, ExtensionRoute, LayerCommand, Tool
from finclaw.kernel.record import Accepted, Erasure
from finclaw.redaction import Follow
from finclaw.tools.outbound_files import PutBlob
from finclaw.tools.registry import ToolRegistry

TellCommands = Callable[[], Mapping[str, str | LayerCommand]]
"""Tells the commands that a layer understands, by name: what each does, and for whom it is."""


class Recurring(Struct, frozen=True):
    seconds: float
    run: Callable[[], Awaitable[None]]
    logger: logging.Logger


class CliCommand(Struct, frozen=True):
    extension: str
    name: str
    about: str
    run: Callable[[Namespace], int]
    arguments: Callable[[ArgumentParser], None]


class DoctorCheck(Struct, frozen=True):
    extension: str
    name: str
    look: Callable[[], Finding]


class OwnDatabase(Database, Protocol):
    """A database of an extension that can be closed."""

    async def scrub(self) -> None:
        """Overwrite what removals left in free pages and in the journal. Makes no file that is not there."""
        ...

    async def close(self) -> None: ...


class Registered(Struct):
    """An extension with what it registered. `origin` is its file, `why` the reason for its place."""

    name: str
    origin: str = ""
    why: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    follow: Follow = refuse_reference
    stage: Literal["loading", "loaded", "closed"] = "loading"
    layers: list[tuple[RingName, Layer[Any, Any]]] = []
    tools: list[Tool] = []
    commands: list[Command] = []
    command_names: set[str] = set()
    channels: dict[str, ChannelFactory] = {}
    mentioned: list[TellCommands] = []
    sections: list[Section] = []
    fields: list[ContextField] = []
    checks: list[Check] = []
    recurring: list[Recurring] = []
    cli: list[CliCommand] = []
    routes: list[ExtensionRoute] = []
    doctor: list[DoctorCheck] = []
    stop_observing: list[Callable[[], None]] = []
    closers: list[Callable[[], Awaitable[None]]] = []
    forgetters: list[Callable[[Erasure], Awaitable[None]]] = []
    database: OwnDatabase | None = None

    def must_be_loading(self) -> None:
        if self.stage != "loading":
            raise ExtensionError(f"extension {self.name!r} registers too late; do this inside register(api)")


async def raise_no_gateway(*_: object) -> Any:
    raise ExtensionError("no gateway runs in this process; state and messages are for what a gateway calls")


async def _find_no_chat(_: str) -> None:
    """Find nobody's chat: without a gateway, only a session can be named."""


def _no_database(extension: str, _: Sequence[str]) -> OwnDatabase:
    raise ExtensionError(f"there is no state directory here for a database of extension {extension!r}")


class _NoFetcher:
    def __init__(self, _: FetchRules) -> None: ...

    async def fetch(self, request: FetchRequest) -> FetchReply:
        raise ExtensionError(f"nothing is fetched in this process, so {request.purpose} fetches nothing")


class Services(Struct, frozen=True, kw_only=True):
    """Services of the gateway for extensions. `accept` takes an extension's words for a session; `database` gives an
    extension its file, unopened; `fetcher` makes one that keeps to the rules."""

    recall: Callable[[str, str], Awaitable[Any]] = raise_no_gateway
    remember: Callable[[str, str, Any], Awaitable[None]] = raise_no_gateway
    accept: Callable[[Inbound, str], Awaitable[Accepted]] = raise_no_gateway
    database: Callable[[str, Sequence[str]], OwnDatabase] = _no_database
    fetcher: Callable[[FetchRules], Fetcher] = _NoFetcher
    put_blob: PutBlob = raise_no_gateway
    clock: Clock = field(default_factory=SystemClock)
    find_chat: Callable[[str], Awaitable[tuple[str, str] | None]] = _find_no_chat
    """The session of a person's latest direct chat, and the person's id."""
    start_turn: Callable[[Inbound, str], Awaitable[Accepted]] = raise_no_gateway


NULL_SERVICES = Services()  # for looking at what extensions register, without a gateway


class ExtensionRegistry(Struct):
    """The registry that all extensions share: those loaded before, the tools, the events, and the services."""

    events: EventStream
    services: Services
    tools: ToolRegistry
    loaded: list[Registered] = []


def must_be_callable(fn: Any) -> Any:
    if not callable(fn):
        kind = type(fn).__name__
        raise ExtensionError(f"a function is needed here, not {kind}; leave out the brackets behind its name")
    return fn


def must_be_line(text: str, what: str) -> str:
    if len(text.splitlines()) != 1 or not text.strip():
        raise ExtensionError(f"{what} is one line, not {text!r}")
    return text


def must_be_positive(seconds: object, what: str) -> float:
    if not isinstance(seconds, int | float) or not 0 < seconds < math.inf:
        raise ExtensionError(f"{what} is a number of seconds above 0, not {seconds!r}")
    return float(seconds)
