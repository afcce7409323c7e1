"""A recorded turn, run again: identical while nothing has changed, and the change named when something has."""

import json
import socket
from asyncio import Event
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from tests.cli.recorded_turns import Recorder
from tests.cli.terminal import finclaw
from tests.ports.nouns import AT
from tests.walks.house import AnyLayer, Parts
from tests.walks.tools import Desk, hang

from finclaw.agent.model.answer import collect
from finclaw.agent.settings import AgentSettings
from finclaw.cli.commands.replay import Difference, replay
from finclaw.cli.main import main
from finclaw.cli.recording import answer_chunks
from finclaw.errors import ConfigError, RateLimited, ToolError
from finclaw.ids import new_id
from finclaw.kernel.chunk import Chunk, Done, TextDelta
from finclaw.kernel.envelope import Outbound
from finclaw.kernel.message import Append, Message, Source, Text, Thinking, ToolCall, ToolResult
from finclaw.kernel.port import Tool, ToolScope
from finclaw.kernel.record import TurnTrace
from finclaw.kernel.scope import DeliveryContext, MessageContext, Outcome, StepContext, StepResult, ToolCallContext
from finclaw.pipeline.settings import PipelineSettings
from finclaw.testing import call, delay, fails, hold, reply, say, think
from finclaw.tools.define import tool


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    return Recorder(tmp_path / "state")


def named(found: list[Difference]) -> list[str]:
    return [each.part for each in found]


async def broken(text: str, scope: ToolScope) -> str:
    raise ToolError(f"no such note: {text}", suggestion="another")


async def buggy(text: str, scope: ToolScope) -> str:
    raise KeyError(text)


# ── nothing has changed ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "text",
    [
        "hello",
        "What is AAPL trading at?",
        "AAPL, MSFT and 005930?",
        "삼성전자랑 애플 시세 알려줘",
        "What is NOSUCHTICKER trading at?",
        "비트코인이 1억원 아래로 떨어지면 알려줘",
    ],
)
def test_a_turn_of_the_offline_model_is_identical(recorder: Recorder, text: str):
    assert replay(recorder.settings, recorder.record(text)) == []


def test_a_turn_in_the_middle_of_a_conversation_is_identical(recorder: Recorder):
    stories = [recorder.record(text) for text in ("AAPL?", "and MSFT?", "삼성전자는?")]
    assert [len(story.before) > 0 for story in stories] == [False, True, True]
    assert [replay(recorder.settings, story) for story in stories] == [[], [], []]


