"""The gateway that is killed while people write on: its model names every message that it answers.

A message says `n=7`. One whose number divides by three is looked up first, by a tool that takes its time, so that more
messages join; one that divides by six also moves money. `edit ID n=8` and `delete ID` are what they say, about the
message of that id. Conversations whose names begin with `g` are groups. With `--hold N --hold-in NAME` the tool waits,
in the direct chat of that name, until so many messages wait behind it: then they join, whatever the machine does.
"""

import asyncio
import re
import signal
import sys
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace
from tests.chaos.child import UNIT, always
from tests.support.loopback import LoopbackChannel

import finclaw
from finclaw import ExtensionApi, Settings, ToolOutput, ToolScope, tool
from finclaw.agent.model.retry import GO_ON
from finclaw.clock import SystemClock
from finclaw.config.schema import StorageSettings
from finclaw.diagnostics.log import start_logging
from finclaw.kernel.chunk import ModelRequest
from finclaw.kernel.envelope import Capabilities, Inbound
from finclaw.kernel.event import Event, QueueChanged
from finclaw.kernel.message import Message
from finclaw.kernel.port import Accept
from finclaw.kernel.record import Accepted
from finclaw.pipeline.settings import BlockSettings, PipelineSettings
from finclaw.sessions.settings import QueueSettings, SessionSettings
from finclaw.testing import Reply, ScriptedProvider, arm_from_environment, call, reply, say

PACE: Final = 0.01
"""Seconds between two chunks of an answer."""
TOOL_SECONDS: Final = 0.05
MOST_CALLS: Final = 2
"""Calls of one tool for one message in a turn: one that a newer message has voided is made once more."""

_NUMBER: Final = re.compile(r"\bn=(\d+)")
_REVISION: Final = re.compile(r"(edit|delete) (\S+)\s*(.*)", re.DOTALL)
_LEFT_OUT: Final = "messages of mine were left out"


class Look(Struct):
    n: int


def number_in(text: str) -> int | None:
    """The number of a message, which names it."""
    found = _NUMBER.search(text)
    return None if found is None else int(found[1])


def write_answer(numbers: Sequence[int]) -> str:
    """The answer to these messages. Its first and its last words name them all; some are long."""
    named = "+".join(map(str, numbers))
    filling = " ".join(f"line {line} of {named}." for line in range(30)) if numbers[-1] % 5 == 0 else "is all."
    return f"<{named} {filling} {named}>"


class BusyModel:
    """The extension and the model's mind. Each piece of work is noted in a file before it is done."""

    name = "busy"

    def __init__(self, work: Path, hold: int, hold_in: str) -> None:
        self._work = work
        self._hold, self._hold_in = hold, hold_in
        self._waiting: Counter[str] = Counter()
        """Messages that have come to their place in a session, behind another."""
        self._changed = asyncio.Event()

    def observe(self, event: Event) -> None:
        if isinstance(event, QueueChanged) and event.change == "waiting":
            self._waiting[event.session] += 1
            self._changed.set()

    def register(self, api: ExtensionApi) -> None:
        @tool("busy__look", "Look up a number.", group="finance")
        async def look(args: Look, scope: ToolScope) -> ToolOutput:
            self._note("tool", args.n)
            await asyncio.sleep(TOOL_SECONDS)
            while f":{self._hold_in}+" in scope.session and self._waiting[scope.session] < self._hold:
                self._changed.clear()
                await self._changed.wait()
            return ToolOutput(f"seen {args.n}")

        @tool("busy__order", "Move money.", transactional=True)
        async def order(args: Look, scope: ToolScope) -> ToolOutput:
            self._note("order", args.n)
            await asyncio.sleep(TOOL_SECONDS)
            return ToolOutput(f"ordered {args.n}")

        api.tools.register(look)
        api.tools.register(order)

    def answer(self, request: ModelRequest) -> Reply:
        """What the model says, judged by nothing but the conversation it is given."""
        messages = list(request.messages)
        begun = ""
        if messages[-1].text == GO_ON:  # the person has seen the beginning before the last gateway died
            begun = messages[-2].text
            messages = messages[:-2]
        turn = _messages_of_turn(messages)
        asked = [message.text for message in turn if message.role == "user" and _LEFT_OUT not in message.text]
        numbers = [n for text in asked if (n := number_in(text)) is not None]
        self._note("model", numbers[-1])
        if not begun and request.tools:
            for n in numbers:
                calls = [
                    call(name, {"n": n}, id=f"{name}-{n}-{tries}")
                    for name, every in (("busy__look", 3), ("busy__order", 6))
                    if n % every == 0 and (tries := _count_tries(turn, name, n)) is not None
                ]
                if calls:
                    return reply(*calls, pace=PACE)
        return reply(say(write_answer(numbers).removeprefix(begun), chunks=6), pace=PACE)

    def _note(self, what: str, n: int) -> None:
        with self._work.open("a") as notes:
            notes.write(f"{what} {n}\n")


