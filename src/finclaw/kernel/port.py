"""The borders of the house. Each contract says: may it raise, is it idempotent, who closes it."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import date, datetime, timedelta
from typing import Literal, Protocol

from msgspec import Struct

from finclaw.kernel.approvals import ApprovalDoor, ApprovalStore
from finclaw.kernel.chunk import Chunk, ModelRequest
from finclaw.kernel.envelope import Capabilities, Inbound, Outbound, Receipt, Sender
from finclaw.kernel.event import Observer
from finclaw.kernel.integrity import Finding
from finclaw.kernel.message import Message, TurnEvent
from finclaw.kernel.record import (
    Accepted,
    Claim,
    Cost,
    CostsBy,
    Counts,
    Finish,
    HeadStart,
    InboundRecord,
    Pruned,
    Reserve,
    SessionPage,
    Spend,
    Today,
    TurnCalls,
    TurnRecord,
    TurnStory,
    Unasked,
    Unit,
)
from finclaw.kernel.route import CommandDoor, ExtensionRoute
from finclaw.kernel.scope import Outcome
from finclaw.kernel.state_store import StateStore as StateStore  # noqa: PLC0414  a border too, described next door
from finclaw.kernel.tool import Isolation as Isolation  # noqa: PLC0414  a border too, described next door
from finclaw.kernel.tool import Tool as Tool  # noqa: PLC0414  a border too, described next door
from finclaw.kernel.tool import ToolOutput as ToolOutput  # noqa: PLC0414  a border too, described next door
from finclaw.kernel.tool import ToolScope as ToolScope  # noqa: PLC0414  a border too, described next door
from finclaw.kernel.upkeep import UpkeepDoor, UpkeepStore


class Clock(Protocol):
    """The only way to know the time. `now` may jump when the operator sets the clock; `monotonic` never does."""

    def now(self) -> datetime: ...
    def monotonic(self) -> float: ...
    async def sleep(self, seconds: float) -> None: ...


# ── where messages come from and go to ──────────────────────────────────────────────────────────────────────


Accept = Callable[[Inbound], Awaitable[Accepted]]
"""Returns once the message is on disk; only then may the channel acknowledge it. Raises StoreFailed: do not ack."""


class Channel(Protocol):
    """A place where people write. The app closes it."""

    @property
    def name(self) -> str: ...
    @property
    def capabilities(self) -> Capabilities: ...
    @property
    def connected(self) -> bool:
        """While False nothing is sent and no retry is used up."""
        ...

    async def receive(self, accept: Accept) -> None:
        """Feed inbound messages until cancelled. May raise ChannelError; it is then started again, later each time."""
        ...

    async def send(self, unit: Unit) -> Receipt:
        """Hand one unit to the platform.

        Raises SendFailed (it did not arrive, try later), SendRefused (it never will) or SendUnknown (the line
        broke after the write); nothing else.
        """
        ...

    async def react(self, inbound: Inbound, emoji: str | None) -> None:
        """Set our reaction, or take it back with None. Best effort: the caller logs what it raises."""
        ...

    async def typing(self, inbound: Inbound, active: bool) -> None: ...
    async def close(self) -> None: ...


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


class CommandReply(Struct, frozen=True):
    text: str
    ephemeral: bool = False


class Command(Protocol):
    """A line that the gateway answers itself. `run` may raise; the sender is told and the message ends `failed`."""

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
    async def run(self, args: Sequence[str], scope: CommandScope) -> CommandReply: ...


# ── what lasts ──────────────────────────────────────────────────────────────────────────────────────────────
# Every method that writes returns after the commit is on disk. StoreFailed: nothing of it happened as far as this
# process goes on; only if the machine dies before the next commit may it turn out whole. Never in part.
# A commit goes through even when its caller is cancelled; whoever waits again finds it done.


class Inbox(Protocol):
    async def accept(
        self, inbound: Inbound, session: str, then: Callable[[Accepted], None], head_start: HeadStart | None = None
    ) -> Accepted:
        """Idempotent by platform id. `then` runs once per new message after the commit, also if the caller is gone.

        With a head start the turn may be claimed as well; a store may leave that to `claim`. Raises InboundConflict
        for a known id with another body.
        """
        ...

    async def end(
        self,
        inbound_id: str,
        outcome: Outcome,
        units: Sequence[Unit],
        then: Callable[[], None],
        spend: Sequence[Spend] = (),
        *,
        begun: bool = True,
    ) -> bool:
        """Record the one outcome with what the sender is told. False if it had one: nothing is written then.

        `then` runs after a commit that did it, also if the caller is gone. A turn that was claimed but not `begun`, for
        the message ended before it, is as if it had never been.
        """
        ...

    async def unfinished(self) -> Sequence[Accepted]:
        """Everything accepted and not ended, in ticket order within each session."""
        ...

    async def nothing_runs(self) -> None:
        """Whatever a crash left running is received again, its tries still counted: `begun` tells of one life only."""
        ...

    async def find(self, inbound_id: str) -> InboundRecord | None: ...

    async def unasked(self, session: str, after: str | None) -> Unasked:
        """What the session was told behind this place. None, or a place nobody knows: nothing, just where to begin."""
        ...


class ConversationStore(Protocol):
    async def claim(
        self,
        accepted: Accepted,
        first: Sequence[TurnEvent],
        known_version: int | None,
        then: Callable[[Claim], None] | None = None,
        reserve: Reserve | None = None,
    ) -> Claim:
        """Begin the turn or, after a crash, take it up again: attempts rise, the log so far comes back.

        `then` runs after the commit, also if the caller is gone. `reserve` is for a turn whose model call comes next.
        """
        ...

    async def record(
        self,
        claim: Claim,
        seq: int,
        events: Sequence[TurnEvent],
        then: Callable[[], None],
        calls: TurnCalls | None = None,
    ) -> None:
        """Append to the turn's log, from `seq` on; `then` as above. Raises Superseded: a newer writer has the session.

        `calls` replaces what was reserved before, and its spend is entered, in the same commit.
        """
        ...

    async def finish(self, finish: Finish, then: Callable[[], None]) -> bool:
        """Fold and end, all at once, with `then` as in `Inbox.end`. False if it had ended. Raises Superseded."""
        ...

    async def set_out(self, inbound_id: str) -> None: ...  # a try from here on, as by a claim, before its turn has come

    async def release(self, inbound_id: str, calls: TurnCalls | None = None) -> None:
        """Put a message back that was claimed or had set out, as if it had not been tried. `calls` as in `record`."""
        ...

    async def messages(self, session: str) -> Sequence[Message]: ...
    async def turns(self, limit: int) -> Sequence[TurnRecord]: ...

    async def turn(self, turn_id: str) -> TurnStory | None:
        """By its own id or that of a message it answered. None: there is no such turn."""
        ...

    async def reset(self, session: str) -> None:
        """Forget the conversation and raise the epoch: whoever was writing it cannot any more."""
        ...

    async def sessions(self, limit: int, after: str | None = None, containing: str = "") -> SessionPage:
        """A page of sessions, the most recently used first; only those whose key contains the text."""
        ...

    async def restore(self, session: str, messages: Sequence[Message]) -> None:
        """Give a session these messages, as an import or a fork does. Raises SessionError unless it was empty."""
        ...

    async def repair(self, session: str, *, dry_run: bool = False) -> Sequence[Finding]:
        """Make a broken conversation whole and say what was wrong. A turn that runs there goes on."""
        ...

    async def prune(self, before: datetime, *, dry_run: bool = False) -> Pruned:
        """Remove what ended before that time: messages with their turns and units, and sessions left with nothing."""
        ...


class Outbox(Protocol):
    async def pending(self) -> Sequence[Unit]:
        """Units that still want sending, in the order in which their messages were accepted."""
        ...

    async def settle(self, *units: Unit, lazy: bool = False) -> None:
        """Record new states, all at once. A lazy one (a receipt) rides with the next group."""
        ...

    def plan(self, accepted: Accepted, outbounds: Sequence[Outbound], turn_id: str | None) -> tuple[Unit, ...]:
        """Freeze what a person will get into units. Writes nothing."""
        ...

    async def ask_again(self, stale: Unit, then: Callable[[Accepted], None]) -> Accepted | None:
        """An answer too old to send: expire it and, in the same commit, accept its question anew.

        Only once: None when the question had been asked again already. `then` as in `Inbox.accept`.
        """
        ...


class Store(Inbox, ConversationStore, Outbox, StateStore, ApprovalStore, UpkeepStore, Protocol):
    """One database behind these ports, because Finish writes to several of them in one commit."""

    async def counts(self) -> Counts: ...
    async def costs(self, since: date, by: CostsBy) -> Sequence[Cost]:
        """What model calls cost from this day on: days in their order, else the dearest first."""
        ...

    async def close(self) -> None: ...


# ── the house as its doors see it ───────────────────────────────────────────────────────────────────────────


class Engine(Protocol):
    """Where a session's next turn runs."""

    def expect(self, accepted: Accepted) -> None:
        """Keep its place: nothing with a later ticket may run before it has been submitted and has ended."""
        ...

    def submit(self, accepted: Accepted) -> None:
        """Take over an accepted message. Never raises, never waits."""
        ...


