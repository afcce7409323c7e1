"""`finclaw mcp serve` as the official client meets it, and `finclaw mcp pins` beside a gateway's file."""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from tests.builtins.mcp.bench import Bench, honest, until
from tests.cli.terminal import clean_environment, finclaw

EXTENSION = """
import sys
from msgspec import Struct
from finclaw.kernel.port import ToolOutput, ToolScope
from finclaw.tools.define import tool

name = "broker"
print("hello, wire", flush=True)

def register(api):
    @tool("order__place", "Buys.", group="finance", transactional=True)
    async def place(args: Struct, scope: ToolScope) -> ToolOutput:
        return ToolOutput("bought")

    @tool("garden__water", "Waters.")
    async def water(args: Struct, scope: ToolScope) -> ToolOutput:
        print("a stray word", flush=True)
        return ToolOutput("wet, and the card is 4111 1111 1111 1111")

    @tool("garden__burn", "Fails.")
    async def burn(args: Struct, scope: ToolScope) -> ToolOutput:
        raise RuntimeError("a secret")

    api.tools.register(place)
    api.tools.register(water)
    api.tools.register(burn)
"""
LOOK_ONLY = [
    "calc__evaluate",
    "fx__convert",
    "market__calendar",
    "market__compare",
    "market__history",
    "market__hours",
    "market__quote",
    "time__now",
]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    (tmp_path / "broker.py").write_text(EXTENSION)
    (tmp_path / "broker.py").chmod(0o600)
    return settings(tmp_path)


def settings(state: Path, more: str = "") -> Path:
    (state / "finclaw.yaml").write_text(f"agent: {{extensions: [./broker.py]}}\n{more}")
    return state


@asynccontextmanager
async def connected(state: Path, *words: str, mode: str = "auto") -> AsyncGenerator[Client]:
    command = ["-m", "finclaw", "mcp", "serve", "--state", str(state), *words]
    server = StdioServerParameters(command=sys.executable, args=command, env=clean_environment())
    async with Client(server, mode=mode, cache=None) as client:
        yield client


def said(result: types.CallToolResult) -> str:
    (part,) = result.content
    assert isinstance(part, types.TextContent)
    return part.text


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_official_client_lists_and_calls(state: Path, mode: str) -> None:
    async with connected(state, mode=mode) as client:
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == LOOK_ONLY
        assert all(tool.input_schema["type"] == "object" and tool.description for tool in tools)
        answer = await client.call_tool("market__quote", {"symbol": "AAPL"})
        assert not answer.is_error, said(answer)
        assert "AAPL" in said(answer)


async def test_errors_are_results_and_the_server_goes_on(state: Path) -> None:
    async with connected(state, "--allow", "garden__burn") as client:
        for name, args, words in (
            ("market__qoute", {}, "there is no tool 'market__qoute' here"),
            ("order__place", {}, "there is no tool 'order__place' here"),
            ("garden__water", {}, "there is no tool 'garden__water' here"),
            ("market__quote", {"symbol": "x" * 81}, "Invalid input for market__quote"),
            ("garden__burn", {}, "garden__burn failed: RuntimeError"),
        ):
            result = await client.call_tool(name, args)
            assert (result.is_error, words in said(result)) == (True, True), said(result)
        assert not (await client.call_tool("market__hours", {})).is_error


async def test_more_is_offered_when_the_operator_names_it_and_guarded_all_the_same(state: Path) -> None:
    async with connected(state, "--allow", "garden__water") as client:
        assert "garden__water" in [tool.name for tool in (await client.list_tools()).tools]
        answer = said(await client.call_tool("garden__water", {}))
        assert answer.startswith("wet, and the card is")
        assert "4111 1111" not in answer


async def test_a_rule_is_stronger_than_a_word_at_the_start(state: Path) -> None:
    settings(state, "tools: {rules: [{pattern: 'garden__*', verdict: require-approval, scope: channel, who: [mcp]}]}")
    async with connected(state, "--allow", "garden__water") as client:
        result = await client.call_tool("garden__water", {})
        assert (result.is_error, "nobody can approve it here" in said(result)) == (True, True)


async def test_it_runs_beside_a_gateway_and_many_at_once(state: Path) -> None:
    async with connected(state) as one, connected(state) as other:
        answers = await asyncio.gather(
            *(each.call_tool("market__quote", {"symbol": "AAPL"}) for each in (one, other) for _ in range(20))
        )
        assert not any(answer.is_error for answer in answers)


