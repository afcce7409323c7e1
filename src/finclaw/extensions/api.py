"""The api that `register(api)` is given. It refuses what it can at once, so that the line can be named."""

import logging
import re
from argparse import ArgumentParser, Namespace
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Literal, TypeVar, cast, get_args

from msgspec import UNSET, Struct
from msgspec.structs import replace

from finclaw.agent.prompt.sections import Section
from finclaw.delivery.visible import Check
from finclaw.errors import ExtensionError
from finclaw.extensions.registration import (
    CliCommand,
    DoctorCheck,
    ExtensionRegistry,
    Recurring,
    Registered,
    TellCommands,
    must_be_callable,
    must_be_line,
    must_be_positive,
)
from finclaw.extensions.settings import read_settings
from finclaw.ids import new_id
from finclaw.kernel.context import Context, ContextField
from finclaw.kernel.envelope import ActionButton, Limits, NewFile, Outbound, OutboundFile
from finclaw.kernel.event import Observer, ToolRegistered, ToolUnregistered
from finclaw.kernel.extension import RING_NAMES, Database, FetchField, Finding, IsWanted
from finclaw.kernel.fact import Fact
from finclaw.kernel.fetch import Fetcher, FetchRules
from finclaw.kernel.middleware import Layer
from finclaw.kernel.port import (
    ChannelFactory,
    Clock,
    Command,
    ExtensionRoute,
    Method,
    RouteReply,
    RouteRequest,
    Tool,
    names_of,
)
from finclaw.kernel.record import Erasure
from finclaw.kernel.scope import VisibilityCheck
from finclaw.sessions.session_key import place_of
from finclaw.tools.outbound_files import keep_files

OWN_CHANNELS: Final = frozenset({"mailbox"})  # kinds of channels that are there without an extension
# fmt: off
OWN_COMMANDS: Final = frozenset({
    "approvals", "ask", "backup", "channels", "chat", "completion", "config", "cost", "costs", "doctor", "explain",
    "export", "extensions", "forget", "fork", "help", "import", "init", "instruments", "logs", "mcp", "memory",
    "migrate", "models", "people", "prune", "replay", "restore", "send", "serve", "sessions", "skills", "status",
    "stop", "token", "tools", "trace", "turns", "version",
})
# fmt: on
"""What `finclaw` itself answers to, or means to: no extension may take these words. A test keeps it complete."""
_COMMAND: Final = re.compile(r"[a-z][a-z0-9-]{0,39}")
_PATH: Final = re.compile(r"[A-Za-z0-9._~-]+(/[A-Za-z0-9._~-]+)*")
S = TypeVar("S", bound=Struct)
LONGEST_SAYING: Final = 100_000  # characters; more would be more parts than one message can have


class _Part:
    def __init__(self, mine: Registered, registry: ExtensionRegistry) -> None:
        self._mine = mine
        self._registry = registry
        self._services = registry.services
        self.logger = logging.getLogger(f"finclaw.extension.{mine.name}")

    @property
    def _loading(self) -> Registered:
        """The registrations. Raises ExtensionError when the extension has been loaded."""
        self._mine.must_be_loading()
        return self._mine

    def _find_owner(self, name: str, names: Callable[[Registered], Iterable[str]]) -> str | None:
        every = (*self._registry.loaded, self._mine)
        return next((each.name for each in every if name in names(each)), None)


