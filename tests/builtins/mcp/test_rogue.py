"""Whatever a server does wrong, it does to itself: the others go on, and it is started again."""

import asyncio
import logging
import os
import resource
import time
from pathlib import Path

import pytest
from tests.builtins.mcp.bench import Bench, honest, rogue, until

from finclaw.errors import ToolError, ToolTimeout
from finclaw.extensions.registrar import CLOSE_GRACE
from finclaw.tools.arguments import ArgumentCheck
from finclaw.tools.process.program import EXIT_GRACE

LOST = r"was lost|no answer"


async def answers_again(bench: Bench, words: str = "acted") -> None:
    """The honest neighbour, without waiting for anybody and without an error."""
    async with asyncio.timeout(20):
        assert words in await bench.run("good__act")


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("crash", "it ended the connection"),
        ("endless garbage", "lines to its standard output that are no messages"),
        ("endless line", "a message of more than 4,000,000 bytes"),
        ("flood", "messages that nobody had asked for"),
        ("huge", "a message of more than 4,000,000 bytes"),
    ],
)
async def test_one_that_is_lost_is_started_again(
    bench: Bench, how: str, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with bench.open(servers={"bad": rogue(how), "good": rogue("fine")}, timeout=30):
        await bench.has("bad__act", "good__act")
        for _ in range(2):
            with pytest.raises(ToolError, match=LOST):
                await bench.run("bad__act")
            await answers_again(bench)
            await until(lambda: told in caplog.text)
            with pytest.raises(ToolError, match="not available now"):  # in the pause
                await bench.run("bad__act")
            assert "bad__act" in bench.names
            caplog.clear()
            await bench.says("bad: up")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 60_000, "its bytes were kept"


@pytest.mark.parametrize("how", ["hang", "silent call"])
async def test_one_that_hangs_costs_its_caller_the_limit_and_nobody_else(bench: Bench, how: str) -> None:
    async with bench.open(servers={"bad": rogue(how), "good": rogue("fine")}, timeout=2):
        await bench.has("bad__act", "good__act")
        began = time.monotonic()
        hanging = asyncio.ensure_future(bench.run("bad__act"))
        await answers_again(bench)
        assert not hanging.done()
        with pytest.raises(ToolTimeout, match=r"within 2 s; it is unknown whether it did anything"):
            await hanging
        assert time.monotonic() - began < 20


async def test_one_that_hangs_for_good_is_ended_and_started_again(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    async with bench.open(servers={"bad": rogue("hang")}, timeout=0.2):
        await bench.has("bad__act")
        with pytest.raises(ToolTimeout):
            await bench.run("bad__act")
        await until(lambda: "did not list its tools within" in caplog.text)
        await bench.says("bad: up")


@pytest.mark.parametrize("how", ["deaf", "dead", "no program"])
async def test_one_that_never_comes_up_keeps_nobody_waiting(bench: Bench, how: str) -> None:
    bad = {"command": ["/nowhere/at-all"]} if how == "no program" else rogue(how)
    async with bench.open(servers={"bad": bad, "good": rogue("fine")}):
        await bench.has("good__act")
        await answers_again(bench)
        assert bench.names == ["good__act"]


async def test_garbage_between_messages_is_skipped(bench: Bench) -> None:
    async with bench.open(servers={"bad": rogue("garbage")}):
        await bench.has("bad__act")
        assert "in spite of it" in await bench.run("bad__act")
        assert "in spite of it" in await bench.run("bad__act")


async def test_news_of_its_tools_without_end_do_not_keep_us_busy(bench: Bench) -> None:
    async with bench.open(servers={"bad": rogue("list changed")}):
        await bench.has("bad__act")
        for _ in range(3):
            assert "listed" in await bench.run("bad__act")


async def test_an_answer_of_the_wrong_shape_is_an_error(bench: Bench) -> None:
    async with bench.open(servers={"bad": rogue("wrong shape")}):
        await bench.has("bad__act")
        with pytest.raises(ToolError, match="an answer that is no result"):
            await bench.run("bad__act")


async def test_a_refusal_is_one_short_line_of_visible_words(bench: Bench) -> None:
    async with bench.open(servers={"bad": rogue("refusal")}):
        await bench.has("bad__act")
        with pytest.raises(ToolError) as caught:
            await bench.run("bad__act")
        said = str(caught.value)
        assert said.startswith("the MCP server bad refused: no way zzz")
        assert len(said) < 400
        assert "\n" not in said


@pytest.mark.parametrize("how", ["family", "stubborn family"])
async def test_its_whole_family_ends_with_it(bench: Bench, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert 4 * EXIT_GRACE < CLOSE_GRACE, (
        "the registrar would leave it behind"
    )  # asked, told, made to, and seen to be gone
    monkeypatch.setattr("finclaw.extensions.registrar.CLOSE_GRACE", 60)  # a busy machine is not a finding
    async with bench.open(servers={"bad": rogue(how)}):
        await bench.has("bad__act")
        parent, child = map(int, (await bench.run("bad__act")).split("\n")[1].split())
        assert _lives(parent)
        assert _lives(child)
        began = time.monotonic()
    assert time.monotonic() - began < 30
    await until(lambda: not _lives(parent) and not _lives(child))


def _lives(pid: int) -> bool:
    """A zombie that nobody has reaped yet does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    os.kill(pid, 0)
    return state != "Z"


async def test_what_it_complains_about_is_logged_in_short(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with bench.open(servers={"bad": rogue("complaints")}):
        await bench.has("bad__act")
        assert "said" in await bench.run("bad__act")
        await until(lambda: "a complaint www" in caplog.text)
    assert "\x1b" not in caplog.text
    assert max(map(len, caplog.messages)) < 400
    assert len(caplog.messages) < 600


async def test_two_tools_that_would_have_one_name_are_both_left_out(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    async with bench.open(servers={"bad": rogue("twins")}):
        await bench.has("bad__c")
        assert bench.names == ["bad__c"]
        assert caplog.text.count("several tools of this server would be called bad__a_b") == 2


async def test_hidden_words_do_not_reach_the_model(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    async with bench.open(servers={"bad": rogue("hidden")}):
        await bench.has("bad__plain")
        assert bench.names == ["bad__plain"]
        description = bench.tool("bad__plain").spec.description
        assert description.isprintable()
        assert "Adds.xxx" in description
        assert len(description) < 1_200
        assert "invisible characters" in caplog.text


async def test_schemas_that_cannot_be_used_leave_only_their_tools_out(bench: Bench) -> None:
    async with bench.open(servers={"bad": rogue("schemas")}):
        await bench.has("bad__fine")
        assert bench.names == ["bad__boolean", "bad__deep", "bad__fine"]
        assert ArgumentCheck().check(bench.tool("bad__boolean").spec, {"a": 1}).args == {"a": 1}


async def test_a_message_too_deep_to_be_read_is_garbage(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with bench.open(servers={"bad": rogue("deep"), "good": rogue("fine")}):
        await bench.has("good__act")
        await until(lambda: "wrote a line that is no message" in caplog.text)


async def test_many_servers_start_side_by_side_and_one_slow_one_holds_up_none(bench: Bench, words: Path) -> None:
    servers = {"slow": rogue("deaf"), "desk": honest(words)} | {f"n{each}": rogue("fine") for each in range(6)}
    async with bench.open(servers=servers):
        await bench.has("desk__greet", *(f"n{each}__act" for each in range(6)))
