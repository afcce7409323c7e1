"""Delegation: a tool that gives a task to a turn of its own, in a session of its own, with fewer tools and steps.

The task is a message like any other, named after the call: a turn that resumes after a crash asks for the same message
again and gets the answer it had. So the work is done once, and its result is used once.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Annotated, Final

from msgspec import Meta, Struct

from finclaw.errors import ToolError
from finclaw.gateway import Gateway
from finclaw.kernel.envelope import Inbound, Limits
from finclaw.kernel.extension import ExtensionApi
from finclaw.kernel.port import ToolOutput, ToolScope
from finclaw.kernel.record import InboundRecord
from finclaw.taint.sources import limit_sources
from finclaw.tools.define import tool
from finclaw.tools.registry import ToolRegistry

MOST_SOURCES: Final = 50
"""Handed down, the newest: one is enough to be asked about what the helper does."""
CHANNEL: Final = "subagent"
NAME: Final = "agent__delegate"
MAX_STEPS: Final = 5
PATIENCE: Final = 240.0
"""Seconds: less than a turn has, so that the one who delegates can still say something."""


class Task(Struct):
    task: Annotated[str, Meta(min_length=1, description="What to find out, with everything needed to do it.")]
    tools: Annotated[
        tuple[str, ...] | None, Meta(description="The only tools it may use. Left out: all of yours that only read.")
    ] = None
    max_steps: Annotated[int, Meta(ge=1, le=MAX_STEPS, description="How many model calls it may take.")] = MAX_STEPS


class Delegation:
    name = "delegation"

    def __init__(self, gateway: Callable[[], Gateway], tools: ToolRegistry) -> None:
        self._gateway = gateway
        self._tools = tools

    def register(self, api: ExtensionApi) -> None:
        @tool(
            NAME,
            "Gives a task to a helper that sees nothing of this conversation and answers in text. "
            "For a part of the work that takes many tool calls and has a short result.",
            group="agent",
            timeout=PATIENCE,
        )
        async def delegate(args: Task, scope: ToolScope) -> ToolOutput:
            return await self._delegate(args, scope)

        api.tools.register(delegate)

    async def _delegate(self, args: Task, scope: ToolScope) -> ToolOutput:
        gateway = self._gateway()
        met = scope.sources() if scope.sources else ()
        accepted = await gateway.accept(
            Inbound(
                channel=CHANNEL,
                account=scope.channel or CHANNEL,
                conversation=scope.turn_id,
                thread=scope.call_id,
                message_id=scope.call_id,
                sender=scope.sender,
                text=args.task,
                limits=Limits(
                    pool="subagent",
                    tools=self._may_use(args, scope),
                    max_steps=args.max_steps,
                    sources=tuple(limit_sources(met, MOST_SOURCES)),
                    person=scope.person,
                ),
            )
        )
        try:
            record = await gateway.wait(accepted.id, float("inf"))
        except asyncio.CancelledError:  # nobody will read its answer
            gateway.stop_message(accepted.id, "the turn that delegated it was stopped")
            raise
        return _read_answer(record, met)

    def _may_use(self, args: Task, scope: ToolScope) -> tuple[str, ...]:
        """Never more than the one who delegates, never what needs a person, and no further delegation."""
        mine = {
            each.spec.name
            for each in self._tools.list()
            if each.spec.name in scope.offered and not (each.transactional or each.changes or each.spec.name == NAME)
        }
        if args.tools is None:
            return tuple(sorted(mine))
        wanted = set(args.tools)
        if refused := wanted - mine:
            known = ", ".join(sorted(mine)) or "none"
            raise ToolError(f"{', '.join(sorted(refused))} cannot be delegated; what can be: {known}")
        return tuple(sorted(wanted))


def _read_answer(record: InboundRecord | None, known: Sequence[str]) -> ToolOutput:
    """The helper's answer. Its origin is what the helper itself has read, before what the delegating turn had read."""
    outcome = record and record.outcome
    if outcome is None:
        raise ToolError("the helper did not get to an end; do the task yourself or say that it could not be done")
    if outcome.kind != "answered" or not outcome.reply:
        # An error has no origin, so it must not repeat words that the helper may have from untrusted text.
        why = "" if outcome.sources else f" ({outcome.reason or 'without words'})"
        raise ToolError(f"the helper ended {outcome.kind}{why} and found out nothing")
    origin = ""
    if outcome.sources:
        origin = f"a helper that read {', '.join(sorted(outcome.sources, key=lambda source: source in known))}"
    return ToolOutput(outcome.reply, outcome.facts, origin=origin)
