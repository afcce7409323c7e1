"""Every stage may end the road, quietly or as a failure, and each such end is a clean one."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
from msgspec.structs import replace
from tests.walks.house import ALL_STAGES, AnyLayer, House, in_virtual_time

from finclaw.builtins.basics import BasicCommand
from finclaw.errors import StoreFailed
from finclaw.kernel.envelope import Capabilities
from finclaw.kernel.event import StageEnded
from finclaw.kernel.extension import RingName
from finclaw.kernel.port import CommandReply
from finclaw.pipeline.stage import Halt, skip
from finclaw.testing import FakeClock, MemoryChannel


class MoodyChannel(MemoryChannel):
    """Its abilities can be read so many times, then reading them raises."""

    def __init__(self, clock: FakeClock, error: Exception, good_reads: int) -> None:
        super().__init__(clock)
        self.error: Exception | None = error
        self.good_reads = good_reads

    @property
    def capabilities(self) -> Capabilities:
        if self.error is not None:
            self.good_reads -= 1
            if self.good_reads < 0:
                error, self.error = self.error, None
                raise error
        return self._own

    @capabilities.setter
    def capabilities(self, given: Capabilities) -> None:
        self._own = given


async def raise_error(args: Any, scope: Any) -> CommandReply:
    raise RuntimeError("broken")


async def raise_skip(args: Any, scope: Any) -> CommandReply:
    raise skip("broken")


def once(error: Exception) -> AnyLayer:
    """A layer that fails for the first message and lets the others pass."""
    left = [error]

    async def fail_once(ctx: Any) -> Any:
        if left:
            raise left.pop()
        return await ctx.next()

    return fail_once


@dataclass
class Case:
    """How to make one stage end the road."""

    stage: str
    how: Literal["skip", "abort"]
    text: str = "hi"
    fields: dict[str, Any] = field(default_factory=dict[str, Any])
    layers: list[tuple[RingName, AnyLayer]] = field(default_factory=list[tuple[RingName, AnyLayer]])
    channel: Callable[[FakeClock], MemoryChannel] | None = None
    troubles: dict[str, list[BaseException]] = field(default_factory=dict[str, list[BaseException]])
    answer: str = "never said"


class NotText(str):
    """Looks like a text until somebody looks at it closely."""

    def split(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("broken")


class NotAType:
    """Stands where a chat type should be, and cannot be compared with one."""

    def __ne__(self, other: object) -> bool:
        raise RuntimeError("broken")


def spoil(**fields: Any) -> AnyLayer:
    """A message layer that puts rubbish into the first message."""
    left = [fields]

    async def spoil_first(ctx: Any) -> Any:
        if left:
            ctx.inbound = replace(ctx.inbound, **left.pop())
        return await ctx.next()

    return spoil_first


def cases() -> list[Case]:
    broken, quiet = RuntimeError("broken"), skip("broken")
    return [
        Case("normalize", "skip", text="  "),
        Case("normalize", "abort", layers=[("message", spoil(text=NotText("hi")))]),
        Case("gate", "skip", fields={"chat_type": "group"}),
        Case("gate", "abort", layers=[("message", spoil(chat_type=NotAType()))]),
        Case("command", "skip", text="/quietly"),
        Case("command", "abort", text="/badly"),
        Case("ack", "skip", channel=lambda clock: MoodyChannel(clock, skip("broken"), 1)),
        Case("ack", "abort", channel=lambda clock: MoodyChannel(clock, RuntimeError("broken"), 1)),
        Case("context", "skip", channel=lambda clock: MoodyChannel(clock, skip("broken"), 3)),
        Case("context", "abort", channel=lambda clock: MoodyChannel(clock, RuntimeError("broken"), 3)),
        Case("dispatch", "skip", troubles={"claim": [skip("broken")]}),
        Case("dispatch", "abort", troubles={"claim": [RuntimeError("broken")]}),
        Case("execute", "skip", layers=[("turn", once(quiet))]),
        Case("execute", "abort", layers=[("turn", once(broken))]),
        Case("deliver", "skip", answer="<<NO_REPLY>>"),
        Case("deliver", "abort", layers=[("delivery", once(broken))]),
    ]


COMMANDS = [
    BasicCommand(name="badly", description="", usage="", answer=raise_error),
    BasicCommand(name="quietly", description="", usage="", answer=raise_skip),
]


@pytest.mark.spec("P-03", "P-05", "P-06", "P-07", "P-16", "P-48", "P-42", "DX-03", "DX-05", "DX-15")
@pytest.mark.parametrize("case", cases(), ids=lambda case: f"{case.stage}-{case.how}")
@in_virtual_time
async def test_row_13_every_stage_can_end_the_road(house: House, case: Case) -> None:
    house.troubles |= case.troubles
    channel = case.channel(house.clock) if case.channel else None
    answers = iter([case.answer, "I am still here"] if case.stage == "deliver" else ["I am still here"])

    async with house.open(
        lambda request: next(answers), layers=case.layers, commands=COMMANDS, channel=channel
    ) as gateway:
        outcome = await gateway.ask(case.text, message_id="m-1", **case.fields)
        passed = ALL_STAGES[: ALL_STAGES.index(case.stage) + 1]
        assert outcome.stages_executed == passed
        assert [entry.result for entry in outcome.stages] == ["continue"] * (len(passed) - 1) + [case.how]
        assert outcome.reason
        if case.how == "skip":
            assert (outcome.kind, outcome.success, outcome.reply) == ("skipped", True, None)
            assert (outcome.skipped_at, outcome.skip_reason) == (case.stage, outcome.reason)
            assert (outcome.aborted_at, outcome.abort_reason) == (None, None)
            assert gateway.said == []
        else:
            assert (outcome.kind, outcome.success) == ("failed", False)
            reason = f"{'/badly failed: ' if case.stage == 'command' else ''}RuntimeError: broken"
            assert (outcome.aborted_at, outcome.abort_reason) == (case.stage, reason)
            assert outcome.stages[-1].reason == reason
            assert (outcome.skipped_at, outcome.skip_reason) == (None, None)
            assert gateway.said == [outcome.reply]
            assert outcome.reply is not None
            assert outcome.reply.startswith("/badly could not" if case.stage == "command" else "Sorry")
        noted = [(each.stage, each.result) for each in gateway.events if isinstance(each, StageEnded)]
        assert noted == [(entry.name, entry.result) for entry in outcome.stages]
        assert signs_left(gateway.channel) == []
        # The lane is free: the next message of the same session is answered.
        after = await gateway.ask("still there?", message_id="m-2")
        assert (after.kind, after.reply) == ("answered", "I am still here")


def signs_left(channel: MemoryChannel) -> list[str]:
    """Messages on which our reaction or typing sign still says that work goes on."""
    shown = {message_id: emoji for message_id, emoji in channel.reactions}
    typing = dict(channel.typing_log)
    return [each for each, emoji in shown.items() if emoji == "👀"] + [
        each for each, active in typing.items() if active
    ]


@pytest.mark.spec("DX-03")
@in_virtual_time
async def test_whatever_a_stranger_raises_is_an_abort(house: House) -> None:
    """Also what no `except Exception` would catch, as long as nobody wants us to stop."""
    errors: list[BaseException] = [
        KeyError("k"),
        asyncio.CancelledError(),
        ExceptionGroup("many", [OSError("x")]),
        Halt("on purpose", outcome="failed"),
    ]

    async def broken(ctx: Any) -> Any:
        if errors:
            raise errors.pop(0)
        return await ctx.next()

    async with house.open("fine", layers=[("turn", broken)]) as gateway:
        reasons = [(await gateway.ask("go")).abort_reason for _ in range(4)]
        assert reasons == [
            "KeyError: 'k'",
            "CancelledError: not asked for by the gateway",
            "ExceptionGroup: many (1 sub-exception)",
            "on purpose",
        ]
        assert (await gateway.ask("go")).reply == "fine"


@in_virtual_time
async def test_a_message_that_cannot_be_written_down_is_refused_and_not_lost(house: House) -> None:
    house.troubles["accept"] = [StoreFailed("full")]
    async with house.open("now it is") as gateway:
        with pytest.raises(StoreFailed):
            await gateway.channel.write("hi", message_id="m-1")
        assert (await gateway.ask("hi", message_id="m-1")).reply == "now it is"
