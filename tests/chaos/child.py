"""The gateway that is killed: a process of its own, with a scripted model and the channel of the fake platform.

What a message wants is in its text. `n=17` is answered with words that name 17; every third number asks a tool
first, every sixth also moves money, every fifth gets an answer of several units, of which the first ones are delivered
while the model still writes; every fourth brings a picture, some of them the same. `poison` ends the process, and
`early poison` before its turn has begun; `late poison` ends it in the delivery ring, whatever the text that is to be
delivered, and with `--layer-kills` every text does; `slow` is answered after `--slow` seconds.
"""

import asyncio
import re
import signal
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace
from tests.support.loopback import LoopbackChannel

import finclaw
from finclaw import ExtensionApi, Settings, ToolOutput, ToolScope, tool
from finclaw.agent.model.retry import GO_ON
from finclaw.clock import SystemClock
from finclaw.config.schema import StorageSettings
from finclaw.diagnostics.log import start_logging
from finclaw.kernel.chunk import ModelRequest
from finclaw.kernel.envelope import Attachment, Capabilities, Inbound
from finclaw.kernel.port import Accept, Tool
from finclaw.kernel.record import Accepted
from finclaw.pipeline.settings import BlockSettings, PipelineSettings
from finclaw.sessions.settings import QueueSettings, SessionSettings
from finclaw.testing import Reply, ScriptedProvider, arm_from_environment, call, delay, reply, say
from finclaw.testing.crash import die

PACE: Final = 0.002
"""Seconds between two chunks: short, and long enough that a kill may fall between them."""
LONG_PACE: Final = 0.04
"""The same of an answer that goes out in blocks: each waits for the one before it to arrive."""
UNIT: Final = 300
"""Characters in a unit, so that a long answer need not be very long."""


class Look(Struct):
    n: int


class Chaos:
    """The extension and the model's mind. Each piece of work is noted in a file before it is done."""

    name = "chaos"

    def __init__(self, work: Path, slow: float, *, layer_kills: bool = False) -> None:
        self._work = work
        self._slow = slow
        self._layer_kills = layer_kills

    def register(self, api: ExtensionApi) -> None:
        @tool("chaos__look", "Look up a number.", group="finance")
        async def look(args: Look, scope: ToolScope) -> ToolOutput:
            self._note("tool", args.n)
            await asyncio.sleep(PACE)
            return ToolOutput(f"seen {args.n}")

        @tool("chaos__order", "Move money.", transactional=True)
        async def order(args: Look, scope: ToolScope) -> ToolOutput:
            self._note("order", args.n)
            await asyncio.sleep(PACE)
            return ToolOutput(f"ordered {args.n}")

        async def die_early(ctx: Any) -> Any:
            if "early poison" in ctx.inbound.text:
                die("early poison")
            return await ctx.next()

        async def die_late(ctx: Any) -> Any:
            if self._layer_kills or "late poison" in ctx.inbound.text:
                die("late poison")
            return await ctx.next()

        api.pipeline.register("message", die_early)
        api.pipeline.register("delivery", die_late)
        if self._layer_kills:
            api.visible.check(lambda _: die("a check"))
        api.tools.register(look)
        api.tools.register(order)

    def answer(self, request: ModelRequest) -> Reply:
        """What the model says to the last message, judged by nothing but the conversation it is given."""
        asked = next(
            message.text for message in reversed(request.messages) if message.role == "user" and message.text != GO_ON
        )
        if "poison" in asked.replace("late poison", ""):
            die("poison")
        n = int(found.group(1)) if (found := re.search(r"\bn=(\d+)", asked)) else 0
        self._note("model", n)
        if "slow" in asked:
            return reply(delay(self._slow), say(words(n)))
        if n % 3 == 0 and not request.messages[-1].tool_results and request.messages[-1].text != GO_ON:
            order = [call("chaos__order", {"n": n}, id=f"order-{n}")] if n % 6 == 0 else []
            return reply(call("chaos__look", {"n": n}, id=f"look-{n}", deltas=2), *order, pace=PACE)
        rest = words(n)
        if request.messages[-1].text == GO_ON:  # the person has seen the beginning before the last gateway died
            self._note("resumed", n)
            rest = rest.removeprefix(request.messages[-2].text)
        return reply(say(rest, chunks=6), pace=LONG_PACE if len(rest) > UNIT else PACE)

    def _note(self, what: str, n: int) -> None:
        with self._work.open("a") as notes:
            notes.write(f"{what} {n}\n")