def test_the_same_pieces_are_streamed(recorder: Recorder):
    seen: list[list[int]] = []

    async def watch(ctx: StepContext) -> StepResult:
        result = await ctx.next()
        seen.append(list(result.message.metadata.get("chunks", [])))
        return result

    watching = Parts([("step", watch)])
    story = recorder.record("AAPL?", extensions=[watching])
    assert replay(recorder.settings, story, [watching]) == []
    first, again = seen[: len(seen) // 2], seen[len(seen) // 2 :]
    assert first == again
    assert any(len(chunks) > 3 for chunks in again)


def test_no_tool_is_run_and_nobody_is_asked(recorder: Recorder):
    desk = Desk()
    tools = Parts(tools=[desk.tool("note"), desk.tool("pay", transactional=True)])
    asked: list[str] = []

    async def agree(tool: Tool, args: Mapping[str, Any], scope: ToolScope) -> bool:
        asked.append(tool.spec.name)
        return True

    script = (reply(call("note", {"text": "x"})), reply(call("pay", {"text": "100"})), reply("done"))
    story = recorder.record("go", *script, extensions=[tools], consent=agree)
    assert (desk.runs, asked) == ([("note", "x"), ("pay", "100")], ["pay"])
    assert replay(recorder.settings, story, [tools]) == []
    assert len(desk.runs) == 2
    assert len(asked) == 1


def test_arguments_that_were_read_as_another_type_are_identical(recorder: Recorder):
    @tool("count", "Counts.")
    async def count(n: int) -> str:
        return str(n + 1)

    story = recorder.record("go", reply(call("count", {"n": "4"})), "done", extensions=[Parts(tools=[count])])
    results = [result for message in story.messages for result in message.tool_results]
    assert [result.content.splitlines()[0] for result in results] == ["5"]
    assert replay(recorder.settings, story, [Parts(tools=[count])]) == []


def test_failed_denied_unreadable_and_late_calls_are_identical(recorder: Recorder):
    desk = Desk()
    tools = Parts(
        tools=[
            desk.tool("broken", broken),
            desk.tool("buggy", buggy),
            desk.tool("slow", hang, timeout=5),
            desk.tool("pay", transactional=True),
        ]
    )
    story = recorder.record(
        "go",
        reply(call("broken", {"text": "x"}), call("buggy"), call("slow")),
        reply(call("pay"), call("nonsense")),
        reply(call("note", raw='{"text": "cut o'), call("broken", {"text": 5})),
        reply(think("hm"), say("그만할게요", chunks=3)),
        extensions=[tools],
    )
    statuses = [result.status for message in story.messages for result in message.tool_results]
    assert statuses == ["error", "error", "timeout", "denied", "error", "invalid", "invalid"]
    assert replay(recorder.settings, story, [tools]) == []


def test_a_parallel_batch_is_identical(recorder: Recorder):
    desk = Desk()

    async def by_length(text: str, scope: ToolScope) -> str:
        await recorder.clock.sleep(1 / len(text))
        return f"took {text}"

    tools = Parts(tools=[desk.tool("note", by_length)])
    calls = [call("note", {"text": text}) for text in ("a", "bb", "cccc")]
    story = recorder.record("go", reply(*calls), reply("done"), extensions=[tools])
    results = [result for message in story.messages for result in message.tool_results]
    assert [result.content for result in results] == ["took a", "took bb", "took cccc"]
    assert replay(recorder.settings, story, [tools]) == []


def test_a_turn_that_came_to_its_last_step_is_identical(recorder: Recorder):
    recorder.agent = AgentSettings(max_steps=2)
    desk = Desk()
    tools = Parts(tools=[desk.tool("note")])
    asks = [reply(call("note", {"text": text})) for text in "ab"]
    story = recorder.record("go", *asks, reply("that is all I have"), extensions=[tools])
    assert story.record.status == "max_steps"
    assert replay(recorder.settings, story, [tools]) == []
    recorder.agent = AgentSettings(max_steps=5)
    assert {"status"} <= set(named(replay(recorder.settings, story, [tools])))


def test_a_model_that_went_in_circles_is_warned_again_in_the_same_words(recorder: Recorder):
    desk = Desk()
    tools = Parts(tools=[desk.tool("note")])
    story = recorder.record("go", *[reply(call("note", {"text": "x"}))] * 4, reply("enough"), extensions=[tools])
    assert any("Loop guard" in result.content for message in story.messages for result in message.tool_results)
    assert replay(recorder.settings, story, [tools]) == []


def test_a_turn_that_the_model_failed_is_identical(recorder: Recorder):
    story = recorder.record("go", *[fails(RateLimited("slow down"))] * 3)
    assert story.outcome is not None
    assert story.outcome.kind == "failed"
    assert replay(recorder.settings, story) == []


@pytest.mark.parametrize(("limit_s", "why"), [(60, "timeout after"), (3_600, "no sign of life")])
def test_a_turn_whose_time_ran_out_is_identical(recorder: Recorder, limit_s: int, why: str):
    recorder.pipeline = PipelineSettings(timeout_ms=limit_s * 1_000)
    desk = Desk()
    tools = Parts(tools=[desk.tool("note"), desk.tool("slow", hang, timeout=9_999)])
    for last in (reply("so ", hold(Event())), reply(call("note", {"text": "y"}), call("slow"))):
        story = recorder.record("go", reply(call("note", {"text": "x"})), last, extensions=[tools])
        assert story.outcome is not None
        assert story.outcome.reason.startswith(why)
        assert replay(recorder.settings, story, [tools]) == []


def test_layers_see_the_times_they_saw(recorder: Recorder):
    seen: list[tuple[object, ...]] = []

    async def look(ctx: StepContext) -> StepResult:
        result = await ctx.next()
        context = ctx.turn.context
        seen.append((ctx.turn.input.created_at, context.accepted_at, result.message.created_at, result.stop))
        return result

    desk = Desk()

    async def takes_long(text: str, scope: ToolScope) -> str:
        await recorder.clock.sleep(20)
        return "at last"

    watching = Parts([("step", look)], [desk.tool("note", takes_long)])
    recorder.record("hello")
    recorder.clock.advance(3_600)
    script = (reply(delay(2.5), call("note")), reply("so ", delay(1.25), "it is"))
    story = recorder.record("go", *script, extensions=[watching])
    first = list(seen)
    seen.clear()
    recorder.clock.advance(86_400)
    assert replay(recorder.settings, story, [watching]) == []
    assert seen == first
    assert len(first) == 2


def test_a_layer_that_changes_the_reply_as_it_did_then_is_no_difference(recorder: Recorder):
    async def shout(ctx: DeliveryContext) -> Outbound:
        outbound = await ctx.next()
        return structs.replace(outbound, text=outbound.text.upper())

    loud = Parts([("delivery", shout)])
    story = recorder.record("go", reply(say("quietly spoken", chunks=3)), extensions=[loud])
    assert story.messages[-1].metadata["model_text"] == "quietly spoken"
    assert replay(recorder.settings, story, [loud]) == []
    assert named(replay(recorder.settings, story)) == ["reply"]


def test_what_a_layer_adds_to_the_conversation_is_compared(recorder: Recorder):
    words = ["the market is closed"]

    async def remind(ctx: StepContext) -> StepResult:
        note = Message(new_id(), "user", (Text(words[0]),), Source("extension", name="parts"), AT)
        passing = structs.replace(note, id=new_id(), passing="clock")
        ctx.emit_message_event(Append(note))
        ctx.emit_message_event(Append(passing))
        return await ctx.next()

    reminding = Parts([("step", remind)])
    story = recorder.record("go", reply("fine"), extensions=[reminding])
    assert replay(recorder.settings, story, [reminding]) == []
    words[0] = "장이 열렸습니다"
    (only,) = replay(recorder.settings, story, [reminding])
    assert (only.recorded, only.now) == ("the market is closed", "장이 열렸습니다")
    assert "parts" in only.part
    assert len(replay(recorder.settings, story)) == 1


# ── something has ───────────────────────────────────────────────────────────────────────────────────────────


async def other_arguments(ctx: ToolCallContext) -> ToolResult:
    ctx.args = {**ctx.args, "symbol": "MSFT"}
    return await ctx.next()


async def other_result(ctx: ToolCallContext) -> ToolResult:
    result = await ctx.next()
    return structs.replace(result, content="AAPL is at 1 USD")


async def other_label(ctx: DeliveryContext) -> Outbound:
    outbound = await ctx.next()
    return structs.replace(outbound, text=f"{outbound.text}\n\n(No advice.)")


async def no_tools(ctx: StepContext) -> StepResult:
    ctx.tool_catalog = ()
    return await ctx.next()


async def turned_away(ctx: MessageContext) -> Outcome:
    return Outcome(kind="refused", reason="not today", reply="Come back tomorrow.")


RESULT = "step 1, result 1 (market__quote)"


@pytest.mark.parametrize(
    ("ring", "layer", "parts", "shown"),
    [
        ("tool_call", other_arguments, ["step 1"], '+market__quote {"symbol":"MSFT"}'),
        ("tool_call", other_result, [RESULT], "+AAPL is at 1 USD"),
        ("delivery", other_label, ["reply"], "+(No advice.)"),
        ("step", no_tools, [RESULT, "reply"], "there is no tool 'market__quote' here"),
        ("message", turned_away, ["status", "steps", "outcome", "reply"], "+refused not today"),
    ],
)
def test_what_has_changed_is_named(recorder: Recorder, ring: Any, layer: AnyLayer, parts: list[str], shown: str):
    story = recorder.record("What is AAPL trading at?")
    found = replay(recorder.settings, story, [Parts([(ring, layer)])])
    assert named(found) == parts
    assert shown in "\n".join(line for each in found for line in each.lines())


def test_a_layer_that_always_changed_the_arguments_is_no_difference_where_the_record_says_so(recorder: Recorder):
    changing = Parts([("tool_call", other_arguments)])
    story = recorder.record("What is AAPL trading at?", extensions=[changing])
    (asked,) = (call for message in story.messages for call in message.tool_calls)
    messages = tuple(
        structs.replace(message, metadata={"given": {asked.id: {"symbol": "MSFT"}}})
        if message.tool_results
        else message
        for message in story.messages
    )
    assert replay(recorder.settings, structs.replace(story, messages=messages), [changing]) == []


def test_one_step_more_is_a_difference(recorder: Recorder):
    async def once_more(ctx: StepContext) -> StepResult:
        return structs.replace(await ctx.next(), again="look again")

    story = recorder.record("hello")
    found = replay(recorder.settings, story, [Parts([("step", once_more)])])
    assert {"status", "outcome", "reply"} <= set(named(found))
    assert "no further answer" in "\n".join(line for each in found for line in each.lines())


def test_a_call_without_a_recorded_result_is_a_difference(recorder: Recorder):
    story = recorder.record("What is AAPL trading at?")
    without = tuple(message for message in story.messages if not message.tool_results)
    found = replay(recorder.settings, structs.replace(story, messages=without))
    assert named(found) == [RESULT, "reply"]
    assert found[0].recorded is None
    assert "the record has no result" in str(found[0].now)


def test_nothing_reaches_the_network(recorder: Recorder):
    told: list[str] = []

    async def phone_home(ctx: MessageContext) -> Outcome:
        with socket.socket() as line:
            try:
                line.connect(("127.0.0.1", 9))
            except OSError as error:
                told.append(str(error))
        return await ctx.next()

    story = recorder.record("hello")
    assert replay(recorder.settings, story, [Parts([("message", phone_home)])]) == []
    assert told == ["a replay reaches no network"]


def test_nothing_is_left_behind_and_the_state_is_untouched(recorder: Recorder, monkeypatch: pytest.MonkeyPatch):
    story = recorder.record("AAPL?")
    aside = recorder.state.parent / "aside"
    aside.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(aside))
    before = {path.name: path.read_bytes() for path in recorder.state.iterdir() if path.is_file()}
    assert replay(recorder.settings, story) == []
    assert {path.name: path.read_bytes() for path in recorder.state.iterdir() if path.is_file()} == before
    assert list(aside.iterdir()) == []


