"""Secrets with a name of their own, put in at every place where one could come in: none comes out anywhere.

What a person writes about themselves is theirs: it is stored as they wrote it, and the model reads it, for else it
could not be of help. Everything else that holds a secret is cleaned where it enters the conversation (tools), where a
person would read it (replies, previews) and where it would be kept for machines (logs, events, outcomes).
"""

import io
import logging
from typing import Any, Final

import msgspec
import pytest
from tests.attack.canary import ALL, SECRETS, hits, must_be_clean
from tests.attack.desk import Nothing
from tests.attack.leaking_tools import THROUGH_TOOLS, leaking
from tests.walks.house import House, in_virtual_time

from finclaw.builtins.basics import BasicCommand
from finclaw.errors import AuthFailed, BadRequest, ProviderError, SendFailed
from finclaw.kernel.message import ToolResult
from finclaw.kernel.scope import DeliveryContext, StepContext, StepResult, ToolCallContext, TurnContext, TurnResult
from finclaw.redaction.redact import redact_for_display
from finclaw.testing import call, fails, reply
from finclaw.tools.define import tool

pytestmark = pytest.mark.spec("DX-32")


def test_the_canaries_would_be_seen() -> None:
    assert len(hits(ALL)) == len(SECRETS)
    assert hits(redact_for_display(ALL)) == []


# ── through a tool ──────────────────────────────────────────────────────────────────────────────────────────────


def repeats(request: Any) -> Any:
    """A model that says whatever the last tool gave it."""
    results = [result for message in request.messages for result in message.tool_results]
    if not results:
        return reply(call("leak__all"))
    return f"It says. {results[-1].content} That is all.\nReally."


@pytest.mark.parametrize("how", THROUGH_TOOLS)
@in_virtual_time
async def test_what_a_tool_gives_or_fails_with(house: House, lines: io.StringIO, how: str) -> None:
    async with house.open(repeats, tools=[leaking(how)]) as gateway:
        await gateway.ask("go")
        await must_be_clean(gateway, lines, how)


@pytest.mark.parametrize("how", THROUGH_TOOLS)
@in_virtual_time
async def test_what_an_approved_tool_gives_or_fails_with(house: House, lines: io.StringIO, how: str) -> None:
    async with house.open(
        reply(call("leak__all")), "Done.", tools=[leaking(how, transactional=True)], consent=None
    ) as gateway:
        await gateway.ask("go")
        (asked,) = await gateway.app.approvals()
        await gateway.ask(f"/approve {asked.id}")
        await must_be_clean(gateway, lines, how)


# ── through a layer ─────────────────────────────────────────────────────────────────────────────────────────────


async def tool_layer(ctx: ToolCallContext) -> ToolResult:
    raise RuntimeError(ALL)


async def tool_words(ctx: ToolCallContext) -> ToolResult:
    return ToolResult(ctx.call_id, ctx.tool_name, ALL, "error")


async def step_layer(ctx: StepContext) -> StepResult:
    raise RuntimeError(ALL)


async def turn_layer(ctx: TurnContext) -> TurnResult:
    logging.getLogger("finclaw.extension.test").warning("with %s", ALL, extra={"key": ALL})
    raise RuntimeError(ALL)


async def turn_words(ctx: TurnContext) -> TurnResult:
    return TurnResult(status="completed", text=ALL)


async def delivery_words(ctx: DeliveryContext) -> Any:
    ctx.outbound = msgspec.structs.replace(ctx.outbound, text=ALL)
    return await ctx.next()


LAYERS: Final[dict[str, tuple[Any, Any]]] = {
    "tool_call raises": ("tool_call", tool_layer),
    "tool_call answers": ("tool_call", tool_words),
    "step raises": ("step", step_layer),
    "turn raises": ("turn", turn_layer),
    "turn answers": ("turn", turn_words),
    "delivery says": ("delivery", delivery_words),
}


@pytest.mark.parametrize("how", LAYERS)
@in_virtual_time
async def test_what_a_layer_fails_with_or_says(house: House, lines: io.StringIO, how: str) -> None:
    async with house.open(repeats, tools=[leaking("result")], layers=[LAYERS[how]]) as gateway:
        await gateway.ask("go")
        await must_be_clean(gateway, lines, how)


# ── through the model's server ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", [BadRequest, AuthFailed, ProviderError])
@in_virtual_time
async def test_what_a_provider_complains_about(house: House, lines: io.StringIO, kind: type[ProviderError]) -> None:
    """They like to repeat the key that they did not like."""
    async with house.open(*[fails(kind(f"401: incorrect key provided: {ALL}"))] * 9) as gateway:
        outcome = await gateway.ask("go")
        assert outcome.kind == "failed"
        await must_be_clean(gateway, lines, kind.__name__)


# ── through the person ──────────────────────────────────────────────────────────────────────────────────────────


@in_virtual_time
async def test_a_person_s_own_words_are_kept_and_not_repeated(house: House, lines: io.StringIO) -> None:
    async with house.open(f"You wrote {ALL}. Is that right?\nTell me.") as gateway:
        await gateway.ask(f"my data: {ALL}")
        assert hits(gateway.seen[0].text), "the model reads what the person wrote"
        seen = [event for event in gateway.events if event.name != "stream:text_delta"]
        assert hits("\n".join(gateway.said)) == []
        assert hits("\n".join(map(repr, seen))) == []
        assert hits(lines.getvalue()) == []


@in_virtual_time
async def test_a_command_that_fails_tells_no_secret(house: House, lines: io.StringIO) -> None:
    async with house.open("Hm.") as gateway:
        for text in (f"/approve {SECRETS[0]}", f"/deny {ALL}", f"/reset {ALL}", f"/nonsense {ALL}"):
            await gateway.ask(text)
        assert hits("\n".join(gateway.said)) == []
        assert hits(lines.getvalue()) == []


@in_virtual_time
async def test_what_a_platform_refuses_with(house: House, lines: io.StringIO) -> None:
    async with house.open("Hello.") as gateway:
        gateway.channel.fail_next(SendFailed(f"cannot send with {ALL}"), times=2)
        await gateway.ask("go")
        await must_be_clean(gateway, lines, "a send")


@pytest.mark.parametrize("isolation", ["loop", "thread"])
@in_virtual_time
async def test_what_a_command_or_a_tool_in_a_thread_breaks_with(
    house: House, lines: io.StringIO, isolation: Any
) -> None:
    @tool("leak__all", "Leaks.", group="web", isolation=isolation)
    def leak(args: Nothing) -> str:
        raise RuntimeError(ALL)

    async def broken(args: Any, scope: Any) -> Any:
        raise RuntimeError(ALL)

    command = BasicCommand(name="leak", description="Leaks.", usage="/leak", answer=broken)
    async with house.open(repeats, tools=[leak], commands=[command]) as gateway:
        await gateway.ask("/leak")
        await gateway.ask("go")
        await must_be_clean(gateway, lines, isolation)
