"""Ports: the interfaces to channels, providers, tools and clients.

Each contract says: may it raise, is it idempotent, who closes it.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from threading import Event as ThreadEvent
from typing import Any, Literal, Protocol

from msgspec import Struct

from finclaw.errors import AttachmentRefused, SendRefused
from finclaw.kernel.chunk import Chunk, ModelRequest, ToolSpec
from finclaw.kernel.envelope import (
    ActionButton,
    Attachment,
    Capabilities,
    Embed,
    Inbound,
    NewFile,
    OutboundFile,
    Receipt,
    Sender,
)
from finclaw.kernel.fact import Fact
from finclaw.kernel.person import NOBODY, Person, language_for
from finclaw.kernel.record import Accepted, OutboxItem
from finclaw.redaction import Secret
from finclaw.text import Language

Method = Literal["GET", "POST"]


class RouteRequest(Struct, frozen=True, kw_only=True):
    """A request that was authenticated: `principal` is who the token belongs to."""

    principal: str
    query: Mapping[str, str]
    body: bytes


class RouteReply(Struct, frozen=True, kw_only=True):
    body: bytes
    status: int = 200
    content_type: str = "application/json"


class ExtensionRoute(Struct, frozen=True, kw_only=True):
    extension: str
    method: Method
    path: str
    """Without a slash at either end."""
    handle: Callable[[RouteRequest], Awaitable[RouteReply]]


class Clock(Protocol):
    """The only way to know the time. `now` may jump when the operator sets the clock; `monotonic` never does."""

    def now(self) -> datetime: ...
    def monotonic(self) -> float: ...
    async def sleep(self, seconds: float) -> None: ...


# ── where messages come from and go to ──────────────────────────────────────────────────────────────────────


Accept = Callable[[Inbound], Awaitable[Accepted]]
"""Returns once the message is on disk; only then may the channel acknowledge it. Raises StoreFailed: do not ack."""


class Channel(Protocol):
    """A place where people write. The app closes it. A class of one's own inherits from this one, and with it what a
    plain channel is: it shows no signs, changes nothing that was sent and carries no files; `capabilities` says more.
    """

    name: str
    capabilities: Capabilities
    connected: bool = True
    """While False nothing is sent and no retry is used up."""

    async def receive(self, accept: Accept) -> None:
        """Feed inbound messages until cancelled. May raise ChannelError; it is then started again, later each time.

        Edits, deletions, reactions and pressed buttons come the same way, by their `kind`.
        """

    async def send(self, unit: OutboxItem) -> Receipt:
        """Hand one unit to the platform.

        Raises SendFailed (it did not arrive, try later), SendRefused (it never will), MarkupRefused (it would as plain
        text) or SendUnknown (the line broke after the write); nothing else.
        """
        ...

    async def react(self, inbound: Inbound, emoji: str | None) -> None:
        """Set our reaction, or take it back with None. Best effort: the caller logs what it raises."""

    async def typing(self, inbound: Inbound, active: bool) -> None:
        """Show that an answer is being written, or no longer. Best effort, as above."""

    async def edit(self, platform_id: str, unit: OutboxItem) -> None:
        """Show this unit in place of what was sent under that id. Idempotent. Raises as `send` does."""
        raise SendRefused(f"channel {self.name} cannot change what it has sent")

    async def delete(self, platform_id: str) -> None:
        """Take back what was sent under that id; fine where it is gone already. Raises as `send` does."""
        raise SendRefused(f"channel {self.name} cannot take back what it has sent")

    async def fetch(self, attachment: Attachment) -> bytes:
        """The bytes of a file that a message brought, at most as many as `capabilities.media` has for its kind.

        Raises AttachmentRefused (too large, gone, or not a kind that it carries) or ChannelError (try later).
        """
        raise AttachmentRefused(f"channel {self.name} carries no files")

    def announce_commands(self, commands: "Sequence[Command]") -> None:
        """Learn which commands there are, before `receive`, for a platform that shows a list of them to people."""

    async def check(self) -> str:
        """Find out whether the platform can be reached, for `finclaw channels test`; gives a line about it.

        It sends and receives nothing. Raises ChannelError with what is wrong and what to do.
        """
        return "there is nothing to reach"

    async def close(self) -> None:
        """End what it has open. Idempotent."""


async def _do_nothing(*_: object) -> None:
    return None


class ChannelSpec(Struct, frozen=True, kw_only=True):
    """A channel as the settings describe it, for whoever makes channels of its kind. It is called so everywhere.

    What the gateway keeps for it is there only in a running one: `finclaw channels test` has no state.
    """

    name: str
    account: str
    secrets: Mapping[str, Secret]
    settings: Mapping[str, Any]
    clock: Clock
    recall: Callable[[], Awaitable[Any]] = _do_nothing
    """The value that it remembered last, or None. Its field `unreachable` (why, by conversation) the operator sees."""
    remember: Callable[[Any], Awaitable[None]] = _do_nothing
    """Keeps one value; on disk when it returns. Raises StoreFailed."""
    read_blob: Callable[[str], Awaitable[bytes | None]] = _do_nothing
    """The bytes of an `OutboundFile`, by the name of its blob; None: it is not kept any more."""


ChannelFactory = Callable[[ChannelSpec], Channel]
"""Makes a channel. It connects to nothing yet. Raises ConfigError for settings and secrets that do not fit."""


# ── who answers ─────────────────────────────────────────────────────────────────────────────────────────────


class Provider(Protocol):
    """A model behind a protocol. Raises ProviderError subclasses only. The app closes it."""

    @property
    def name(self) -> str: ...
    def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]: ...
    async def close(self) -> None: ...


class CommandScope(Struct, frozen=True, kw_only=True):
    """All a command may know."""

    inbound: Inbound
    session: str
    sender: Sender
    person: Person = NOBODY
    accepted: Accepted | None = None
    """The message as it was accepted, with its place in the session."""

    @property
    def language(self) -> Language:
        """The language to answer in: the person's own, or that of what they wrote."""
        return self.inbound.language or language_for(self.person, self.inbound.text)


