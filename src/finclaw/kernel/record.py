"""Records: what the store keeps of messages, turns and answers, and what an erasure takes away.

What an erasure leaves behind keeps no words: the digest of a message's name, so that a platform's second delivery is
recognised; row numbers, so that no id is given twice; and the sums of what was spent.
"""

from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Literal

from msgspec import Struct

from finclaw.errors import ConfigError
from finclaw.ids import identity, parts_of
from finclaw.kernel.chunk import Usage
from finclaw.kernel.envelope import Inbound, Outbound
from finclaw.kernel.message import Message, TurnEvent
from finclaw.kernel.scope import Outcome, TurnStatus

InboundState = Literal["received", "running", "joined", "ended"]
OutboxState = Literal["planned", "sending", "sent", "unknown", "dead", "expired", "superseded"]
"""`superseded`: a preview that was not shown, or nobody knows; the answer comes as a message of its own."""
DeliveryState = Literal["none", "pending", "delivered", "dead", "expired"]
CostsBy = Literal["day", "model", "user", "agent"]


class Claim(Struct, frozen=True, kw_only=True):
    """The right to run one turn. `base` is None when the caller's copy of the conversation is current."""

    turn_id: str
    session: str
    inbound_id: str
    epoch: int
    attempt: int
    version: int
    session_started_at: datetime
    base: Sequence[Message] | None
    events: tuple[TurnEvent, ...] = ()
    context: int = 0
    """Tokens of the conversation, as far as they are known from its last turn."""
    reserved: "tuple[Spend, ...]" = ()
    """What the claim's own commit has reserved, for the turn's first model call."""
    beside: "tuple[Spend, ...]" = ()
    """Calls of this turn in earlier processes that its log does not tell of, such as interrupted ones. All are in the
    books.
    """
    booked: bool = True
    """What the log does tell of is in the books; it is not where an older release has written the log."""
    items: "tuple[OutboxItem, ...]" = ()
    """What the turn has appended to the outbox in earlier processes: a person has seen it, or will."""
    joined: "tuple[Accepted, ...]" = ()
    """Messages that joined the turn in earlier processes and that its model has seen: it answers them too."""

    @property
    def resumed(self) -> bool:
        return self.attempt > 1


class ClaimOnAccept(Struct, frozen=True):
    """Asked for with an acceptance: if nothing of the session is unfinished, the same commit claims the turn.

    `known_version` is that of the caller's copy of the conversation, if it has one.
    """

    known_version: int | None = None
    reserve: "Reserve | None" = None


class StopMark(Struct, frozen=True, omit_defaults=True):
    """A mark on a message that somebody stopped it. It is on disk: a crash does not bring the turn back."""

    reason: str
    told: bool = False
    """Somebody else tells the sender, such as the answer to `/stop`; the message itself says nothing then."""


class Accepted(Struct, frozen=True, kw_only=True):
    """A message that is ours from now on. `ticket` is its place in the session."""

    id: str
    session: str
    ticket: int
    inbound: Inbound
    accepted_at: datetime
    attempts: int = 0
    begun: bool = False
    """Of what a crash left: it was in the pipeline then, in its turn or shortly before."""
    left: bool = False
    """By a process that is no more."""
    duplicate: bool = False
    claim: Claim | None = None
    """Its turn's, if it got a head start. The log is empty then, and begins with what is next committed."""
    items: int = 0  # of what a crash left: outbox items that its turn has appended
    joined_to: str | None = None
    """Of what a crash left: the message whose turn it had joined. That turn answers it, or puts it back."""
    stop: StopMark | None = None
    """Of what a crash left: somebody had stopped it."""


class TextRange(Struct, frozen=True):
    """A part of what the model says in a turn: in which of its answers, from which character on, and the words."""

    answer: int
    start: int
    text: str