def _messages_of_turn(messages: Sequence[Message]) -> list[Message]:
    """Those behind the last answer of the conversation."""
    answered = [place for place, each in enumerate(messages) if each.role == "assistant" and not each.tool_calls]
    return list(messages[answered[-1] + 1 if answered else 0 :])


def _count_tries(turn: Sequence[Message], name: str, n: int) -> int | None:
    """How often the turn has called a tool for this message; None: it has done so, or often enough."""
    calls = {each.id for message in turn for each in message.tool_calls if each.name == name and each.args == {"n": n}}
    results = [each for message in turn for each in message.tool_results if each.call_id in calls]
    is_done = len(calls) >= MOST_CALLS or any(each.status != "skipped" for each in results)
    return None if is_done else len(calls)


class BusyChannel(LoopbackChannel):
    """The channel with groups, edits and deletions."""

    async def receive(self, accept: Accept) -> None:
        async def accept_as_meant(inbound: Inbound) -> Accepted:
            return await accept(_read_revision(_in_group(inbound)))

        await super().receive(accept_as_meant)


def _in_group(inbound: Inbound) -> Inbound:
    return replace(inbound, chat_type="group", mentions_us=True) if inbound.conversation.startswith("g") else inbound


def _read_revision(inbound: Inbound) -> Inbound:
    found = _REVISION.fullmatch(inbound.text)
    if found is None:
        return inbound
    kind, target, text = found[1], found[2], found[3]
    return replace(inbound, kind="edit" if kind == "edit" else "delete", target=target, text=text)


async def serve(args: Namespace) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    loop.add_signal_handler(signal.SIGUSR1, arm_from_environment)
    clock, model = SystemClock(), BusyModel(args.work, args.hold, args.hold_in)
    capabilities = Capabilities(max_length=UNIT, blocks=True, debounce_ms=args.debounce, idempotent=args.idempotent)
    channel = BusyChannel(args.url, clock, capabilities=capabilities, pause=0.01)
    gateway = finclaw.build(
        Settings(
            state=args.state,
            pipeline=PipelineSettings(max_attempts=args.max_attempts, blocks=BlockSettings(shortest=200, longest=300)),
            storage=StorageSettings(kind=args.storage),
            sessions=SessionSettings(queue=QueueSettings(mode=args.mode, cap=args.cap)),
        ),
        channels=[channel],
        provider=ScriptedProvider(model.answer, clock=clock),
        extensions=[model],
        consent=always,
    )
    async with gateway as app:
        app.observe(model.observe)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await stop.wait()


def main() -> None:
    modes = ("auto", "followup", "steer", "queue", "collect", "interrupt", "steer-backlog")
    parser = ArgumentParser()
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--url", required=True)
    parser.add_argument("--storage", choices=("sqlite", "jsonl"), default="sqlite")
    parser.add_argument("--mode", choices=modes, default="auto")
    parser.add_argument("--cap", type=int, default=1_000)
    parser.add_argument("--debounce", type=int, default=0, help="milliseconds")
    parser.add_argument("--idempotent", action="store_true")
    parser.add_argument("--max-attempts", type=int, default=3)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--slow", type=float, default=0.0, help="not used here")
    parser.add_argument("--hold", type=int, default=0)
    parser.add_argument("--hold-in", default="")
    parser.add_argument("--arm-later", action="store_true", help="arm the crash point at SIGUSR1, not at the start")
    args = parser.parse_args()
    start_logging("warning")
    if not args.arm_later:
        arm_from_environment()
    asyncio.run(serve(args))


if __name__ == "__main__":
    main()
