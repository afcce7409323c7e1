"""Secrets in the arguments of a call that came to nothing: denied, refused, wrong, late or broken.

A model that was given a key by the person may well write it into a call. The call itself is kept as it was written,
for the model reads it again; nothing that is told about it repeats a word of it. (Peers logged denied calls with live
keys in them.)
"""

import io
import json
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import pytest
from msgspec import Struct
from tests.attack import leaking
from tests.attack.canary import ALL, CANARIES, KEY, SECRETS, hits, kept, must_be_clean, told
from tests.attack.canary_calls import GIVEN, SERVER, Words, acting
from tests.builtins.extended import extended
from tests.walks.house import Gateway, House, Parts, in_virtual_time
from tests.walks.tools import hang

import finclaw
from finclaw.agent.settings import AgentSettings, ExtensionRef
from finclaw.clock import SystemClock
from finclaw.errors import InvalidArguments, ToolError, ToolStopped, ToolUnavailable
from finclaw.kernel.chunk import ModelRequest
from finclaw.kernel.message import ToolResult
from finclaw.kernel.port import Tool, ToolScope
from finclaw.kernel.scope import ToolCallContext
from finclaw.policy.rule import Rule
from finclaw.testing import MemoryChannel, ScriptedProvider, call, reply
from finclaw.testing.provider import Line
from finclaw.tools.define import tool
from finclaw.tools.settings import ToolsSettings

pytestmark = pytest.mark.spec("DX-32", "T-16")


class Numbers(Struct):
    text: int
    deep: int = 0


class Case(NamedTuple):
    """One way of coming to nothing, and the status that shows that it was that way."""

    status: str
    tool: Callable[[], Tool]
    calls: Sequence[Line] = (reply(call("act__now", GIVEN)),)
    parts: Mapping[str, Any] = MappingProxyType({})


def counting() -> Tool:
    @tool("act__now", "Counts.", group="finance")
    async def count(args: Numbers, scope: ToolScope) -> str:
        return "counted"

    return count


def raising(error: Callable[[str], Exception], **options: Any) -> Callable[[], Tool]:
    async def body(args: Words, scope: ToolScope) -> str:
        raise error(f"cannot do {args.text} with {args.deep}")

    return acting(body, **options)


async def waits(args: Words, scope: ToolScope) -> str:
    return await hang(args.text, scope)


async def layer_raises(ctx: ToolCallContext) -> ToolResult:
    raise RuntimeError(f"not with {ctx.args}")


async def layer_refuses(ctx: ToolCallContext) -> ToolResult:
    raise ToolError(f"not with {ctx.args}")


DENIED: Final = {"rules": (Rule("act__now", "deny", reason="not here"),)}
TOO_LONG: Final = {"text": f"{ALL} " * 40}

CALLS_OF_MANY_KINDS: Final = [reply(call("act__now", {"text": f"{ALL} {number}"})) for number in range(8)]
"""The loop guard would not let the same one through so often."""

CASES: Final[dict[str, Case]] = {
    "denied by a rule": Case("denied", acting(), parts=DENIED),
    "denied by whoever is asked at once": Case("denied", acting(transactional=True)),
    "too long for a card": Case(
        "denied", acting(transactional=True), (reply(call("act__now", TOO_LONG)),), {"consent": None}
    ),
    "no such tool": Case("error", acting(), (reply(call("act__later", GIVEN)),)),
    "not what the schema says": Case("invalid", counting),
    "refused by the tool": Case("error", raising(ToolError)),
    "refused by the tool's own check": Case("invalid", raising(InvalidArguments)),
    "no line": Case("unavailable", raising(ToolUnavailable)),
    "stopped": Case("stopped", raising(ToolStopped)),
    "broken": Case("error", raising(KeyError)),
    "late": Case("timeout", acting(waits, timeout=2.0)),
    "a circuit that is open": Case("unavailable", raising(ToolUnavailable, upstream="desk"), CALLS_OF_MANY_KINDS),
    "the same again and again": Case("denied", raising(ToolError), [reply(call("act__now", GIVEN))] * 7),
    "a layer that fails": Case("error", acting(), parts={"layers": [("tool_call", layer_raises)]}),
    "a layer that refuses": Case("error", acting(), parts={"layers": [("tool_call", layer_refuses)]}),
}