class OutboxItem(Struct, frozen=True, kw_only=True):
    """One frozen outbound part. `token` names it to a platform that can recognise a repeat.

    `attempts` counts sends that failed, `doubts` counts crashes after which nobody knows whether it arrived.
    """

    id: str
    session: str
    inbound_id: str
    turn_id: str | None
    seq: int
    channel: str
    account: str
    conversation: str
    outbound: Outbound
    planned_at: datetime
    state: OutboxState = "planned"
    attempts: int = 0
    doubts: int = 0
    platform_id: str | None = None
    span: TextRange | None = None
    """Of an item that was appended while its turn ran: the model's own words that it shows."""
    is_preview: bool = False
    """It shows the beginning of an answer until the answer takes its place. It is tried once and missed by nobody."""
    edits: str | None = None
    """The id of the preview in whose place it is shown, where there is one; without any words it takes it back."""

    @property
    def token(self) -> str:
        return self.id

    @property
    def shows_something(self) -> bool:
        return bool(self.outbound.text or self.outbound.attachments or self.outbound.embeds)

    @property
    def lane(self) -> tuple[str, str, str]:
        """Units for one place are sent one after the other, in the order in which they were planned."""
        return (self.channel, self.account, self.conversation)


class Spend(Struct, frozen=True, kw_only=True):
    """What a turn has cost on one day with one model. Days begin at midnight in the zone of the machine (`TZ`)."""

    day: date
    agent: str
    user: str
    model: str
    calls: int
    usage: Usage
    cost: Decimal
    saved: Decimal
    """By the cache; negative where writing to it cost more than reading from it has saved."""
    interrupted: int = 0
    """Calls among them that a crash or a restart cut off."""
    interrupted_cost: Decimal = Decimal(0)
    """The part of the cost that is an estimate of those."""
    overstated: int = 0
    """Calls among them whose provider reported more than they can have cost; each is booked at its reservation."""


Reserve = Callable[[int], Spend]
"""The most that a turn's first model call may cost, by the tokens of the conversation so far."""


class TurnCalls(Struct, frozen=True, kw_only=True):
    """The model calls of a turn that has not ended, as one of its commits writes them."""

    reserved: tuple[Spend, ...] = ()
    """Calls that may be under way, each at the most that it may cost. Should the process die, they are interrupted."""
    beside: tuple[Spend, ...] = ()
    """See `Claim.beside`."""
    spend: tuple[Spend, ...] = ()


class Cost(Struct, frozen=True, kw_only=True):
    """What one day, model, user or agent has cost."""

    name: str
    calls: int
    usage: Usage
    cost: Decimal
    saved: Decimal
    interrupted: int = 0
    interrupted_cost: Decimal = Decimal(0)
    overstated: int = 0


class Today(Struct, frozen=True, kw_only=True):
    """The agent's day so far and its limit, `budget.agent_day_usd`; None: there is none."""

    day: date
    zone: str
    """In which days begin at midnight."""
    cost: Decimal
    agent_day_usd: Decimal | None


class Finish(Struct, frozen=True, kw_only=True):
    """Everything the end of a turn commits at once: the last events, the fold, the outcome, the units, the spend."""

    turn_id: str
    session: str
    inbound_id: str
    epoch: int
    status: TurnStatus
    steps: int
    events: tuple[TurnEvent, ...]
    outcome: Outcome
    units: tuple[OutboxItem, ...]
    spend: tuple[Spend, ...] = ()
    context: int = 0
    """Tokens of the conversation from here on."""
    joined: "tuple[JoinedOutcome, ...]" = ()
    """Ends of messages that joined the turn. Those that are not named go back to their places in the session; the
    events must have taken their words out."""
    undoes: str = ""
    """The turn whose messages the events take out; its record says so, and what was not sent of it is withdrawn."""
    asks: bool = False  # its sender is to answer; the message is carried over to their next turn
    told: tuple[str, ...] = ()  # ids of messages that were carried over to this turn


class JoinedOutcome(Struct, frozen=True):
    """The end of a message that had joined a turn, with the turn's own."""

    inbound_id: str
    outcome: Outcome


class JoinedMessage(Struct, frozen=True, kw_only=True):
    inbound_id: str
    inbound: Inbound
    accepted_at: datetime
    message_id: str
    """Of its words in the conversation."""


class Blob(Struct, frozen=True):
    """A kept file, named by the SHA-256 of its content. `width` and `height` are those of an image, else 0."""

    sha256: str
    size: int
    media_type: str
    width: int = 0
    height: int = 0