# ── what cannot be replayed ─────────────────────────────────────────────────────────────────────────────────


def shortened(story: TurnTrace) -> TurnTrace:
    return structs.replace(story, whole=False)


def running(story: TurnTrace) -> TurnTrace:
    return structs.replace(story, record=structs.replace(story.record, ended_at=None))


def stopped(story: TurnTrace) -> TurnTrace:
    return structs.replace(story, outcome=Outcome(kind="stopped", reason="the session was reset"))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (shortened, "not all there any more"),
        (running, "not ended yet"),
        (stopped, "stopped from outside"),
    ],
)
def test_what_cannot_be_replayed_says_why(recorder: Recorder, change: Any, says: str):
    with pytest.raises(ConfigError, match=says):
        replay(recorder.settings, change(recorder.record("hello")))


# ── at the terminal ─────────────────────────────────────────────────────────────────────────────────────────


def test_the_command_says_identical_and_exits_with_0(recorder: Recorder):
    story = recorder.record("What is AAPL trading at?")
    ended = finclaw("replay", "last", "--state", recorder.state)
    assert (ended.code, ended.out, ended.err) == (0, f"{story.record.turn_id}: identical (2 steps)\n", "")
    told = json.loads(finclaw("replay", story.record.inbound_id, "--json", "--state", recorder.state).out)
    assert told == {"turn_id": story.record.turn_id, "identical": True, "differences": []}