@pytest.mark.parametrize("how", CASES)
@in_virtual_time
async def test_a_call_that_came_to_nothing_is_told_without_its_arguments(
    house: House, lines: io.StringIO, how: str
) -> None:
    case = CASES[how]
    async with house.open(*case.calls, "I could not.", tools=[case.tool()], **case.parts) as gateway:
        await gateway.ask("go")
        if gateway.results:
            assert gateway.results[-1].status == case.status, gateway.results[-1]
        await must_be_clean(gateway, lines, how, arguments=False)


@pytest.mark.parametrize("secret", [CANARIES["api key"], CANARIES["card"]])
@in_virtual_time
async def test_a_complaint_that_is_cut_shows_no_half_of_one(house: House, lines: io.StringIO, secret: str) -> None:
    """What is left of a key behind a cut looks like no key any more, and is most of one."""
    half = secret[:11]
    cut_anywhere = [call("act__now", {"text": "x" * (300 - room) + " " + secret}) for room in range(1, 30)]
    async with house.open(reply(*cut_anywhere), "No.", tools=[counting()]) as gateway:
        await gateway.ask("go")
        assert {result.status for result in gateway.results} == {"invalid"}
        for place, text in (*await told(gateway, lines), *await kept(gateway, arguments=False)):
            assert half not in text, f"half of it in {place}"


@pytest.mark.parametrize("reason", [ALL, ""])
@in_virtual_time
async def test_an_action_that_a_person_denied(house: House, lines: io.StringIO, reason: str) -> None:
    """The card shows it to the letter, as it must; what is told afterwards, and the reason given, do not."""
    script = (reply(call("act__now", GIVEN)), "I have asked.")
    async with house.open(*script, tools=[acting(transactional=True)()], consent=None) as gateway:
        await gateway.ask("go")
        (asked,) = await gateway.app.approvals()
        assert len(hits(asked.card)) == len(SECRETS)
        assert asked.card in gateway.said
        await gateway.ask(f"/deny {asked.id} {reason}")
        (denied,) = await gateway.app.approvals(("denied",))
        assert denied.id == asked.id
        await must_be_clean(gateway, lines, "denied", arguments=False)


@in_virtual_time
async def test_an_action_that_nobody_decided(house: House, lines: io.StringIO) -> None:
    script = (reply(call("act__now", GIVEN)), "I have asked.")
    async with house.open(*script, tools=[acting(transactional=True)()], consent=None) as gateway:
        await gateway.ask("go")
        await house.clock.sleep(7_200)
        await gateway.app.idle()
        assert await gateway.app.approvals(("expired",))
        await must_be_clean(gateway, lines, "expired", arguments=False)


@in_virtual_time
async def test_a_list_of_what_stands_or_waits_is_no_card(house: House, lines: io.StringIO) -> None:
    """Who may act again unasked is shown with what they may do, and without the secrets in it; also where it is cut."""
    given = [GIVEN, *({"text": "x" * pad + f" {KEY}"} for pad in range(150, 190, 3))]

    def obeys(request: ModelRequest) -> Line:
        number = request.messages[-1].text.removeprefix("go ")
        return reply(call("act__now", given[int(number)])) if number.isdigit() else "Well."

    async with house.open(obeys, tools=[acting(approval=True)()], consent=None, rules=()) as gateway:
        for number in range(len(given)):
            await gateway.ask(f"go {number}")
            (asked,) = await gateway.app.approvals()
            await gateway.ask("/approvals")
            await gateway.ask(f"/approve {asked.id} always")
        listed = (await gateway.ask("/grants")).reply or ""
        assert listed.count("act__now") == len(given)
        assert KEY[:11] not in listed
        await must_be_clean(gateway, lines, "a list", arguments=False)


# ── in real time: a process is one ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("how", ["exit", "kill", "nonsense", "word"])
async def test_a_worker_that_dies_with_them(tmp_path: Path, lines: io.StringIO, how: str) -> None:
    script = (reply(call("own__leak", {"how": how, "text": ALL})), "It failed.")
    async with in_real_time(tmp_path, script, tools=[leaking.leak]) as gateway:
        await gateway.ask("go")
        assert gateway.results[-1].status == "error"
        await must_be_clean(gateway, lines, how, arguments=False)


