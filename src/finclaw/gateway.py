"""The gateway as its edges see it: what the HTTP API and the command line may ask of a running one."""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Literal, Protocol

from msgspec import Struct

from finclaw.errors import SessionError
from finclaw.kernel.approval import Approval, ApprovalScope, ApprovalState, ApprovalVerdict, Refusal, Standing
from finclaw.kernel.envelope import Inbound, QueueMode
from finclaw.kernel.event import Observer
from finclaw.kernel.message import Message
from finclaw.kernel.person import ContactHistory, Person
from finclaw.kernel.port import ExtensionRoute
from finclaw.kernel.record import (
    Accepted,
    Cost,
    CostsBy,
    Counts,
    Erased,
    InboundRecord,
    Pruned,
    SenderId,
    Today,
    TurnRecord,
    TurnTrace,
    Unsolicited,
)
from finclaw.kernel.scope import Outcome
from finclaw.kernel.store_port import Store
from finclaw.text import Language

Summary = tuple[str, str]
"""As much of an approval's id as tells it from others in a list, and its action in a line."""
SenderKey = tuple[str, str, str]  # channel, account and id of a sender


def sender_of(inbound: Inbound) -> SenderKey:
    return inbound.channel, inbound.account, inbound.sender.id


class StopRequest(Struct, frozen=True, kw_only=True):
    session: str
    reason: str
    sender: SenderKey | None = None  # whose messages are meant; None: everybody's, which needs the right
    asked_by: SenderKey | None = None
    """The person who asks, if one does: finished answers of others are sent all the same, unless `only` names one."""
    before: int | None = None
    """Only messages with an earlier ticket: what is written behind a stop is not stopped by it."""
    only: str | None = None  # the id of the one message that is meant; the others stay where they are
    told: bool = True
    """Whoever asks tells the sender. False: the message that runs tells of the stop as its own end."""
    language: Language = "en"  # the language of what is reported for the person to read


class StopReport(Struct, frozen=True, kw_only=True):
    """What a stop has done, for whoever tells the person."""

    stopped: tuple[str, ...] = ()  # messages whose turn ran, and those that had joined it
    dropped: tuple[str, ...] = ()  # messages that waited for their turn
    withdrawn: tuple[str, ...] = ()
    """Messages whose answer was on its way: the parts that nobody had begun to send are not sent."""
    kept: int = 0  # messages of the session that wait all the same, such as those of others
    unknown: tuple[str, ...] = ()
    """Tools that move money and had begun: nobody knows whether it went through."""
    warning: str = ""  # about those tools, for the person

    approvals: tuple[str, ...] = ()
    """Requests of the session that wait for a person all the same: nothing of them runs."""

    @property
    def is_empty(self) -> bool:
        return not (self.stopped or self.dropped or self.withdrawn)


class UndoneTurn(Struct, frozen=True, kw_only=True):
    """The turn that an undo has taken out of the conversation, or why it has not."""

    question: str = ""
    used_tools: bool = False  # what its tools have done stays done
    problem: Literal["", "nothing", "others", "shortened"] = ""
    """There was none, it was somebody else's, or a summary has taken its place."""


class UnreachableChat(Struct, frozen=True, kw_only=True):
    """A chat that takes nothing from us any more, until its people come back."""

    channel: str
    conversation: str
    reason: str


class PersonRecord(Struct, frozen=True, kw_only=True):
    """A person as the operator sees them, with the roles that the settings give them."""

    person: Person
    roles: tuple[str, ...] = ()
    contact: ContactHistory | None = None  # of one who was asked for by themselves; a list has none


class QueuedMessage(Struct, frozen=True, kw_only=True):
    """A message of a session that has not ended, in the order in which they are answered."""

    inbound_id: str
    sender: str
    accepted_at: datetime
    state: Literal["running", "waiting", "joined"]  # `joined`: the turn of one before it answers it too
    mode: QueueMode | None = None  # by which it waits; None: it runs, or is the gateway's own
    origin: str = ""  # who has chosen the mode
    waits_for: Literal["", "turn", "seat", "share"] = ""
    """Of one that waits: those before it in its session, a free seat among all turns, or a turn of the same person to
    end, who has their share of the seats."""
    before: int = 0  # how many are before it: in the session, or among those that wait for a seat


