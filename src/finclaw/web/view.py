"""Request and response bodies for messages, turns, costs, sessions and persons. The API and the command line share
these shapes, such as that of `finclaw ask --json`."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Annotated, Any

from msgspec import Meta, Struct

from finclaw.gateway import PersonRecord, QueuedMessage, UnreachableChat
from finclaw.kernel.chunk import Usage
from finclaw.kernel.fact import Fact
from finclaw.kernel.message import Message
from finclaw.kernel.record import (
    Cost,
    CostsBy,
    Counts,
    DeliveryState,
    InboundRecord,
    InboundState,
    IntegrityFinding,
    Today,
    TurnRecord,
)
from finclaw.kernel.scope import OutcomeKind, ToolUse


class OutcomeView(Struct, frozen=True, kw_only=True):
    """The end of a message; all fields are empty while it has none."""

    outcome: OutcomeKind | None = None
    reason: str = ""
    reply: str | None = None
    is_markdown: bool = False
    turn_id: str | None = None
    stages_executed: tuple[str, ...] = ()
    tools: tuple[ToolUse, ...] = ()
    facts: tuple[Fact, ...] = ()
    usage: Usage = Usage()
    cost: Decimal = Decimal(0)
    duration_ms: float = 0.0
    model: str = ""


class MessageView(OutcomeView, frozen=True, kw_only=True):
    inbound_id: str
    session: str
    state: InboundState
    delivery: DeliveryState


class UnsolicitedView(Struct, frozen=True):
    """Messages that the gateway sent unsolicited, and the place up to which they go."""

    items: tuple[MessageView, ...]
    after: str


class AcceptedView(Struct, frozen=True):
    inbound_id: str
    duplicate: bool


class TurnsView(Struct, frozen=True):
    items: Sequence[TurnRecord]


class CostsView(Struct, frozen=True, kw_only=True):
    """Costs by day, model, person or agent.

    What the cache saved may be negative: writing to it costs, too. `interrupted` are calls that were cut off by a crash
    or a restart; what is estimated of them, `interrupted_cost`, is part of the cost. `overstated` are calls whose
    provider reported more than they can have cost; at most their reservation is booked.
    """

    days: int
    by: CostsBy
    items: Sequence[Cost]
    total: Cost
    hit_rate: float = 0.0
    """Of all of them: the part of what was asked that came from the cache."""
    today: Today | None = None


def costs_view(days: int, by: CostsBy, items: Sequence[Cost], today: Today | None = None) -> CostsView:
    total = Cost(
        name="total",
        calls=sum(each.calls for each in items),
        usage=sum((each.usage for each in items), Usage()),
        cost=sum((each.cost for each in items), Decimal(0)),
        saved=sum((each.saved for each in items), Decimal(0)),
        interrupted=sum(each.interrupted for each in items),
        interrupted_cost=sum((each.interrupted_cost for each in items), Decimal(0)),
        overstated=sum(each.overstated for each in items),
    )
    hit_rate = round(total.usage.hit_rate, 4)
    return CostsView(days=days, by=by, items=items, total=total, hit_rate=hit_rate, today=today)


class StatusView(Struct, frozen=True, kw_only=True):
    ready: bool
    problem: str = ""
    """Why nothing can be recorded."""
    market: str
    model: str = ""
    counts: Counts
    commands: tuple[str, ...] = ()
    """What may follow the command prefix."""
    unreachable: tuple[UnreachableChat, ...] = ()


def message_view(record: InboundRecord, running_turn: str | None = None) -> MessageView:
    """`running_turn` is the turn of a message that has not ended yet."""
    fields: dict[str, Any] = {"turn_id": running_turn}
    if record.outcome is not None:
        fields = {name: getattr(record.outcome, name) for name in OutcomeView.__struct_fields__[1:]}
        fields["outcome"] = record.outcome.kind
    return MessageView(
        inbound_id=record.inbound_id,
        session=record.session,
        state=record.state,
        delivery=record.delivery,
        **fields,
    )


Key = Annotated[str, Meta(pattern=r"\A[!-~]{1,4000}\Z")]
"""As sessions are named: whatever is not ASCII, or means something in a key, is percent-encoded."""


class ForkBody(Struct, frozen=True, forbid_unknown_fields=True):
    into: Key


class RepairBody(Struct, frozen=True, forbid_unknown_fields=True):
    dry_run: bool = False


class PruneBody(Struct, frozen=True, forbid_unknown_fields=True):
    older_than_days: Annotated[int, Meta(ge=1, le=100_000)]
    dry_run: bool = False


class ForgetBody(Struct, frozen=True, forbid_unknown_fields=True):
    person: Annotated[str, Meta(min_length=5, max_length=1_000)]
    """`channel:account:sender`, as `/whoami` shows it."""
    dry_run: bool = False


class QueueView(Struct, frozen=True):
    session: str
    items: Sequence[QueuedMessage]
    """The message that is being answered, then those that wait, in order."""


class BackupView(Struct, frozen=True):
    directory: str
    """In the state directory; it holds a copy of the database and of all conversations."""


class MessagesView(Struct, frozen=True):
    session: str
    items: Sequence[Message]
    after: str | None


class SessionView(Struct, frozen=True):
    session: str
    messages: int


class RepairView(Struct, frozen=True):
    session: str
    findings: Sequence[IntegrityFinding]
    dry_run: bool


class PrunedView(Struct, frozen=True, kw_only=True):
    messages: int
    sessions: int
    older_than_days: int
    """What counted, which may be more than what was asked for."""
    dry_run: bool


class PeopleView(Struct, frozen=True):
    items: Sequence[PersonRecord]


class PersonBody(Struct, frozen=True, forbid_unknown_fields=True):
    who: Annotated[str, Meta(min_length=1, max_length=1_000)]
    """An identity, an id, or a name that only one person has."""
    fields: dict[str, Annotated[str, Meta(max_length=200)]]
    """Such as `{"timezone": "Asia/Seoul"}`; an empty value is taken back."""