class InboundRecord(Struct, frozen=True, kw_only=True):
    """A message as `GET /api/v1/messages/{id}` tells it."""

    inbound_id: str
    session: str
    channel: str
    account: str
    state: InboundState
    outcome: Outcome | None
    delivery: DeliveryState
    accepted_at: datetime
    attempts: int


class Unsolicited(Struct, frozen=True, kw_only=True):
    """What a session was told without having asked, in order; only what has ended."""

    items: tuple[InboundRecord, ...]
    after: str
    """The place to go on from. It does not pass anything that has not ended, so an item may be told again."""


class TurnRecord(Struct, frozen=True, kw_only=True):
    turn_id: str
    session: str
    inbound_id: str
    status: str
    started_at: datetime
    ended_at: datetime | None
    steps: int
    usage: Usage
    cost: Decimal
    opening: str = ""
    """The first words of the message, to know it by in a list."""


class TurnTrace(Struct, frozen=True, kw_only=True):
    """A recorded turn with everything that `finclaw trace` and `finclaw replay` tell about it.

    `messages` are those the turn added, `before` those it began with. Both are what is left of them: a later turn may
    have shortened the conversation; `whole` says whether all that the turn added is still there.
    """

    record: TurnRecord
    inbound: Inbound
    accepted_at: datetime
    outcome: Outcome | None
    before: tuple[Message, ...]
    messages: tuple[Message, ...]
    whole: bool
    joined: tuple[JoinedMessage, ...] = ()
    """Those that it answered beside the one that began it, in the order of their acceptance."""


class SessionRecord(Struct, frozen=True, kw_only=True):
    key: str
    created_at: datetime
    updated_at: datetime
    messages: int
    turns: int


class SessionPage(Struct, frozen=True, kw_only=True):
    """The most recent first. `after` asks for the next page; None: there is none."""

    items: tuple[SessionRecord, ...]
    after: str | None = None


class Pruned(Struct, frozen=True, kw_only=True):
    """What retention removed, or would."""

    messages: int
    sessions: int


class Counts(Struct, frozen=True, kw_only=True):
    """The figures of `finclaw status`."""

    sessions: int
    waiting: int
    running: int
    ended: int
    units_pending: int
    dead_letters: int
    units_dead: int


FindingKind = Literal[
    "truncated-json", "duplicate-entry", "orphan-tool-result", "missing-tool-result", "invalid-role-sequence"
]


class IntegrityFinding(Struct, frozen=True):
    """A defect of a stored conversation. `message_id` is empty for a line that could not be read."""

    kind: FindingKind
    message_id: str
    text: str


class SenderId(Struct, frozen=True):
    """One sender of one account on one channel, as `/whoami` shows it: `channel:account:sender`."""

    channel: str
    account: str
    sender: str

    def __str__(self) -> str:
        return identity(self.channel, self.account, self.sender)

    @classmethod
    def parse(cls, text: str) -> "SenderId":
        """Raises ConfigError for a text that names nobody."""
        if text.count(":") < 2 or not all(parts_of(text)):
            raise ConfigError(f"{text!r} names nobody; write CHANNEL:ACCOUNT:SENDER, as /whoami shows it")
        return cls(*parts_of(text))

    @classmethod
    def of(cls, inbound: Inbound) -> "SenderId":
        return cls(inbound.channel, inbound.account, inbound.sender.id)


class Erased(Struct, frozen=True, kw_only=True):
    """What was erased, or would be."""

    sessions: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    """Conversations with others: the person's messages and every answer since are gone, others' messages are not."""
    messages: int = 0
    """Accepted messages whose words are gone."""
    not_searched: tuple[str, ...] = ()
    """Databases of extensions that could not be asked."""


class Erasure(Struct, frozen=True, kw_only=True):
    """What an extension is told to erase: what it keeps of these sessions and, if there is one, of this person."""

    sessions: tuple[str, ...]
    person: SenderId | None = None
    names: tuple[str, ...] = ()
    """Everything by which that person is known: the id under which their data is kept, and all their identities."""


Part = Literal["own", "shared"]
PartOf = Callable[[str], Part | None]
"""What a session's key says about a person's part in it: their own conversation, one that others may share, or none."""