class Api(_Part):
    """The api of one extension. After loading, only tools and observers may come and go."""

    def __init__(self, mine: Registered, registry: ExtensionRegistry) -> None:
        super().__init__(mine, registry)
        self.pipeline = _Pipeline(mine, registry)
        self.tools = _Tools(mine, registry)
        self.commands = _Commands(mine, registry)
        self.channels = _Channels(mine, registry)
        self.prompt = _Prompt(mine, registry)
        self.events = _Events(mine, registry)
        self.state = _State(mine, registry)
        self.tasks = _Tasks(mine, registry)
        self.context = _Context(mine, registry)
        self.visible = _Visible(mine, registry)
        self.cli = _Cli(mine, registry)
        self.routes = _Routes(mine, registry)
        self.doctor = _Doctor(mine, registry)

    @property
    def name(self) -> str:
        return self._mine.name

    @property
    def settings(self) -> Mapping[str, Any]:
        return MappingProxyType(self._mine.settings)

    def read_settings(self, kind: type[S]) -> S:
        return read_settings(self._mine.settings, kind, self._mine.follow)

    @property
    def clock(self) -> Clock:
        return self._services.clock

    def database(self, migrations: Sequence[str]) -> Database:
        self._mine.must_be_loading()
        if self._mine.database is not None:
            raise ExtensionError("api.database was called twice; an extension has one, keep what the first call gave")
        if isinstance(migrations, str) or not all(isinstance(cast("object", each), str) for each in migrations):
            raise ExtensionError("api.database takes a list of SQL texts, one for each migration")
        self._mine.database = self._services.database(self._mine.name, tuple(migrations))
        return self._mine.database

    def fetcher(self, rules: FetchRules | None = None) -> Fetcher:
        return self._services.fetcher(rules or FetchRules())

    async def send(
        self,
        to: str,
        text: str,
        *,
        key: str | None = None,
        facts: Sequence[Fact] = (),
        attachments: Sequence[OutboundFile | NewFile] = (),
        actions: Sequence[ActionButton] = (),
        perishable: bool = False,
    ) -> str:
        _must_be_words("api.send", text)
        for each in actions:
            must_be_line(each.label, "a button's label")
            must_be_line(each.command, "a button's command")
        found = (to, to) if place_of(to) is not None else await self._services.find_chat(to)
        session, whom = found or ("", "")
        place = place_of(session)
        if place is None:
            example = "agent:channel:account:chat-type:peer, such as main:telegram:bot:direct:42"
            says = f"a key looks like {example}, and context.session_key is one"
            raise ExtensionError(f"{to!r} is no session; {says}; nor is it a person whom we know from a direct chat")
        once: Literal["here", "anywhere"] | None = None
        if key is not None:
            once = "here" if session == to else "anywhere"
        words = place.inbound(text, f"said:{self._mine.name}:{whom}:{new_id() if key is None else key}")
        words = replace(words, from_extension=self._mine.name, once=once)
        if facts or attachments or actions or perishable:
            kind = "reply" if facts else "notice"
            files = await keep_files(self._services.put_blob, attachments)
            saying = Outbound(text="", kind=kind, facts=tuple(facts), attachments=files, actions=tuple(actions))
            words = replace(words, saying=replace(saying, perishable=perishable))
        return (await self._services.accept(words, session)).id

    async def start_turn(self, session: str, text: str, limits: Limits | None = None) -> str:
        place = place_of(session)
        if place is None:
            raise ExtensionError(f"{session!r} is no session; context.session_key is one")
        _must_be_words("api.start_turn", text)
        bounds = replace(limits or Limits(), pool="cron", approval=None)
        asked = replace(place.inbound(text, f"started:{self._mine.name}:{new_id()}"), limits=bounds)
        return (await self._services.start_turn(asked, session)).id

    def on_forget(self, forget: Callable[[Erasure], Awaitable[None]]) -> None:
        self._loading.forgetters.append(must_be_callable(forget))

    def on_close(self, close: Callable[[], Awaitable[None]]) -> None:
        self._loading.closers.append(must_be_callable(close))


def _must_be_words(where: str, text: str) -> None:
    if not text.strip() or len(text) > LONGEST_SAYING:
        size = f"{len(text)} characters" if text.strip() else "nothing"
        raise ExtensionError(f"{where} was given {size} to say; give it some words, at most {LONGEST_SAYING}")


class _Pipeline(_Part):
    def register(self, kind: str, fn: Callable[[Any], Awaitable[Any]], *, priority: int = 0) -> None:
        self._mine.must_be_loading()
        if kind not in RING_NAMES:
            raise ExtensionError(f"there is no ring {kind!r}; the rings are {', '.join(RING_NAMES)}")
        if not isinstance(cast("object", priority), int):
            raise ExtensionError(f"a priority is a whole number, not {priority!r}; lower is further out")
        name = f"{self._mine.name}.{getattr(must_be_callable(fn), '__name__', type(fn).__name__)}"
        self._mine.layers.append((kind, Layer(name, fn, priority)))


class _Tools(_Part):
    def register(self, tool: Tool, /) -> None:
        if self._mine.stage == "closed":
            raise ExtensionError(f"extension {self._mine.name!r} is closed and registers no more tools")
        self._registry.tools.register(tool, self._mine.name)
        self._mine.tools.append(tool)
        if self._mine.stage == "loaded":  # else it is told once the whole extension has succeeded
            self._registry.events.emit(tool_registered(self._mine, tool))

    def unregister(self, name: str, /) -> bool:
        mine = next((tool for tool in self._mine.tools if tool.spec.name == name), None)
        if mine is None:
            return False
        self._mine.tools.remove(mine)
        self._registry.tools.unregister(name)
        if self._mine.stage == "loaded":
            self._registry.events.emit(ToolUnregistered(tool=name))
        return True


def tool_registered(mine: Registered, tool: Tool) -> ToolRegistered:
    return ToolRegistered(tool=tool.spec.name, group=tool.group, source=mine.name)


class _Commands(_Part):
    def register(self, command: Command, /) -> None:
        self._mine.must_be_loading()
        names = [name.casefold() for name in names_of(command)]
        for name in names:
            owner = self._find_owner(name, lambda each: each.command_names)
            if owner is not None:
                raise ExtensionError(f"the command name {name!r} is taken by {owner!r}; choose another name or alias")
        self._mine.commands.append(command)
        self._mine.command_names.update(names)

    def mention(self, words: TellCommands) -> None:
        self._loading.mentioned.append(words)