@pytest.mark.parametrize(
    ("name", "complaint"), [("order__place", "it moves money"), ("market__qoute", "did you mean market__quote?")]
)
def test_what_cannot_be_allowed_stops_the_start(state: Path, name: str, complaint: str) -> None:
    ended = finclaw("mcp", "serve", "--allow", name, "--state", state)
    assert (ended.code, ended.out) == (2, "")
    assert complaint in ended.err


def test_the_wire_carries_messages_and_nothing_else(state: Path) -> None:
    """Garbage, a cut message and the end of the input: it answers what it can, and leaves."""
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    lines: list[dict[str, Any]] = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "garden__water", "arguments": {}}},
        {"jsonrpc": "2.0", "id": 3, "method": "no/such/method"},
    ]
    typed = "\n".join(["not a message", *map(json.dumps, lines), '{"jsonrpc": "2.0", "id"'])
    ended = finclaw("mcp", "serve", "--allow", "garden__water", "--state", state, stdin=typed + "\n")
    assert ended.code == 0
    answers = [json.loads(line) for line in ended.out.splitlines()]
    assert {1, 2, 3} >= {answer["id"] for answer in answers if "id" in answer and answer["id"] is not None} >= {1}
    assert "hello, wire" in ended.err


# ── pins at the terminal ────────────────────────────────────────────────────────────────────────────────────


def say(words: Path, text: str) -> None:
    words.write_text(text)


@pytest.fixture
async def shown(tmp_path: Path, words: Path) -> Path:
    """A state whose server has changed a tool since it was let in."""
    state = tmp_path / "state"
    state.mkdir()
    listed = {"servers": {"desk": honest(words)}}
    use = {"use": "finclaw.builtins.mcp.extension", "settings": listed}
    (state / "finclaw.yaml").write_text(json.dumps({"agent": {"extensions": [use]}}))
    for text in ("Greets.", "Greets \u001b[2J\u202eevilly."):
        say(words, text)
        bench = Bench(state, "extensions")
        async with bench.open(**listed):
            await bench.has("desk__fail")
    return state


async def test_pins_are_listed_and_approved_beside_a_running_gateway(shown: Path, words: Path) -> None:
    bench = Bench(shown, "extensions")
    async with bench.open(servers={"desk": honest(words)}):
        await bench.has("desk__fail")
        listed = await in_terminal("mcp", "pins", "--json", "--state", shown)
        found = {pin["tool"]: pin for pin in json.loads(listed)["pins"]}
        assert (found["greet"]["state"], found["fail"]["state"]) == ("changed", "unread")
        assert found["greet"]["pinned_definition"]["description"] == "Greets."
        told = await in_terminal("mcp", "pins", "--state", shown)
        assert "desk greet, " in told
        assert "\x1b" not in told
        assert "\u202e" not in told
        digest = found["greet"]["offered"][:12]
        assert "It is approved now" in await in_terminal(
            "mcp", "approve", "desk", "greet", "--digest", digest, "--state", shown
        )
        await until(lambda: "desk__greet" in bench.names)
        assert "already" in await in_terminal("mcp", "approve", "desk", "greet", "--state", shown)


async def in_terminal(*words: str | Path) -> str:
    ended = await asyncio.to_thread(finclaw, *words)
    assert (ended.code, ended.err) == (0, "")
    return ended.out


async def test_the_doctor_warns(shown: Path) -> None:
    ended = await asyncio.to_thread(finclaw, "doctor", "--state", shown)
    assert "desk greet (changed)" in ended.out


def test_an_approval_of_what_is_not_there_is_refused(shown: Path) -> None:
    for words, complaint in (
        (("desk", "nothing"), "was ever seen"),
        (("desk", "greet", "--digest", "0123456789"), "by now, not 0123456789"),
    ):
        ended = finclaw("mcp", "approve", *words, "--state", shown)
        assert ended.code != 0
        assert complaint in ended.line()


def test_without_the_extension_there_are_no_pins(state: Path) -> None:
    ended = finclaw("mcp", "pins", "--state", state)
    assert ended.code == 2
    assert "the extension mcp is not in use" in ended.err
