"""The checks of busy rooms: each message one end, in the order of tickets, in one turn of its own sender's."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, takewhile

from tests.walks.busy_rooms import PHASES, BusyMode, BusyRooms, Room
from tests.walks.house import Gateway

from finclaw.kernel.approval import Approval
from finclaw.kernel.event import MessageEnded
from finclaw.kernel.message import Message
from finclaw.kernel.record import Accepted
from finclaw.kernel.scope import Outcome
from finclaw.sessions.waiting import INTERRUPTED, PASSED_OVER
from finclaw.testing.channel import Sent

INTERRUPTION = "Stopped: your newer message comes first."
JOINING: tuple[BusyMode, ...] = ("steer", "steer-backlog", "collect")
ALL_WAIT = ("before the claim", "waiting for the model", "before a tool", "in a tool", "between steps", "streaming")
"""Phases in which all twenty messages are there before the first turn ends."""


@dataclass
class Ended:
    """A message with its end."""

    accepted: Accepted
    outcome: Outcome

    @property
    def text(self) -> str:
        return self.accepted.inbound.text

    @property
    def sender(self) -> str:
        return self.accepted.inbound.sender.id


@dataclass
class Turn:
    """Messages that one turn has ended, in the order of their tickets."""

    id: str
    members: list[Ended]

    @property
    def texts(self) -> list[str]:
        return [each.text for each in self.members]

    @property
    def interrupts(self) -> bool:
        wishes = (each.accepted.inbound.wishes for each in self.members)
        return any(each is not None and each.queue == "interrupt" for each in wishes)

    @property
    def answered(self) -> list[Ended]:
        return [each for each in self.members if each.outcome.kind == "answered"]


async def find_faults(rooms: BusyRooms, gateway: Gateway) -> list[str]:
    """Every broken promise, each with its room. Empty: all were kept."""
    ends = Counter(event.inbound_id for event in gateway.events if isinstance(event, MessageEnded))
    sent: dict[str, list[Sent]] = {}
    for each in gateway.channel.sent:
        sent.setdefault(each.unit.session, []).append(each)
    faults, joined = list[str](), 0
    for room in rooms.rooms:
        approval = await gateway.app.approval(room.approval) if room.approval else None
        messages = await gateway.app.messages(room.accepted[0].session)
        check = RoomCheck(rooms, room, await _find_ends(gateway, room.accepted), approval)
        if rooms.mode == "mixed":
            check.order_turns(messages)
        joined += sum(each.outcome.kind == "joined" for each in check.ends)
        session = room.accepted[0].session
        found = [
            *check.check_ends(ends),
            *check.check_turns(),
            *check.check_partition(),
            *check.check_conversation(messages),
            *check.check_answers(sent.get(session, [])),
            *check.check_tools(),
            *check.check_decision(),
        ]
        if gateway.app.queue(session):
            found.append("something is left in the lane")
        faults += [f"room {room.name}: {each}" for each in found]
    may_join = rooms.mode in (*JOINING, "auto", "mixed")
    if may_join != bool(joined):
        faults.append(f"{joined} messages have joined a turn in all rooms")
    return faults


async def _find_ends(gateway: Gateway, accepted: Sequence[Accepted]) -> list[Ended]:
    outcomes = await asyncio.gather(*[gateway.outcome(each) for each in accepted])
    ends = [Ended(*each) for each in zip(accepted, outcomes, strict=True)]
    return sorted(ends, key=lambda each: each.accepted.ticket)


class RoomCheck:
    """The checks of one room."""

    def __init__(self, rooms: BusyRooms, room: Room, ends: list[Ended], approval: Approval | None) -> None:
        self.rooms = rooms
        self.room = room
        self.approval = approval
        self.ends = ends
        turns: dict[str, Turn] = {}
        for each in ends:
            turn_id = each.outcome.turn_id or ""
            turns.setdefault(turn_id, Turn(turn_id, [])).members.append(each)
        self.turns = turns
        """In the order of the first ticket of each."""

    def order_turns(self, messages: Sequence[Message]) -> None:
        """Put the turns in the order of the conversation: where modes are mixed, some pass earlier tickets."""
        order = {each.text: place for place, each in enumerate(messages) if each.source.kind == "user"}
        last = len(messages)
        for turn in self.turns.values():
            turn.members.sort(key=lambda each: order.get(each.text, last))
        turns = sorted(self.turns.values(), key=lambda turn: order.get(turn.texts[0], last))
        self.turns = {turn.id: turn for turn in turns}

    def check_ends(self, ends: Counter[str]) -> Iterator[str]:
        """Every message has exactly one end, and one that its mode knows."""
        allowed = {"interrupt": ("answered", "stopped"), "mixed": ("answered", "joined", "stopped")}
        kinds = allowed.get(self.rooms.mode, ("answered", "joined"))
        for each in self.ends:
            if each.outcome.kind not in kinds:
                yield f"{each.text} ended as {each.outcome.kind}: {each.outcome.reason}"
            if (times := ends[each.accepted.id]) != 1:
                yield f"the end of {each.text} was told {times} times"
        if self.room.moment_of_first not in PHASES[self.rooms.phase].moments:
            yield f"the first turn was not where it should be, but: {self.room.moment_of_first}"

    def check_turns(self) -> Iterator[str]:
        """A turn is one person's, overtakes nobody, answers one message and names it to those that joined it."""
        for turn in self.turns.values():
            if not turn.id:
                yield f"ended in no turn: {turn.texts}"
            if len({each.sender for each in turn.members}) != 1:
                yield f"merged across people: {turn.texts}"
            is_stopped = all(each.outcome.kind == "stopped" for each in turn.members)
            if len(turn.members) > 1 and len(turn.answered) != 1 and not is_stopped:
                yield f"{len(turn.answered)} of a turn are answered: {turn.texts}"
            for each in turn.members:
                named = any(other.accepted.id in each.outcome.reason for other in turn.answered)
                if each.outcome.kind == "joined" and not named:
                    yield f"{each.text} does not tell with which message it was answered: {each.outcome.reason}"
        yield from self._check_order()
        yield from self._check_stops()

    def _check_order(self) -> Iterator[str]:
        """A turn comes before an earlier ticket only where it interrupts, and then only before its own sender's."""
        earlier = list[tuple[Ended, Turn]]()
        for turn in self.turns.values():
            for each in turn.members:
                for other, before in earlier:
                    if other.accepted.ticket > each.accepted.ticket and not (
                        self.rooms.mode == "mixed" and other.sender == each.sender and before.interrupts
                    ):
                        yield f"{other.text} has overtaken {each.text}"
                earlier.append((each, turn))

    def _check_stops(self) -> Iterator[str]:
        """Only a later message of the same person stops a turn, and their last is answered."""
        by_id = {each.accepted.id: each for each in self.ends}
        for each in self.ends:
            if each.outcome.kind != "stopped":
                continue
            reason = each.outcome.reason
            newer = by_id.get(reason.removeprefix(INTERRUPTED).removeprefix(PASSED_OVER))
            if newer is None or newer.sender != each.sender or newer.accepted.ticket <= each.accepted.ticket:
                yield f"{each.text} was stopped by nobody who may: {reason}"
        last = {each.sender: each for each in self.ends}
        for each in last.values():
            if each.outcome.kind == "stopped":
                yield f"the last message of its sender was stopped: {each.text}"

    def check_partition(self) -> Iterator[str]:
        """Which messages share a turn is known, where all wait before the first turn ends."""
        mode, phase = self.rooms.mode, self.rooms.phase
        found = [turn.texts for turn in self.turns.values()]
        if mode in ("followup", "queue", "interrupt") or (mode == "auto" and not self.room.is_direct):
            if any(len(texts) > 1 for texts in found):
                yield f"messages share a turn: {found}"
            return
        if mode not in JOINING or phase not in ALL_WAIT:
            return
        with_first, (least, most) = len(found[0]), self._count_of_first(mode, phase)
        if not least <= with_first <= most:
            yield f"{with_first} messages share the first turn: {[each.text for each in self.ends]}"
        runs = groupby(self.ends[with_first:], key=lambda each: each.sender)
        expected = [[each.text for each in run] for _, run in runs]
        if found[1:] != expected:
            yield f"the turns behind the first are {found[1:]} instead of {expected}"

    def _count_of_first(self, mode: BusyMode, phase: str) -> tuple[int, int]:
        """How many messages share the first turn, at least and at most."""
        if phase == "streaming" or (mode == "collect" and phase != "before the claim"):
            return 1, 1
        own = list(takewhile(lambda each: each.sender == self.room.ada, self.ends))
        boundary = {"before a tool": 2.0, "between steps": 4.0}.get(phase)
        if boundary is None:
            return len(own), len(own)
        start = self.ends[0].accepted.accepted_at
        early = [each for each in own if (each.accepted.accepted_at - start).total_seconds() < boundary - 0.01]
        return len(early), len(own)

    def check_conversation(self, messages: Sequence[Message]) -> Iterator[str]:
        """The conversation has every turn once, in the order of tickets, each with its messages and its answer."""
        turns = iter(self.turns.values())
        senders = {each.text: each.sender for each in self.ends}
        for users, closing in split_turns(messages):
            if not users:  # the gateway's own turn, which runs what was approved
                continue
            turn = next(turns, None)
            texts = [each.text for each in users]
            if turn is None or texts != turn.texts:
                yield f"the conversation has a turn of {texts} where {turn and turn.texts} should be"
                return
            if any(senders[each.text] != each.source.id for each in users):
                yield f"the conversation gives {texts} to another person"
            if turn.answered and closing not in self._answers_of(turn):
                yield f"the conversation answers {texts} with {closing!r}"
        if (left := next(turns, None)) is not None:
            yield f"the conversation lacks {left.texts}"

    def _answers_of(self, turn: Turn) -> list[str]:
        """What the model has said to the whole of a turn, or the card of what it wanted to do."""
        asked = [each for each in self.rooms.model.by_turn.get(turn.id, ()) if list(each.users) == turn.texts]
        said = [each.said for each in asked if each.said]
        is_asked = self.approval is not None and self.approval.turn_id == turn.id
        return [*said, *([self.approval.card] if self.approval is not None and is_asked else [])]

    def check_answers(self, sent: Sequence[Sent]) -> Iterator[str]:
        """People read one answer a turn, in order, with the message that it answers; and nothing else."""
        told = [each for each in sent if each.unit.turn_id in self.turns]
        expected = [
            (turn.id, turn.answered[0].text if turn.answered else "")
            for turn in self.turns.values()
            if turn.answered or not turn.members[0].outcome.reason.startswith(PASSED_OVER)
        ]
        found = [
            (turn.id, each.unit.outbound.reply_to if turn.answered else "")
            for each in told
            if (turn := self.turns[each.unit.turn_id or ""])
        ]
        if found != expected:
            yield f"people read {found} instead of {expected}"
        for each in told:
            turn = self.turns[each.unit.turn_id or ""]
            if each.text not in (self._answers_of(turn) if turn.answered else [INTERRUPTION]):
                yield f"people read {each.text!r} in the turn of {turn.texts}"
        yield from self._check_other_words([each for each in sent if each.unit.turn_id not in self.turns])

    def _check_other_words(self, sent: Sequence[Sent]) -> Iterator[str]:
        """Each command is answered once; what was approved is told of once, and how it ended."""
        told = Counter(each.unit.inbound_id for each in sent)
        for each in self.room.commands:
            if (times := told.pop(each.id, 0)) != 1:
                yield f"{each.inbound.text} was answered {times} times"
        wanted = {"approve": [2], "deny": [], "": []}[self.room.decision]
        if list(told.values()) != wanted:
            yield f"people read words that nobody asked for: {[each.text for each in sent]}"

    def check_tools(self) -> Iterator[str]:
        """A tool runs with the rights of the turn's own sender, and for their words alone."""
        for name, text, scope in self.rooms.list_runs(self.room):
            turn = self.turns.get(scope.turn_id)
            if name == "pay":
                continue
            if turn is None:
                yield f"{name} ran in no turn of the room"
                continue
            if scope.sender.id != turn.members[0].sender:
                yield f"{name} ran for {scope.sender.id} in the turn of {turn.texts}"
            if not set(text.split()) <= set(turn.texts):
                yield f"{name} was given {text} in the turn of {turn.texts}"
            if name == "vault" and scope.sender.id != self.room.ada:
                yield f"vault ran for {turn.texts}, whose sender may not use it"

    def check_decision(self) -> Iterator[str]:
        """What waits for a person is done once, by the word of one who may decide, or not at all."""
        decision, approval = self.room.decision, self.approval
        paid = [scope for name, _, scope in self.rooms.list_runs(self.room) if name == "pay"]
        if len(paid) != (decision == "approve"):
            yield f"paid {len(paid)} times after {decision or 'nobody decided'}"
        if any(scope.sender.id != self.room.ada for scope in paid):
            yield f"paid for another person: {paid}"
        if approval is not None:
            expected = {"approve": "used", "deny": "denied", "": "pending"}[decision]
            by = f"memory:local:{self.room.ada}" if decision else None
            if (approval.state, approval.decided_by) != (expected, by):
                yield f"{approval.state} by {approval.decided_by} after {decision or 'nobody decided'}"


def split_turns(messages: Sequence[Message]) -> Iterator[tuple[list[Message], str]]:
    """The messages of persons of each turn, and the words that end it."""
    users = list[Message]()
    for each in messages:
        if each.source.kind == "user":
            users.append(each)
        if each.role == "assistant" and not each.tool_calls:
            yield users, each.text
            users = []
    if users:
        yield users, ""