def test_the_command_shows_the_difference_and_exits_with_1(
    recorder: Recorder, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    recorder.record("삼성전자 시세 알려줘")
    monkeypatch.setattr("finclaw.finance.extension.DEMO_LINES", {"en": "(demo)", "ko": "(모의 시장)"})
    assert main(["replay", "last", "--state", str(recorder.state)]) == 1
    out = capsys.readouterr().out
    assert "1 difference (2 steps)\n\nreply\n  --- recorded\n  +++ now\n" in out
    assert "  -(데모 시장: 실제 시세가 아닌 모의 가격입니다.)\n  +(모의 시장)\n" in out
    assert main(["replay", "last", "--json", "--state", str(recorder.state)]) == 1
    (only,) = json.loads(capsys.readouterr().out)["differences"]
    assert only["part"] == "reply"


def test_misuse_exits_with_2_and_says_what_to_type(recorder: Recorder, tmp_path: Path):
    assert "`finclaw ask` makes the first" in finclaw("replay", "last", "--state", tmp_path / "none").line()
    recorder.record("hello")
    for name in ("t-00000000-1", "nonsense", "", "m-1", "u-0-0-0", "../../x", "t-\x1b[31m-1"):
        ended = finclaw("replay", name, "--state", recorder.state)
        assert ended.code == 2
        assert "`finclaw turns` lists the latest" in ended.line()
    assert finclaw("replay", "--state", recorder.state).code == 2


def test_a_reset_conversation_cannot_be_replayed(recorder: Recorder):
    story = recorder.record("hello")
    finclaw("ask", "hi", "--state", recorder.state)
    # Not the same conversation: the story is still whole.
    assert finclaw("replay", story.record.turn_id, "--state", recorder.state).code == 0
    turn = json.loads(finclaw("turns", "--limit", "1", "--json", "--state", recorder.state).out)["items"][0]["turn_id"]
    finclaw("ask", "/reset", "--state", recorder.state)
    ended = finclaw("replay", turn, "--state", recorder.state)
    assert ended.code == 2
    assert "not all there any more" in ended.line()


# ── an answer in its pieces ─────────────────────────────────────────────────────────────────────────────────


@given(st.lists(st.text(min_size=1), min_size=1), st.text())
def test_pieces_come_out_as_they_went_in(pieces: list[str], seen_behind: str):
    text = "".join(pieces)
    metadata = {"chunks": [len(piece) for piece in pieces], "model_text": len(text)}
    answer = Message("a", "assistant", (Text(text + seen_behind),), Source("assistant"), AT, metadata)
    assert [chunk.text for chunk in answer_chunks(answer) if isinstance(chunk, TextDelta)] == pieces


async def test_every_kind_of_block_is_collected_as_it_was():
    blocks = (
        Thinking("음…"),
        Text("둘 다 볼게요"),
        ToolCall("1", "note", {"text": "x", "n": 1.5}),
        ToolCall("2", "note", {}, bad_args='{"cut'),
        ToolCall("3", "note", {}, bad_args='{"whole": 1}'),
        ToolCall("4", "note", {}, bad_args=""),
        ToolCall("5", "note", {}),
    )

    async def stream() -> AsyncIterator[Chunk]:
        for chunk in answer_chunks(Message("a", "assistant", blocks, Source("assistant"), AT)):
            yield chunk
        yield Done()

    assert (await collect(stream(), lambda _: None)).blocks == blocks


@pytest.mark.parametrize("lengths", [[], [1], [100], [0, 0, 3], [2, 2, 2]])
def test_lengths_that_do_not_fit_lose_nothing(lengths: list[int]):
    answer = Message("a", "assistant", (Text("abcdef"),), Source("assistant"), AT, {"chunks": lengths})
    chunks: list[Chunk] = list(answer_chunks(answer))
    assert "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta)) == "abcdef"


def test_differences_survive_a_round_trip():
    one = Difference("reply", "a\nb", None)
    assert msgspec.json.decode(msgspec.json.encode(one), type=Difference) == one
    assert list(one.lines())[3:] == ["-a", "-b"]
