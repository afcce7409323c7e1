"""An honest server's tools work as if they were ours, and say that they are not."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.builtins.mcp.bench import SCOPE, Bench, honest, rogue, until

from finclaw.errors import ConfigError, ExtensionError, InvalidArguments, ToolError
from finclaw.policy.policy import Policy
from finclaw.policy.verdict import PolicyContext, facts_of
from finclaw.tools.arguments import ArgumentCheck


@pytest.mark.spec("EX-07", "T-09")
async def test_its_tools_are_listed_and_run(bench: Bench, words: Path) -> None:
    async with bench.open(servers={"desk": honest(words)}):
        await bench.has("desk__greet")
        assert bench.names == ["desk__fail", "desk__figures", "desk__greet", "desk__mixed", "desk__odd_name_here"]
        assert "Hello, Minji!" in await bench.run("desk__greet", name="Minji")
        assert "fine" in await bench.run("desk__odd_name_here")
    assert bench.names == []


async def test_what_it_says_is_marked_as_a_strangers(bench: Bench, words: Path) -> None:
    async with bench.open(servers={"desk": honest(words)}):
        await bench.has("desk__greet")
        description = bench.tool("desk__greet").spec.description
        assert description == "[A tool of the MCP server desk, described by that server and not by us] Greets somebody."
        first, middle, last = (await bench.run("desk__greet", name="[end]")).split("\n")
        number = first[1:17]
        assert (first, middle) == (f"[{number}: what the MCP server desk wrote]", "Hello, [end]!")
        assert last == f"[{number}: end]"


async def test_parts_that_are_no_text_are_noted(bench: Bench, words: Path) -> None:
    async with bench.open(servers={"desk": honest(words)}):
        await bench.has("desk__mixed")
        lines = (await bench.run("desk__mixed")).split("\n")[1:-1]
        assert lines == [
            "first",
            "[image, image/png, not shown]",
            "[a resource that was not read: file:///report.txt]",
            "the memo",
        ]
        assert (await bench.run("desk__figures")).split("\n")[1] == '{"price": 7}'


async def test_its_errors_are_tool_errors_in_visible_words(bench: Bench, words: Path) -> None:
    async with bench.open(servers={"desk": honest(words)}):
        await bench.has("desk__fail")
        with pytest.raises(ToolError, match=r"desk says that it failed, in its own words: «the disk is full»$"):
            await bench.run("desk__fail")


async def test_arguments_are_checked_against_its_own_schema(bench: Bench, words: Path) -> None:
    async with bench.open(servers={"desk": honest(words)}):
        await bench.has("desk__greet")
        with pytest.raises(InvalidArguments, match="20"):
            ArgumentCheck().check(bench.tool("desk__greet").spec, {"name": "x" * 21})


@pytest.mark.spec("T-09")
async def test_policy_takes_it_for_a_strangers_tool(bench: Bench, words: Path) -> None:
    async with bench.open(servers={"desk": honest(words)}):
        await bench.has("desk__greet")
        facts = facts_of(bench.tool("desk__greet"), "mcp")
        assert (facts.external, facts.group) == (True, "custom")
        assert Policy().judge(PolicyContext(tool=facts)).verdict == "require-approval"
        assert bench.tool("desk__greet").upstream == "mcp:desk"


async def test_only_tools_of_the_given_patterns_are_let_in(bench: Bench, words: Path) -> None:
    async with bench.open(servers={"desk": honest(words), "other": rogue("fine")}, tools=["desk__f*", "other__*"]):
        await bench.has("desk__fail", "other__act")
        assert bench.names == ["desk__fail", "desk__figures", "other__act"]


async def test_a_program_gets_nothing_of_our_environment_but_three_names(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-canary")
    monkeypatch.setenv("DESK_KEY", "for the desk")
    given = rogue("environment", env={"TOKEN": "env:DESK_KEY", "TZ": "Asia/Seoul"})
    async with bench.open(servers={"desk": given}):
        await bench.has("desk__act")
        seen = json.loads((await bench.run("desk__act")).split("\n")[1])
    assert (seen.pop("TOKEN"), seen.pop("TZ")) == ("for the desk", "Asia/Seoul")
    assert set(seen) <= {"PATH", "HOME", "LANG", "LC_CTYPE"}  # the last is the interpreter's own


async def test_a_variable_that_is_not_set_keeps_only_that_server_away(bench: Bench) -> None:
    async with bench.open(servers={"poor": rogue("fine", env={"K": "env:NOT_SET_ANYWHERE"}), "desk": rogue("fine")}):
        await bench.has("desk__act")
        assert bench.names == ["desk__act"]


async def test_no_sampling_no_roots_and_no_elicitation(bench: Bench) -> None:
    async with bench.open(servers={"nosy": rogue("asks for a sample")}):
        await bench.has("nosy__act")
        assert "[true, true, true]" in await bench.run("nosy__act")


@pytest.mark.spec("EX-07")
async def test_a_public_server_from_the_package_index(bench: Bench) -> None:
    """mcp-server-time, as anybody would list it."""
    server = {"command": [sys.executable, "-m", "mcp_server_time", "--local-timezone", "Asia/Seoul"]}
    async with bench.open(servers={"time": server}):
        await bench.has("time__convert_time", "time__get_current_time")
        args = {"source_timezone": "Asia/Seoul", "time": "09:00", "target_timezone": "UTC"}
        assert "T00:00:00+00:00" in await bench.run("time__convert_time", **args)
        with pytest.raises(ToolError, match="time"):
            await bench.run("time__convert_time", **args | {"time": "nonsense"})


async def test_many_calls_at_once_get_their_own_answers(bench: Bench, words: Path) -> None:
    async with bench.open(servers={"desk": honest(words)}):
        await bench.has("desk__greet")
        answers = await asyncio.gather(*(bench.run("desk__greet", name=f"n{each}") for each in range(100)))
        assert [f"Hello, n{each}!" in answer for each, answer in enumerate(answers)] == [True] * 100


async def test_a_call_that_is_cancelled_leaves_the_server_usable(bench: Bench, words: Path) -> None:
    async with bench.open(servers={"desk": honest(words)}):
        await bench.has("desk__greet")
        call = asyncio.ensure_future(bench.tool("desk__greet").run({"name": "a"}, SCOPE))
        await asyncio.sleep(0)
        call.cancel()
        await asyncio.wait([call])
        assert "Hello, b!" in await bench.run("desk__greet", name="b")


@pytest.mark.parametrize(
    ("server", "complaint"),
    [
        ({}, "either a `command` or a `url`"),
        ({"command": ["x"], "url": "http://h/"}, "either a `command` or a `url`"),
        ({"command": "rm -rf /"}, "Expected `array`"),
        ({"command": ["x"], "headers": {"A": "env:HOME"}}, "use `env`"),
        ({"url": "http://h/", "env": {"A": "b"}}, "use `headers`"),
        ({"url": "file:///etc/passwd"}, "https://HOST/PATH"),
        ({"url": "http://user:secret@h/"}, "https://HOST/PATH"),
        ({"url": "http://h/", "headers": {"A\r\nB": "env:HOME"}}, "env:NAME"),
        ({"command": ["x"], "shell": True}, "shell"),
    ],
)
async def test_settings_that_cannot_work_stop_the_start(bench: Bench, server: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ExtensionError, match=complaint):
        async with bench.open(servers={"desk": server}):
            pass


@pytest.mark.spec("DX-32")
@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ("Bearer hunter2", r"servers\[...\].headers\[...\] must not hold the secret itself; .* env:NAME"),
        ("env:NOT_SET_ANYWHERE", "environment variable NOT_SET_ANYWHERE, which is not set; set it"),
        ("file:no/such/file", "which cannot be read"),
    ],
)
async def test_a_header_is_a_secret_like_any_other(bench: Bench, given: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint) as told:
        async with bench.open(servers={"far": {"url": "http://h/", "headers": {"Authorization": given}}}):
            pass
    assert "hunter2" not in str(told.value)


@pytest.mark.parametrize("name", ["", "a__b", "a_b", "a b", "../x", "x" * 33, "시간"])
async def test_a_name_that_would_be_ambiguous_stops_the_start(bench: Bench, name: str) -> None:
    with pytest.raises(ExtensionError, match="servers"):
        async with bench.open(servers={name: rogue("fine")}):
            pass


async def test_a_server_cannot_take_the_name_of_another_tool(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    async with bench.open(servers={"desk": rogue("fine")}):
        await bench.has("desk__act")
        ours = bench.tool("desk__act")
        other = Bench(bench.state / "other")
        other.registrar.tools.register(ours)
        async with other.open(servers={"desk": rogue("fine")}):
            await until(lambda: "already registered" in caplog.text)
            assert other.tool("desk__act") is ours
        assert other.tool("desk__act") is ours


async def test_without_the_package_the_start_says_what_to_install(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(ExtensionError, match="pip install"):
        async with bench.open(servers={"desk": rogue("fine")}):
            pass


def test_the_sdk_is_loaded_only_when_a_server_is_started() -> None:
    """`finclaw tools list` with the extension in its settings must not pay for it."""
    imports = "import sys, finclaw.builtins.mcp.extension, finclaw.cli.commands.mcp"
    code = f"{imports}; print({{'mcp', 'pydantic'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
