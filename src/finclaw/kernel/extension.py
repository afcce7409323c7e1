"""The extension API: the one page that says what an extension can do.

An extension is a module or object with `register(api)`. It is loaded once, in the order of the list that names
it, before the first message; what it registers stays for the life of the process. Inside `register` it may only
register; what waits for something (`state`, `database`, `send`) is for later, in what it has registered.
"""

import logging
from argparse import ArgumentParser, Namespace
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Literal, Protocol, TypeVar, overload

from msgspec import UNSET, Struct

from finclaw.kernel.context import Context
from finclaw.kernel.envelope import ActionButton, Limits, NewFile, Outbound, OutboundFile
from finclaw.kernel.event import Observer
from finclaw.kernel.fact import Fact
from finclaw.kernel.fetch import Fetcher, FetchRules
from finclaw.kernel.message import ToolResult
from finclaw.kernel.port import ChannelFactory, Clock, Command, LayerCommand, Method, RouteReply, RouteRequest, Tool
from finclaw.kernel.record import Erasure
from finclaw.kernel.scope import (
    DeliveryContext,
    MessageContext,
    Outcome,
    StepContext,
    StepResult,
    ToolCallContext,
    TurnContext,
    TurnResult,
    VisibilityCheck,
)

T = TypeVar("T")
S = TypeVar("S", bound=Struct)
FetchField = Callable[[Context], Awaitable[Any]]
IsWanted = Callable[[Context], bool]  # at once, from the computed fields too: whether it is worth asking
EXTENSIONS: Final = "extensions"
RingName = Literal["message", "turn", "step", "tool_call", "delivery"]
RING_NAMES: tuple[RingName, ...] = ("message", "turn", "step", "tool_call", "delivery")


class PipelineApi(Protocol):
    """Put a layer around one of the five nouns. Unknown kinds raise ExtensionError."""

    @overload
    def register(
        self, kind: Literal["message"], fn: Callable[[MessageContext], Awaitable[Outcome]], *, priority: int = 0
    ) -> None: ...
    @overload
    def register(
        self, kind: Literal["turn"], fn: Callable[[TurnContext], Awaitable[TurnResult]], *, priority: int = 0
    ) -> None: ...
    @overload
    def register(
        self, kind: Literal["step"], fn: Callable[[StepContext], Awaitable[StepResult]], *, priority: int = 0
    ) -> None: ...
    @overload
    def register(
        self, kind: Literal["tool_call"], fn: Callable[[ToolCallContext], Awaitable[ToolResult]], *, priority: int = 0
    ) -> None: ...
    @overload
    def register(
        self, kind: Literal["delivery"], fn: Callable[[DeliveryContext], Awaitable[Outbound]], *, priority: int = 0
    ) -> None: ...
    def register(self, kind: str, fn: Callable[[Any], Awaitable[Any]], *, priority: int = 0) -> None: ...


class ToolsApi(Protocol):
    """The one thing that may also come and go later, for tools that live behind a connection (MCP)."""

    def register(self, tool: Tool, /) -> None: ...
    def unregister(self, name: str, /) -> bool:
        """Take back a tool of one's own; False if there is none of that name."""
        ...


class CommandsApi(Protocol):
    def register(self, command: Command, /) -> None: ...
    def mention(self, words: Callable[[], Mapping[str, str | LayerCommand]], /) -> None:
        """Tell of commands that a layer of yours understands in a turn: their names, with what each does, or with a
        `LayerCommand`, which also says for whom it is.

        They are listed by the help command, and a chat at a terminal does not take them for misspelled ones. It is
        asked each time, so that they may change.
        """


class ChannelsApi(Protocol):
    def register(self, kind: str, make: ChannelFactory, /) -> None:
        """Bring a kind of channel, for the `channels` section of the settings to name."""


class PromptApi(Protocol):
    def section(self, title: str, text: str, *, priority: int = 0, required: bool = False) -> None:
        """Add to the system prompt, above what has a lower priority.

        Where the prompt's budget is short, low priorities are left out first; what is required never is.
        """


class EventsApi(Protocol):
    def observe(self, observer: Observer, *names: str) -> Callable[[], None]:
        """See every event, or those of these names. The returned function ends it; closing ends it too."""
        ...


class StateApi(Protocol):
    """What this extension remembers, durably: one JSON value for itself and one for each session.

    A session's value goes with its conversation: a reset forgets both at once. In a command of the terminal the running
    gateway is asked, or the state is opened for the moment; StateBusy: somebody else has it.
    """

    async def get(self, session: str = "") -> Any:
        """None when nothing was set."""
        ...

    async def set(self, value: Any, session: str = "") -> None:
        """On disk when it returns. None forgets. Raises Superseded in a turn whose session was reset meanwhile."""


class Transaction(Protocol):
    """A database inside one transaction."""

    def execute(self, sql: str, values: Sequence[Any] = ()) -> Sequence[tuple[Any, ...]]: ...


class Database(Protocol):
    """A database of the extension's own, opened with the first use and closed by the app.

    Today it is an SQLite file in the state directory. Write SQL that PostgreSQL runs as well: `?` for values, ON
    CONFLICT instead of OR REPLACE, no PRAGMA, no rowid, no virtual tables.
    """

    async def execute(self, sql: str, *values: Any) -> Sequence[tuple[Any, ...]]:
        """One statement, committed when it returns. Raises StoreFailed, or SessionError for SQL that does not fit."""
        ...

    async def transaction(self, work: Callable[[Transaction], T]) -> T:
        """Run a plain function inside one transaction; what it raises undoes everything it did."""
        ...