class CommandReply(Struct, frozen=True):
    """An answer of a command. A `reply` is Markdown and labelled by its facts; a `notice` is shown to the letter."""

    text: str
    ephemeral: bool = False
    kind: Literal["notice", "reply"] = "notice"
    facts: tuple[Fact, ...] = ()
    attachments: tuple[OutboundFile, ...] = ()
    """Those that are kept already."""
    actions: tuple[ActionButton, ...] = ()
    files: tuple[NewFile, ...] = ()
    embeds: tuple[Embed, ...] = ()


class CommandArgument(Struct, frozen=True):
    name: str
    about: str = ""
    required: bool = True


class LayerCommand(Struct, frozen=True):
    """A command that a layer understands in a turn, such as a skill's: a model answers it."""

    about: str
    roles: tuple[str, ...] = ()
    """Whoever has none of these is refused; empty: everybody may use it."""


class Command(Protocol):
    """A line that the gateway answers itself; one that inherits this is what most commands are. `run` may raise; the
    sender is told and the message ends `failed`."""

    @property
    def name(self) -> str: ...
    @property
    def aliases(self) -> tuple[str, ...]: ...
    @property
    def description(self) -> str: ...
    @property
    def usage(self) -> str: ...
    @property
    def category(self) -> Literal["general", "finance", "admin", "debug"]: ...
    @property
    def roles(self) -> tuple[str, ...]: ...
    @property
    def names(self) -> Mapping[Language, str]:
        """What it is called in a language, such as `{"ko": "시세"}`. Each is an alias too."""
        return {}

    @property
    def arguments(self) -> tuple[CommandArgument, ...]:
        """For its help, which is shown as well to whoever leaves out a required one."""
        return ()

    @property
    def cooldown(self) -> float:
        """Seconds after which the same person may use it again."""
        return 0.0

    @property
    def when(self) -> Literal["now", "in_lane"]:
        """`in_lane`: once the messages before it are answered."""
        return "now"

    @property
    def words(self) -> tuple[str, ...]:
        """Whole messages that stand for it without a prefix, in lower case and without punctuation. Few commands have
        such: what people may say to the agent is the agent's.
        """
        return ()

    async def run(self, args: Sequence[str], scope: CommandScope) -> CommandReply: ...


def names_of(command: Command) -> tuple[str, ...]:
    """All that may follow the prefix. A command of an older extension has no names by language."""
    return (command.name, *command.aliases, *getattr(command, "names", {}).values())