class PersonApi(Protocol):
    async def list_people(self, limit: int, after: str = "") -> Sequence[PersonRecord]: ...
    async def find(self, who: str) -> PersonRecord | None: ...  # by an identity, an id, or a name that only one has
    async def change(self, who: str, fields: Mapping[str, str]) -> PersonRecord: ...  # ConfigError, SessionError


class UpkeepApi(Protocol):
    """Erasure, retention and backups of stored data. A running gateway forgets what it holds of it in memory, too."""

    async def erase_session(self, session: str, *, dry_run: bool = False) -> Erased: ...
    async def forget_person(self, person: SenderId, *, dry_run: bool = False) -> Erased: ...
    async def prune(self, older_than: timedelta, *, dry_run: bool = False) -> Pruned: ...
    async def prepare_backup(self) -> str: ...  # the name of a directory in the state, which the caller removes


class ApprovalGateway(Protocol):
    """Approvals and grants, whose ids are as somebody typed them."""

    async def approval(self, typed: str) -> Approval | None: ...
    async def approvals(
        self, states: Collection[ApprovalState] = ("pending",), session: str | None = None, limit: int = 100
    ) -> Sequence[Approval]: ...
    async def decide(
        self,
        typed: str,
        verdict: ApprovalVerdict,
        evidence: Inbound,
        *,
        scope: ApprovalScope = "once",
        reason: str = "",
    ) -> Approval | Refusal:
        """Take a decision. `evidence` is the message that carried it, or what stands for one at this edge."""
        ...

    def summaries(self, approvals: Sequence[Approval]) -> Sequence[Summary]: ...
    async def came_of(self, approval_id: str, seconds: float) -> Outcome | None:
        """How the turn of an approved action ended; None: not within the seconds, or there is none here."""
        ...

    async def grants(self, limit: int = 100) -> Sequence[Standing]: ...  # the newest first
    async def revoke(self, typed: str, evidence: Inbound) -> Standing | Refusal: ...


class StoredGateway(Protocol):
    """What can be asked about stored data, of a running gateway and of one at rest."""

    @property
    def store(self) -> Store: ...
    @property
    def upkeep(self) -> UpkeepApi: ...
    @property
    def persons(self) -> PersonApi: ...
    async def costs(self, days: int, by: CostsBy) -> Sequence[Cost]: ...  # of so many days, today among them
    async def today(self) -> Today: ...
    async def reset(self, session: str) -> None: ...
    def queue(self, session: str) -> Sequence[QueuedMessage]: ...
    async def stop_session(self, request: StopRequest) -> StopReport: ...  # the caller has checked who may


class Gateway(StoredGateway, ApprovalGateway, Protocol):
    """What the HTTP API, the command line and built-in extensions may ask of a running gateway; see `app.App`."""

    async def accept(self, inbound: Inbound) -> Accepted: ...
    async def wait(self, inbound_id: str, seconds: float) -> InboundRecord | None: ...
    def stop_message(self, inbound_id: str, reason: str = "stopped by the person") -> bool: ...
    async def undo_turn(self, accepted: Accepted, *, is_owner: bool, again: bool) -> UndoneTurn: ...
    def clear_queue(self, session: str) -> int: ...
    def known_commands(self) -> Sequence[str]: ...
    async def unasked(self, whose: Inbound, after: str | None) -> Unsolicited: ...
    async def turns(self, limit: int) -> Sequence[TurnRecord]: ...
    async def turn(self, turn_id: str) -> TurnTrace | None: ...
    async def messages(self, session: str) -> Sequence[Message]: ...
    async def counts(self) -> Counts: ...
    async def unreachable(self) -> Sequence[UnreachableChat]: ...
    def measure(self, messages: Sequence[Message], model: str | None, /) -> int:
        """Return the estimated tokens of a request with these messages. None: the usual model. Raises ModelUnknown."""
        ...

    def observe(self, observer: Observer) -> Callable[[], None]: ...
    async def check_writable(self) -> SessionError | None: ...  # why nothing can be recorded now
    @property
    def ready(self) -> bool: ...
    @property
    def market(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def routes(self) -> Sequence[ExtensionRoute]: ...