class TasksApi(Protocol):
    def every(self, seconds: float, fn: Callable[[], Awaitable[None]]) -> None:
        """Run it again and again while the gateway runs, `seconds` after the start and after each end.

        It never runs beside itself; its failures are logged, and it is tried again next time.
        """


class ContextApi(Protocol):
    def provide(
        self, field: str, fn: FetchField, *, budget: float = 1.0, default: Any = UNSET, when: IsWanted | None = None
    ) -> None:
        """Fill `context.provided[field]` when a turn begins; late (`budget` seconds) or failed it is its `default`."""

    def compute(self, field: str, fn: Callable[[Context], Any], *, default: Any = UNSET) -> None:
        """The same for what needs no waiting: it costs a turn no task and no timer. Keep it quick."""


class VisibleApi(Protocol):
    def check(self, fn: VisibilityCheck) -> None:
        """Look at everything a person is about to see. No finding lets it pass; the others say what must not be seen.

        Called for every draft, also while an answer is being written: keep it quick. One that raises withholds it all.
        """


class CliApi(Protocol):
    def command(
        self, name: str, about: str, run: Callable[[Namespace], int], arguments: Callable[[ArgumentParser], None]
    ) -> None:
        """Add `finclaw NAME`. Raises ExtensionError when the gateway or another extension has that name."""


class RoutesApi(Protocol):
    def add(self, method: Method, path: str, fn: Callable[[RouteRequest], Awaitable[RouteReply]]) -> None:
        """Serve `/api/v1/extensions/<this extension>/<path>`, behind the same token as everything else."""


class Finding(Struct, frozen=True):
    """The result of a check; `advice` says what to do about it."""

    result: Literal["ok", "warning", "error"]
    text: str
    advice: str = ""


class DoctorApi(Protocol):
    def check(self, name: str, fn: Callable[[], Finding]) -> None:
        """Add a look of your own to `finclaw doctor`. It must change nothing."""


class ExtensionApi(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def settings(self) -> Mapping[str, Any]:
        """What stands under `settings` beside this extension's name in the configuration, as it was written."""
        ...

    def read_settings(self, kind: type[S]) -> S:
        """The settings as a struct of one's own. A field of type `Secret` takes `env:NAME` or `file:PATH`.

        For `register`: what does not fit stops the start. Raises ConfigError for a secret that is not where its
        reference says, or that stands in the file itself; ExtensionError for whatever else does not fit.
        """
        ...

    @property
    def pipeline(self) -> PipelineApi: ...
    @property
    def tools(self) -> ToolsApi: ...
    @property
    def commands(self) -> CommandsApi: ...
    @property
    def channels(self) -> ChannelsApi: ...
    @property
    def prompt(self) -> PromptApi: ...
    @property
    def events(self) -> EventsApi: ...
    @property
    def state(self) -> StateApi: ...
    @property
    def tasks(self) -> TasksApi: ...
    @property
    def context(self) -> ContextApi: ...
    @property
    def visible(self) -> VisibleApi: ...
    @property
    def cli(self) -> CliApi: ...
    @property
    def routes(self) -> RoutesApi: ...
    @property
    def doctor(self) -> DoctorApi: ...
    @property
    def logger(self) -> logging.Logger: ...
    @property
    def clock(self) -> Clock: ...

    def database(self, migrations: Sequence[str]) -> Database:
        """A database of one's own; each migration is applied once, in order, and never edited once released."""
        ...

    def fetcher(self, rules: FetchRules | None = None) -> Fetcher:
        """The guarded way to addresses on the web, within the rules. Raises ExtensionError for a host that is none.

        Use it for whatever address you did not write yourself: a client of your own would ask the operator's network.
        """
        ...

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
        """Say something in a session, or to a person in their latest direct chat, durably and in order.

        Gives the message's id. A person is named by id, name or `channel:account:sender-id`. A `key` makes
        it idempotent: the same key is said once to them, for ever, whatever the words. It passes the delivery ring and
        the gate; with `facts` it is a reply, Markdown and labelled as one, else it is shown to the letter. What is
        `perishable` is dropped when it could not be sent in time. Raises ExtensionError for nobody we know. In a
        command of the terminal, where no gateway runs, it is on disk and said by the next one.
        """
        ...

    async def start_turn(self, session: str, text: str, limits: Limits | None = None) -> str:
        """Begin a turn of the agent with these words, in the pool for scheduled work; gives the message's id.

        The answer goes to the session's person. Whatever the limits say, it waits for its turn, and no pool but that
        one is used. Raises ExtensionError for a text that is no session key.
        """
        ...

    def on_forget(self, forget: Callable[[Erasure], Awaitable[None]]) -> None:
        """Run it when somebody erases a conversation or a person: erase what you keep of those sessions and of them.

        What `state` holds of a session goes by itself, and afterwards the free pages of your database are overwritten.
        """

    def on_close(self, close: Callable[[], Awaitable[None]]) -> None:
        """Run it when the gateway stops, or when loading fails after this: last registered, first closed."""


class Extension(Protocol):
    @property
    def name(self) -> str: ...
    def register(self, api: ExtensionApi) -> None: ...
