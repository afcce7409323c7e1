"""Random lives of a conversation: turns with every kind of event, and resets; what becomes of them on any store."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st
from msgspec.structs import replace
from tests.ports.nouns import ended, ending, nobody, nothing, said, written

from finclaw.kernel.message import Append, Message, Patch, Remove, Replace, ToolStarted, Truncate, TurnEvent
from finclaw.kernel.record import ClaimOnAccept
from finclaw.kernel.store_port import Store
from finclaw.transcript.conversation import Conversation

Wish = tuple[str, int]
"""What an event should do, and to which message, counted round."""
Fate = str

KINDS = (
    "append",
    "append",
    "append",
    "own",
    "replace",
    "rename",
    "remove",
    "truncate",
    "patch",
    "passing",
    "tool",
    "miss",
)

wishes = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 7)), max_size=4)
lives = st.lists(
    st.tuples(
        st.sampled_from(("finish", "finish", "finish", "end", "reset")), st.lists(wishes, min_size=1, max_size=3)
    ),
    min_size=1,
    max_size=5,
)


@dataclass
class Turn:
    """One message: its events as they are committed, and how it ends."""

    id: str
    fate: Fate
    batches: list[list[TurnEvent]]

    @property
    def places(self) -> list[int]:
        """The sequence numbers at which a log may end."""
        total, places = 0, [0]
        for batch in self.batches[:-1]:
            total += len(batch)
            places.append(total)
        return places


@dataclass
class Story:
    """A life, worked out: its turns, and what the conversation must be after each."""

    turns: list[Turn] = field(default_factory=list[Turn])
    after: list[tuple[Message, ...]] = field(default_factory=list[tuple[Message, ...]])


def work_out(life: Sequence[tuple[Fate, list[list[Wish]]]]) -> Story:
    story, base, count = Story(), tuple[Message, ...](), 0
    for number, (fate, batches) in enumerate(life):
        conversation = Conversation(base)
        turn = Turn(f"m{number}", fate, [])
        for place, batch in enumerate(batches):
            known = len(conversation.events)
            if place == 0:
                conversation.push(Append(said(f"q{number}")))
            for kind, which in batch:
                count += 1
                _push(conversation, kind, which, f"x{count}")
            missing = [Remove("nobody at all") for kind, _ in batch if kind == "miss"]
            turn.batches.append([*conversation.events[known:], *missing])
        base = {"finish": tuple(conversation.lasting_messages), "end": base, "reset": ()}[fate]
        story.turns.append(turn)
        story.after.append(base)
    return story


def _push(conversation: Conversation, kind: str, which: int, name: str) -> None:
    there = [message for message in conversation.next_messages if not message.passing] or [said("nobody")]
    target = there[-1] if kind == "own" else there[which % len(there)]
    event: TurnEvent
    match kind:
        case "append":
            event = Append(said(name, f"text {name} " * (which * 40 + 1)))
        case "own" | "replace":
            event = Replace(target.id, replace(target, blocks=said(name, f"changed {name}").blocks))
        case "rename":
            event = Replace(target.id, replace(target, id=name))
        case "remove":
            event = Remove(target.id)
        case "truncate":
            event = Truncate(which)
        case "patch":
            event = Patch(target.id, {name: which})
        case "passing":
            event = Append(replace(said(name), passing=f"key {which % 2}"))
        case "tool":
            event = ToolStarted(name, "quote")
        case _:
            return
    conversation.push(event)


async def live(store: Store, turn: Turn, session: str = "s") -> None:
    """Do all of it, or what an earlier try has left to do."""
    claim_on_accept = ClaimOnAccept() if turn.id.endswith(("1", "3", "5", "7", "9")) else None
    accepted = await store.accept(written(id=turn.id), session, nobody, claim_on_accept)
    record = await store.find(accepted.id)
    if record is not None and record.outcome is None:
        first = turn.batches[0] if len(turn.batches) > 1 else []
        claim = accepted.claim or await store.claim(accepted, first, None)
        log = [event for batch in turn.batches[:-1] for event in batch]
        assert len(claim.events) in turn.places, "a commit was kept in part"
        assert list(claim.events) == log[: len(claim.events)]
        for place, batch in zip(turn.places[:-1], turn.batches[:-1], strict=True):
            if place >= len(claim.events) and batch:
                await store.record(claim, place, batch, nothing)
        if turn.fate == "finish":
            assert await store.finish(ending(store, accepted, claim, "ok", events=turn.batches[-1]), nothing)
        else:
            assert await store.end(accepted.id, ended("stopped"), (), nothing)
    if turn.fate == "reset":
        await store.reset(session)
