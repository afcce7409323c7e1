"""Rooms in which two people write while a turn runs: many rooms in one gateway, each with its own random interleaving.

`busy_checks.py` judges what became of the messages.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal, get_args
from zlib import crc32

from tests.walks.house import TRUSTING, Gateway, House
from tests.walks.tools import Desk

from finclaw.approvals.people import PersonSettings
from finclaw.approvals.settings import ApprovalSettings
from finclaw.kernel.chunk import ModelRequest
from finclaw.kernel.context import current_turn
from finclaw.kernel.envelope import Capabilities, QueueMode, TurnOptions
from finclaw.kernel.event import ApprovalChanged, Event, MessageEnded
from finclaw.kernel.port import ToolScope
from finclaw.kernel.record import Accepted
from finclaw.pipeline.settings import PipelineSettings, PoolSettings
from finclaw.policy.condition import Condition
from finclaw.policy.rule import Rule
from finclaw.sessions.lane import WaitingMode
from finclaw.sessions.settings import QueueSettings, SessionSettings
from finclaw.testing import Reply, call, delay, reply

MESSAGES = 20
WAITING_MODES: tuple[WaitingMode, ...] = get_args(WaitingMode)
BusyMode = QueueMode | Literal["mixed"]
"""A mode by the settings; `mixed`: each message has one of its own."""
Moment = Literal["waiting", "asked", "tool", "answering", "answered", "approval"]
"""Where the first turn of a room is: not begun, its model asked, its tool running, its model asked again, answered, or
waiting for a person."""


@dataclass(frozen=True)
class Phase:
    """A phase of a turn: the seconds in which others write, and where the turn may be when they begin to.

    The first turn asks its model at 0 (before the claim: at 1 or later), runs its tool from 2 to 4 and streams its
    answer from 5.0 to 5.4.
    """

    begin: float
    end: float
    moments: tuple[Moment, ...]


PHASES = {
    "before the claim": Phase(0.0, 0.95, ("waiting",)),
    "waiting for the model": Phase(0.05, 1.9, ("asked",)),
    "before a tool": Phase(1.95, 2.0, ("asked", "tool")),
    "in a tool": Phase(2.05, 3.9, ("tool",)),
    "between steps": Phase(3.95, 4.05, ("tool", "answering")),
    "streaming": Phase(5.0, 5.35, ("answering",)),
    "awaiting approval": Phase(2.05, 6.0, ("approval",)),
    "delivering": Phase(5.45, 8.0, ("answered",)),
}
SEATS = 10
"""Turns that run at once where rooms wait for a seat before their first claim; somebody else has all seats until 1."""


def spell(number: int) -> str:
    """A number in letters: figures in answers are checked, which is not what this is about."""
    high, low = divmod(number, 26)
    return (spell(high - 1) if high else "") + chr(ord("a") + low)


@dataclass
class Room:
    """A group, or in a direct chat one person, and what was written there."""

    name: str
    dice: Random
    is_direct: bool = False
    accepted: list[Accepted] = field(default_factory=list[Accepted])
    commands: list[Accepted] = field(default_factory=list[Accepted])
    moment: Moment = "waiting"
    moment_of_first: Moment | None = None
    approval: str = ""
    decision: Literal["approve", "deny", ""] = ""

    @property
    def ada(self) -> str:
        return f"ada-{self.name}"

    @property
    def grace(self) -> str:
        return f"grace-{self.name}"

    def fields(self, sender: str) -> dict[str, Any]:
        if self.is_direct:
            return {"sender": self.ada, "conversation": self.ada}
        return {"sender": sender, "chat_type": "group", "conversation": self.name, "mentions_us": True}


@dataclass
class Asked:
    """A request to the model: in which turn, with which words of persons since the last answer, and what it said."""

    turn_id: str
    users: tuple[str, ...]
    said: str = ""
    """Of the request that ended the turn: words by which its answer is told from all others."""


class Model:
    """The model of all rooms. Its answer is a word that stands for the turn; what it has read is noted."""

    def __init__(self, rooms: Sequence[Room]) -> None:
        self._rooms = {room.name: room for room in rooms}
        self.asked: list[Asked] = []
        self.by_turn: dict[str, list[Asked]] = {}

    def find_room(self, text: str) -> Room | None:
        return self._rooms.get(text.split(".", maxsplit=1)[0])

    def __call__(self, request: ModelRequest) -> Reply:
        users, used = list[str](), False
        for message in reversed(request.messages):
            if message.role == "assistant" and not message.tool_calls:
                break
            used = used or bool(message.tool_calls)
            users += [message.text] if message.source.kind == "user" else []
        users.reverse()
        asked = Asked(current_turn.get() or "", tuple(users))
        self.asked.append(asked)
        self.by_turn.setdefault(asked.turn_id, []).append(asked)
        said = f"answer-{spell(len(self.asked))}"
        if not users or (room := self.find_room(users[0])) is None:
            asked.said = said
            return reply(delay(1), said)
        is_first = users[0].endswith("first")
        if is_first:
            room.moment = "answering" if used else "asked"
        if not used and (name := self._choose_tool(room, users, is_first=is_first)):
            return reply(delay(2), call(name, {"text": " ".join(users)}))
        asked.said = f"{said} indeed" if is_first else said
        return reply(delay(1), *[f"{word} " for word in asked.said.split()], pace=0.1 if is_first else 0.0)

    @staticmethod
    def _choose_tool(room: Room, users: list[str], *, is_first: bool) -> str:
        if is_first:
            return "pay" if room.approval else "look"
        return {0: "look", 1: "vault"}.get(crc32(users[-1].encode()) % 8, "")


class BusyRooms:
    """Rooms in one gateway whose people all write in one phase of their first turn, in one queue mode."""

    def __init__(self, house: House, mode: BusyMode, phase: str, seeds: range) -> None:
        self.house, self.phase = house, phase
        self.mode: BusyMode = mode
        self.rooms = [
            # Only in direct chats `auto` does anything but queue.
            Room(spell(seed), Random(f"{mode} {phase} {seed}"), is_direct=mode == "auto" and seed % 2 == 1)
            for seed in seeds
        ]
        self.model = Model(self.rooms)
        self.desk = Desk()
        self._by_first: dict[str, Room] = {}
        if phase == "awaiting approval":
            for room in self.rooms:
                room.approval = "wanted"
                room.decision = room.dice.choice(("approve", "deny", ""))

    @asynccontextmanager
    async def run(self) -> AsyncGenerator[Gateway]:
        """The gateway, once everybody has written and everything has ended."""
        desk, graces = self.desk, tuple(f"memory:{room.grace}" for room in self.rooms)
        seats = SEATS if self.phase == "before the claim" else 256
        async with self.house.open(
            self.model,
            tools=[desk.tool("look", self._look), desk.tool("vault"), desk.tool("pay", transactional=True)],
            sessions=SessionSettings(queue=QueueSettings(mode="auto" if self.mode == "mixed" else self.mode)),
            pipeline=PipelineSettings(pools=PoolSettings(main=seats)),
            rules=(*TRUSTING, Rule("vault", "deny", "user", graces, (Condition(path="text", op="ne", value=""),))),
            people=[_make_approver(room.ada) for room in self.rooms],
            approvals=ApprovalSettings(most_per_approver=1_000),
            consent=None,
            capabilities=Capabilities(),
        ) as gateway:
            gateway.app.observe(self._observe)
            if self.phase == "before the claim":
                for number in range(SEATS):
                    await gateway.channel.write("wait", sender=f"zoe-{spell(number)}", conversation=f"zoe{number}")
            if self.phase == "delivering":
                gateway.channel.hold_sends()
            async with asyncio.TaskGroup() as tasks:
                for room in self.rooms:
                    tasks.create_task(self._converse(gateway, room, tasks))
            gateway.channel.release_sends()
            await gateway.app.idle()
            yield gateway

    def _observe(self, event: Event) -> None:
        room = self._by_first.get(event.inbound_id)
        if room is None:
            return
        if isinstance(event, ApprovalChanged) and event.change == "asked":
            room.approval = event.approval_id
        if isinstance(event, MessageEnded):
            room.moment = "approval" if room.approval else "answered"

    def list_runs(self, room: Room) -> list[tuple[str, str, ToolScope]]:
        """The tools that ran for a room: name, text and scope of each."""
        runs = zip(self.desk.runs, self.desk.scopes, strict=True)
        session = room.accepted[0].session
        return [(name, text, scope) for (name, text), scope in runs if scope.session == session]

    async def _look(self, text: str, scope: ToolScope) -> str:
        room = self.model.find_room(text)
        if room is not None and text.split(maxsplit=1)[0].endswith("first"):
            room.moment = "tool"
        await asyncio.sleep(2)
        return "seen"

    async def _converse(self, gateway: Gateway, room: Room, tasks: asyncio.TaskGroup) -> None:
        """The first message begins a turn, and the others are written in this phase of it."""
        phase, loop = PHASES[self.phase], asyncio.get_running_loop()
        start = loop.time()
        text = f"{room.name}.a.first"
        first = await gateway.channel.write(text, message_id=text, **room.fields(room.ada))
        room.accepted.append(first)
        self._by_first[first.id] = room
        # On a grid: some come in the very instant in which the turn goes on.
        times = sorted(round(room.dice.uniform(phase.begin, phase.end) * 20) / 20 for _ in range(MESSAGES))
        for number, at in enumerate(times):
            await asyncio.sleep(max(0.0, start + at - loop.time()))
            for _ in range(room.dice.choice((0, 0, 0, 1, 2, 3, 5, 8))):
                await asyncio.sleep(0)
            room.moment_of_first = room.moment_of_first or room.moment
            writing = self._write(gateway, room, room.dice.choice("aag"), number)
            if room.dice.random() < 0.5:
                await writing
            else:
                tasks.create_task(writing)
            if number in (6, 12) and room.approval:
                await self._decide(gateway, room, by=room.grace if number == 6 else room.ada)

    async def _write(self, gateway: Gateway, room: Room, who: str, number: int) -> None:
        text = f"{room.name}.{who}.{spell(number)}"
        fields = room.fields(room.ada if who == "a" else room.grace)
        if self.mode == "mixed":
            fields["wishes"] = TurnOptions(queue=room.dice.choice(WAITING_MODES))
        room.accepted.append(await gateway.channel.write(text, message_id=text, **fields))

    @staticmethod
    async def _decide(gateway: Gateway, room: Room, by: str) -> None:
        """First by one who may not, then by one who may."""
        if room.decision:
            text = f"/{room.decision} {room.approval}"
            room.commands.append(await gateway.channel.write(text, **room.fields(by)))


def _make_approver(sender: str) -> PersonSettings:
    return PersonSettings(name=sender, known_as=(f"memory:local:{sender}",), roles=("approver",))