class Gateway(ApprovalDoor, CommandDoor, UpkeepDoor, Protocol):
    """What the web page, the API and the command line may ask of a running gateway."""

    async def accept(self, inbound: Inbound) -> Accepted: ...
    async def wait(self, inbound_id: str, seconds: float) -> InboundRecord | None:
        """The record, as soon as the message has ended or the seconds have passed. None: no such message."""
        ...

    def stop_message(self, inbound_id: str, reason: str = "stopped by the person") -> bool:
        """Stop a message that waits for its turn or is being answered. False: it is not, or its answer exists."""
        ...

    async def unasked(self, whose: Inbound, after: str | None) -> Unasked:
        """What was told, behind this place, to the session that this message would belong to; see `Inbox.unasked`."""
        ...

    async def turns(self, limit: int) -> Sequence[TurnRecord]: ...
    async def turn(self, turn_id: str) -> TurnStory | None: ...
    async def counts(self) -> Counts: ...
    async def costs(self, days: int, by: CostsBy) -> Sequence[Cost]:
        """Of so many days, today among them; see `Spend`."""
        ...

    async def today(self) -> Today: ...

    async def sessions(self, limit: int, after: str | None = None, containing: str = "") -> SessionPage: ...
    async def has_session(self, key: str) -> bool: ...
    async def messages(self, session: str) -> Sequence[Message]: ...
    async def reset(self, session: str) -> None:
        """As the command `/reset` does: a turn that runs there is superseded."""
        ...

    async def restore(self, session: str, messages: Sequence[Message]) -> None: ...
    async def repair(self, session: str, *, dry_run: bool = False) -> Sequence[Finding]: ...
    async def prune(self, older_than: timedelta, *, dry_run: bool = False) -> Pruned: ...
    def observe(self, observer: Observer) -> Callable[[], None]:
        """See every event from now on; the returned function ends it."""
        ...

    @property
    def ready(self) -> bool: ...
    @property
    def market(self) -> str: ...
    @property
    def model(self) -> str:
        """Whom it asks, as `provider/name`."""
        ...

    @property
    def routes(self) -> Sequence[ExtensionRoute]:
        """What extensions serve, known once and for all when the gateway has started."""
        ...
