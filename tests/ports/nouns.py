"""Messages, turns and answers in few words, for tests of whatever keeps them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal

from finclaw.kernel.chunk import Usage
from finclaw.kernel.envelope import Inbound, Outbound, Sender
from finclaw.kernel.message import Append, Message, Role, Source, Text, ToolCall, ToolResult, ToolStarted, TurnEvent
from finclaw.kernel.record import Accepted, Claim, Finish, OutboxItem
from finclaw.kernel.scope import Outcome, OutcomeKind
from finclaw.kernel.store_port import Store

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def written(text: str = "hello", *, id: str = "1", conversation: str = "room", sender: str = "ada") -> Inbound:
    return Inbound(text=text, channel="memory", message_id=id, conversation=conversation, sender=Sender(sender))


def said(id: str, text: str = "", *, role: Role = "user") -> Message:
    return Message(id, role, (Text(text or id),), Source("assistant" if role == "assistant" else "user"), AT)


def adds(*ids: str, role: Role = "user") -> list[TurnEvent]:
    return [Append(said(id, role=role)) for id in ids]


def tool_step(call: str) -> list[TurnEvent]:
    """What is on disk before a tool runs: the model asked for it, and it is about to start."""
    asked = Message(f"ask-{call}", "assistant", (ToolCall(call, "quote", {"symbol": "AAPL"}),), Source("assistant"), AT)
    return [Append(asked), ToolStarted(call, "quote")]


def tool_answer(call: str) -> list[TurnEvent]:
    told = Message(f"told-{call}", "tool", (ToolResult(call, "quote", "190.50"),), Source("tool"), AT)
    return [Append(told)]


def ended(kind: OutcomeKind = "answered", reply: str | None = "ok") -> Outcome:
    return Outcome(kind=kind, reply=reply, usage=Usage(input=7, output=3), cost=Decimal("0.0125"))


def parts(*texts: str) -> tuple[Outbound, ...]:
    return tuple(Outbound(text=text) for text in texts)


def unit(text: str, number: int = 0) -> OutboxItem:
    return OutboxItem(
        id=f"u-x-{number}-0",
        session="s",
        inbound_id="m-x-1",
        turn_id=None,
        seq=0,
        channel="c",
        account="a",
        conversation="room",
        outbound=Outbound(text=text),
        planned_at=AT,
    )


@dataclass
class Told:
    """A `then` that remembers: what it was given, and by that how often it was called."""

    what: list[Accepted] = field(default_factory=list[Accepted])
    times: int = 0

    def accepted(self, accepted: Accepted) -> None:
        self.times += 1
        self.what.append(accepted)

    def done(self) -> None:
        self.times += 1


def nobody(_: Accepted) -> None:
    """Whoever is told that a message is in, and does not care."""


def nothing() -> None:
    """What follows an end in tests of the end itself."""


def ending(
    store: Store, accepted: Accepted, claim: Claim, *texts: str, events: Sequence[TurnEvent] = (), steps: int = 1
) -> Finish:
    return Finish(
        turn_id=claim.turn_id,
        session=claim.session,
        inbound_id=claim.inbound_id,
        epoch=claim.epoch,
        status="completed",
        steps=steps,
        events=tuple(events),
        outcome=ended(reply=" ".join(texts)),
        units=store.plan(accepted, parts(*texts), claim.turn_id),
    )


async def take(store: Store, inbound: Inbound, session: str = "s") -> Accepted:
    return await store.accept(inbound, session, nobody)


async def begin(store: Store, accepted: Accepted, *, known: int | None = None) -> Claim:
    return await store.claim(accepted, adds(f"q-{accepted.inbound.message_id}"), known)


async def answer(store: Store, accepted: Accepted, *texts: str) -> tuple[OutboxItem, ...]:
    """A whole plain turn; its units, none of them sent yet."""
    claim = await begin(store, accepted)
    reply = adds(f"a-{accepted.inbound.message_id}", role="assistant")
    finish = ending(store, accepted, claim, *(texts or ("ok",)), events=reply)
    assert await store.finish(finish, nothing)
    return finish.units