def words(n: int) -> str:
    """The answer to message `n`. Its first and its last words name the number, however it is split."""
    filling = " ".join(f"line {line} of {n}." for line in range(60)) if n % 5 == 0 else "is all there is to say."
    return f"<{n} {filling} {n}>"


def picture(salt: int) -> bytes:
    """The first bytes of a PNG of one pixel, which is all that anybody reads of it here."""
    return b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1%d" % salt


class PictureChannel(LoopbackChannel):
    """The channel with an attachment on some messages, whose content is kept before its message is accepted."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.app: asyncio.Future[finclaw.App] = asyncio.get_running_loop().create_future()

    async def receive(self, accept: Accept) -> None:
        in_order = asyncio.Lock()  # whoever waits for a picture must not be overtaken

        async def accept_with_picture(inbound: Inbound) -> Accepted:
            async with in_order:
                return await accept(await with_picture(inbound))

        async def with_picture(inbound: Inbound) -> Inbound:
            found = re.search(r"\bn=(\d+)", inbound.text)
            if found is None or int(found.group(1)) % 4:
                return inbound
            blob = await (await self.app).put_blob(picture(int(found.group(1)) // 8))
            attached = Attachment(id="picture", kind="image", mime=blob.media_type, blob=blob.sha256)
            return replace(inbound, attachments=(attached,))

        await super().receive(accept_with_picture)


async def always(tool: Tool, args: Mapping[str, Any], scope: ToolScope) -> bool:
    return True


async def serve(args: Namespace) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    loop.add_signal_handler(signal.SIGUSR1, arm_from_environment)
    clock, chaos = SystemClock(), Chaos(args.work, args.slow, layer_kills=args.layer_kills)
    edits: bool = args.edits
    capabilities = Capabilities(max_length=UNIT, idempotent=args.idempotent, edits=edits, blocks=not edits)
    channel = PictureChannel(args.url, clock, capabilities=capabilities, pause=0.01)
    gateway = finclaw.build(
        Settings(
            state=args.state,
            pipeline=PipelineSettings(max_attempts=args.max_attempts, blocks=BlockSettings(shortest=200, longest=300)),
            storage=StorageSettings(kind=args.storage),
            sessions=SessionSettings(queue=QueueSettings(mode="followup", cap=1_000)),
        ),
        channels=[channel],
        provider=ScriptedProvider(chaos.answer, clock=clock),
        extensions=[chaos],
        consent=always,
    )
    async with gateway as app:
        channel.app.set_result(app)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await stop.wait()


def main() -> None:
    parser = ArgumentParser()
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--url", required=True)
    parser.add_argument("--storage", choices=("sqlite", "jsonl"), default="sqlite")
    parser.add_argument("--idempotent", action="store_true")
    parser.add_argument("--edits", action="store_true", help="show answers in a message that is edited, not in blocks")
    parser.add_argument("--max-attempts", type=int, default=3)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--slow", type=float, default=0.0)
    parser.add_argument("--layer-kills", action="store_true", help="a delivery layer dies of every text")
    parser.add_argument("--arm-later", action="store_true", help="arm the crash point at SIGUSR1, not at the start")
    args = parser.parse_args()
    start_logging("warning")
    if not args.arm_later:
        arm_from_environment()
    asyncio.run(serve(args))


if __name__ == "__main__":
    main()