@pytest.mark.parametrize(
    ("how", "statuses"),
    [
        ("result", {"ok"}),
        ("error", {"error"}),
        ("refusal", {"error"}),
        ("complaint", {"ok"}),
        ("garbage", {"ok"}),
        ("death", {"unavailable"}),
    ],
)
async def test_a_server_that_writes_them(tmp_path: Path, lines: io.StringIO, how: str, statuses: set[str]) -> None:
    """Also where it writes them cut: what is left of a key must not be the first half of one."""
    (tmp_path / "canaries").write_text(json.dumps([ALL, *(f"{'y' * pad} {KEY}" for pad in range(255, 300, 3))]))
    server = {"command": [sys.executable, str(SERVER), how, str(tmp_path / "canaries")]}
    ref = ExtensionRef("finclaw.builtins.mcp.extension", {"servers": {"desk": server}, "patience": 30})
    script = [reply(call("desk__leak", {"number": number})) for number in range(16)]
    async with in_real_time(
        tmp_path, (*script, "It says."), agent=AgentSettings(extensions=(ref,), max_steps=20)
    ) as gateway:
        await gateway.ask("go")
        assert {result.status for result in gateway.results} <= statuses | {"denied"}  # circuits and loops
        assert gateway.results[0].status in statuses
        await must_be_clean(gateway, lines, how)
        places = (*await told(gateway, lines), *await kept(gateway, arguments=True))
        assert [place for place, text in places if KEY[:11] in text] == []


@in_virtual_time
async def test_a_file_of_the_workspace_that_holds_them(
    house: House, lines: io.StringIO, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A key that somebody has left in a file, or in a file's name, is nothing that a model needs."""
    root = tmp_path_factory.mktemp("desk")
    (root / "notes.txt").write_text(f"{ALL}\n" * 50)
    (root / f"{KEY}.txt").write_text("a key for a name")
    reads = (
        {"path": "notes.txt"},
        {"path": "notes.txt", "start_line": 3},
        {"path": f"{KEY}.txt"},
        {"path": f"{KEY}/no"},
    )
    script = (reply(call("files__list")), *(reply(call("files__read", args)) for args in reads), "Read.")
    settings = {"root": str(root)}
    async with extended(house, "finclaw.builtins.workspace", *script, settings=settings) as gateway:
        await gateway.ask("go")
        assert [result.status for result in gateway.results] == ["ok", "ok", "ok", "ok", "error"]
        await must_be_clean(gateway, lines, "a file", arguments=False)


@asynccontextmanager
async def in_real_time(
    state: Path, script: Sequence[Line], *, tools: Sequence[Tool] = (), **parts: Any
) -> AsyncGenerator[Gateway]:
    clock = SystemClock()
    channel, provider = MemoryChannel(clock), ScriptedProvider(*script, clock=clock)
    allowed = ToolsSettings(rules=(Rule("*", "allow"),))
    settings = finclaw.Settings(state=state / "state", tools=allowed, **parts)
    async with finclaw.build(settings, channels=[channel], provider=provider, extensions=[Parts(tools=tools)]) as app:
        gateway = Gateway(app, channel, provider)
        app.events.observe(gateway.events.append)
        yield gateway


@in_virtual_time
async def test_arguments_that_are_no_json(house: House, lines: io.StringIO) -> None:
    async with house.open(reply(call("act__now", raw=json.dumps(GIVEN)[:-1])), "No.", tools=[acting()()]) as gateway:
        await gateway.ask("go")
        assert gateway.results[-1].status == "invalid"
        await must_be_clean(gateway, lines, "unreadable", arguments=False)


@in_virtual_time
async def test_a_call_by_the_name_of_a_key(house: House, lines: io.StringIO) -> None:
    async with house.open(reply(call(KEY, {})), "No.", tools=[acting()()]) as gateway:
        await gateway.ask("go")
        await must_be_clean(gateway, lines, "named after a key")
