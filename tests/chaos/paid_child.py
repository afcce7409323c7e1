"""The gateway that is killed in the middle of model calls which cost money: it asks a server on this machine.

It writes to itself: so many conversations, each with the next question as soon as the last has ended.
"""

import asyncio
import signal
import sys
from argparse import ArgumentParser, Namespace
from decimal import Decimal
from pathlib import Path
from uuid import uuid4

import finclaw
from finclaw import Settings
from finclaw.agent.budget.settings import BudgetSettings
from finclaw.agent.settings import AgentSettings
from finclaw.config.schema import StorageSettings
from finclaw.diagnostics.log import start_logging
from finclaw.kernel.envelope import Inbound, Sender
from finclaw.pipeline.settings import PipelineSettings
from finclaw.providers.settings import ModelSettings, ProviderSettings
from finclaw.sessions.settings import QueueSettings, SessionSettings
from finclaw.testing import arm_from_environment

REFUSED = "refused"
"""What it prints when its budget does not allow another call."""


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def settings_of(args: Namespace) -> Settings:
    return Settings(
        state=args.state,
        agent=AgentSettings(model="box/dear", max_tokens=60),
        providers={"box": ProviderSettings(kind="openai", base_url=args.url)},
        models={
            "box/dear": ModelSettings(window=100_000, max_output=60, input_price=Decimal(1), output_price=Decimal(5))
        },
        budget=BudgetSettings(agent_day_usd=args.budget),
        pipeline=PipelineSettings(max_attempts=1_000_000),
        storage=StorageSettings(kind=args.storage),
        sessions=SessionSettings(queue=QueueSettings(mode="followup")),
    )


async def keep_asking(app: finclaw.App, conversation: str) -> None:
    """Until the budget says no."""
    number = 0
    while True:
        number += 1
        sender = Sender(conversation)
        inbound = Inbound(
            text=f"question {number}", conversation=conversation, sender=sender, message_id=str(uuid4()), channel="api"
        )
        outcome = await app.handle(inbound)
        if "BudgetExceeded" in outcome.reason:
            _say(REFUSED)
            return


async def serve(args: Namespace) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with finclaw.build(settings_of(args)) as app:
        _say("ready")
        await app.idle()  # first what the last life has left: else they would become more with every life
        names = [f"{uuid4()}" for _ in range(args.conversations)]  # new ones: long talks are dearer with every life
        talks = [asyncio.create_task(keep_asking(app, name)) for name in names]
        await stop.wait()
        for talk in talks:
            talk.cancel()
        await asyncio.gather(*talks, return_exceptions=True)


def main() -> None:
    parser = ArgumentParser()
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--url", required=True)
    parser.add_argument("--budget", type=Decimal, required=True)
    parser.add_argument("--storage", choices=("sqlite", "jsonl"), default="sqlite")
    parser.add_argument("--conversations", type=int, default=2)
    args = parser.parse_args()
    start_logging("error")
    arm_from_environment()
    asyncio.run(serve(args))


if __name__ == "__main__":
    sys.exit(main())