# ── tools ───────────────────────────────────────────────────────────────────────────────────────────────────


class Ask(Protocol):
    """Asks the turn's model beside the conversation: nobody sees it, and it is paid for like any question.

    The answer fits the JSON Schema, which is one of an object; an answer that does not is sent back once, with what is
    wrong. Raises UnfitAnswer after that, ProviderError when no model answers, BudgetExceeded when none may be asked.
    """

    async def __call__(self, prompt: str, schema: Mapping[str, Any]) -> dict[str, Any]: ...


Isolation = Literal["loop", "thread", "process"]
"""Where a tool runs: beside everybody on the event loop, in a thread of its own, or in a process that can be killed."""


class ToolOutput(Struct, frozen=True):
    """What a tool gives: text for the model, and the facts in it."""

    content: str
    facts: tuple[Fact, ...] = ()
    origin: str = ""
    """Strangers' words that it passes on, such as a headline's, where its group does not say so already."""
    files: tuple[NewFile, ...] = ()
    """Pictures and documents for the person, which go out with the answer. The model sees nothing of them."""
    actions: tuple[ActionButton, ...] = ()
    """Choices that code knows, as buttons below the answer, if no other tool runs before it."""


class ToolScope(Struct, frozen=True, kw_only=True):
    """For whom and in which turn a tool runs."""

    session: str
    turn_id: str
    call_id: str
    sender: Sender
    channel: str = ""
    person: str = ""
    """The id of the person behind the sender: what is kept for them is filed under it."""
    offered: tuple[str, ...] = ()
    """The names of the tools that the model was offered in this step."""
    ask: Ask | None = None
    """None where there is no model to ask: a tool that is run by itself, or in a process of its own."""
    sources: Callable[[], tuple[str, ...]] | None = None
    """Tells which strangers' words the turn has read by now. None where there is no turn, or in another process."""
    facts: Callable[[], Awaitable[Sequence[Fact]]] | None = None
    """Gives what tools have told this session, the newest first. None as above."""
    stop: ThreadEvent | None = None
    """Of a tool that runs in a thread; others are cancelled or killed, and need not look."""

    def stopped(self) -> bool:
        """For a tool that blocks, to look at now and then: nobody waits for it any more, and it should end."""
        return self.stop is not None and self.stop.is_set()


Quote = Callable[[Mapping[str, Any], ToolScope], Awaitable[Mapping[str, Any]]]
"""Prices as they are now, by name, for a person to see before they agree. May raise ToolError: then nobody is asked."""


class Tool(Protocol):
    """One thing the agent may do. `run` may raise ToolError (the model reads it) or anything else (it reads less).

    `@tool` makes one. A class of one's own inherits from this one, and with it what most tools are.
    """

    @property
    def spec(self) -> ToolSpec: ...
    @property
    def group(self) -> str: ...
    @property
    def transactional(self) -> bool:
        """It moves money or cannot be undone: never run twice, never without consent."""
        ...

    @property
    def parallel_safe(self) -> bool: ...
    @property
    def timeout(self) -> float:
        """Seconds; then it is cancelled, and left behind if it does not heed that."""
        ...

    @property
    def approval(self) -> bool:
        """A person is asked before each call, whatever the rules say."""
        return False

    @property
    def sensitive(self) -> bool:
        """It reads what is private."""
        return False

    @property
    def changes(self) -> bool:
        """It changes what is kept for the person, such as their alerts: no stranger's words get that unasked."""
        return False

    @property
    def own_results(self) -> bool:
        """Everything that it gives back is the operator's own, such as a broker's order number: nothing in it was
        written by strangers. Pages, files, processes and other people's servers never are.
        """
        return False

    @property
    def upstream(self) -> str:
        """Who must be there for it to work, such as `api.example.com` or `mcp:files`; tools that name the same one
        share a breaker. Empty: nobody but us.
        """
        return ""

    @property
    def isolation(self) -> Isolation:
        return "loop"

    @property
    def quote(self) -> Quote | None:
        """For what depends on prices: shown with the question, and looked at again before it runs."""
        return None

    async def run(self, args: Mapping[str, Any], scope: ToolScope) -> ToolOutput: ...