class _Channels(_Part):
    def register(self, kind: str, make: ChannelFactory, /) -> None:
        self._mine.must_be_loading()
        if not _COMMAND.fullmatch(kind):
            raise ExtensionError(f"{kind!r} is no kind of channel; use small letters, digits and dashes")
        owner = self._find_owner(kind, lambda each: each.channels)
        if owner is not None or kind in OWN_CHANNELS:
            raise ExtensionError(f"the kind of channel {kind!r} is {owner or 'FinClaw'}'s already; choose another name")
        self._mine.channels[kind] = must_be_callable(make)


class _Prompt(_Part):
    def section(self, title: str, text: str, *, priority: int = 0, required: bool = False) -> None:
        self._mine.must_be_loading()
        if not all(isinstance(cast("object", each), str) for each in (title, text)):
            raise ExtensionError("api.prompt.section takes two texts, a title and what stands under it")
        if len(title.splitlines()) != 1 or not title.strip():
            raise ExtensionError(f"a section's title is one line, not {title!r}; put the rest into its text")
        if not isinstance(cast("object", priority), int):
            raise ExtensionError(f"a priority is a whole number, not {priority!r}; higher stands further up")
        id = f"{self._mine.name}:{title}"
        self._mine.sections.append(Section(id, title, text, priority, bool(required), from_extension=True))


class _Events(_Part):
    def observe(self, observer: Observer, *names: str) -> Callable[[], None]:
        if self._mine.stage == "closed":
            raise ExtensionError(f"extension {self._mine.name!r} is closed and observes no more")
        stop = self._registry.events.observe(must_be_callable(observer), *names)
        self._mine.stop_observing.append(stop)
        return stop


class _State(_Part):
    async def get(self, session: str = "") -> Any:
        return await self._services.recall(self._mine.name, session)

    async def set(self, value: Any, session: str = "") -> None:
        await self._services.remember(self._mine.name, session, value)


class _Tasks(_Part):
    def every(self, seconds: float, fn: Callable[[], Awaitable[None]]) -> None:
        mine = self._loading
        mine.recurring.append(Recurring(must_be_positive(seconds, "an interval"), must_be_callable(fn), self.logger))


class _Context(_Part):
    def provide(
        self, field: str, fn: FetchField, *, budget: float = 1.0, default: Any = UNSET, when: IsWanted | None = None
    ) -> None:
        self._must_be_free(field)
        seconds = must_be_positive(budget, "a budget")
        if when is not None:
            must_be_callable(when)
        self._mine.fields.append(ContextField(field, must_be_callable(fn), seconds, self.logger, default, when))

    def compute(self, field: str, fn: Callable[[Context], Any], *, default: Any = UNSET) -> None:
        self._must_be_free(field)
        self._mine.fields.append(ContextField(field, must_be_callable(fn), 0.0, self.logger, default, is_computed=True))

    def _must_be_free(self, field: str) -> None:
        self._mine.must_be_loading()
        owner = self._find_owner(field, lambda each: (one.field for one in each.fields))
        if owner is not None:
            raise ExtensionError(f"the context field {field!r} is provided by {owner!r} already; choose another name")


class _Visible(_Part):
    def check(self, fn: VisibilityCheck) -> None:
        self._loading.checks.append(Check(self._mine.name, must_be_callable(fn)))


class _Cli(_Part):
    def command(
        self, name: str, about: str, run: Callable[[Namespace], int], arguments: Callable[[ArgumentParser], None]
    ) -> None:
        self._mine.must_be_loading()
        if not _COMMAND.fullmatch(name):
            raise ExtensionError(f"{name!r} cannot be typed as `finclaw {name}`; use small letters, digits and dashes")
        owner = self._find_owner(name, lambda each: (one.name for one in each.cli))
        if name in OWN_COMMANDS or owner is not None:
            whose = "FinClaw itself" if owner is None else f"extension {owner!r}"
            raise ExtensionError(f"`finclaw {name}` belongs to {whose}; choose another name")
        command = CliCommand(self._mine.name, name, about, must_be_callable(run), must_be_callable(arguments))
        self._mine.cli.append(command)


class _Routes(_Part):
    def add(self, method: Method, path: str, fn: Callable[[RouteRequest], Awaitable[RouteReply]]) -> None:
        self._mine.must_be_loading()
        path = path.strip("/")
        if method not in get_args(Method):
            raise ExtensionError(f"a route takes {' or '.join(get_args(Method))}, not {method!r}")
        if not _PATH.fullmatch(path) or {".", ".."} & set(path.split("/")):
            words = "words of letters, digits, '-' and '_' with '/' between them"
            raise ExtensionError(f"{path!r} is no path; use {words}")
        if any((each.method, each.path) == (method, path) for each in self._mine.routes):
            raise ExtensionError(f"{method} {path} is served already; add it once")
        route = ExtensionRoute(extension=self._mine.name, method=method, path=path, handle=must_be_callable(fn))
        self._mine.routes.append(route)


class _Doctor(_Part):
    def check(self, name: str, fn: Callable[[], Finding]) -> None:
        self._loading.doctor.append(DoctorCheck(self._mine.name, name, must_be_callable(fn)))
