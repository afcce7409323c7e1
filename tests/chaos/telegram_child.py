"""The gateway that is killed, on Telegram: the scripted model of `child.py` behind the real channel."""

import asyncio
import signal
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from msgspec.structs import replace
from tests.chaos.child import UNIT, Chaos, always
from tests.chaos.telegram_platform import MARK
from tests.support.telegram.server import TOKEN

import finclaw
from finclaw import Settings
from finclaw.channels.telegram.channel import TelegramChannel
from finclaw.channels.telegram.options import CAPABILITIES
from finclaw.clock import SystemClock
from finclaw.diagnostics.log import start_logging
from finclaw.kernel.envelope import Receipt
from finclaw.kernel.port import ChannelSpec
from finclaw.kernel.record import OutboxItem
from finclaw.pipeline.settings import BlockSettings, PipelineSettings
from finclaw.redaction import Secret
from finclaw.sessions.settings import QueueSettings, SessionSettings
from finclaw.testing import ScriptedProvider, arm_from_environment

QUICK = {"messages_per_second": 1_000, "messages_per_second_in_chat": 1_000}


class MarkedTelegram(TelegramChannel):
    """The channel, which writes the name of the item behind its words: Telegram itself knows no such names."""

    capabilities = replace(CAPABILITIES, debounce_ms=0, max_length=UNIT, blocks=True, edits=False)

    async def send(self, unit: OutboxItem) -> Receipt:
        return await super().send(_mark(unit))

    async def edit(self, platform_id: str, unit: OutboxItem) -> None:
        await super().edit(platform_id, _mark(unit))


class EditingTelegram(MarkedTelegram):
    """The same as people have it: an answer grows in one message while it is being written."""

    capabilities = replace(CAPABILITIES, debounce_ms=0, max_length=UNIT)


def _mark(unit: OutboxItem) -> OutboxItem:
    was, mark = unit.outbound, f"{MARK}{unit.token}"
    rendered = None if was.rendered is None else was.rendered + mark
    plain = None if was.plain is None else was.plain + mark
    return replace(unit, outbound=replace(was, text=was.text + mark, rendered=rendered, plain=plain))


async def serve(args: Namespace) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    loop.add_signal_handler(signal.SIGUSR1, arm_from_environment)
    clock, chaos = SystemClock(), Chaos(args.work, args.slow)
    secrets = {"token": Secret(TOKEN)}
    spec = ChannelSpec(
        name="telegram", account="bot", secrets=secrets, settings={"api": args.url, **QUICK}, clock=clock
    )
    gateway = finclaw.build(
        Settings(
            state=args.state,
            pipeline=PipelineSettings(max_attempts=args.max_attempts, blocks=BlockSettings(shortest=200, longest=300)),
            sessions=SessionSettings(queue=QueueSettings(mode="followup", cap=1_000)),
        ),
        channels=[(EditingTelegram if args.edits else MarkedTelegram)(spec)],
        provider=ScriptedProvider(chaos.answer, clock=clock),
        extensions=[chaos],
        consent=always,
    )
    async with gateway:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await stop.wait()


def main() -> None:
    parser = ArgumentParser()
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--url", required=True)
    parser.add_argument("--storage", default="sqlite")
    parser.add_argument("--max-attempts", type=int, default=3)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--slow", type=float, default=0.0)
    parser.add_argument("--arm-later", action="store_true", help="arm the crash point at SIGUSR1, not at the start")
    parser.add_argument("--edits", action="store_true", help="show answers while they are written")
    args = parser.parse_args()
    start_logging("warning")
    if not args.arm_later:
        arm_from_environment()
    asyncio.run(serve(args))


if __name__ == "__main__":
    main()
