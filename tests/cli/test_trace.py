"""What a turn did, as a person and a program read it afterwards."""

import json
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from tests.cli.gateway_process import serving
from tests.cli.recorded_turns import Recorder
from tests.cli.terminal import finclaw
from tests.walks.house import Parts
from tests.walks.tools import Desk

from finclaw.cli.commands.trace import trace_of
from finclaw.cli.formatting import fit_line, milliseconds, money, short, table, tokens, width
from finclaw.cli.main import main
from finclaw.errors import AuthFailed, ToolError
from finclaw.kernel.chunk import Usage
from finclaw.kernel.port import ToolScope
from finclaw.testing import Reply, call, delay, fails, reply, say, think


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    return Recorder(tmp_path / "state")


def lines(recorder: Recorder, capsys: pytest.CaptureFixture[str], *argv: str) -> list[str]:
    assert main([*argv, "--state", str(recorder.state)]) == 0
    return capsys.readouterr().out.splitlines()


async def broken(text: str, scope: ToolScope) -> str:
    raise ToolError("no such note")


def test_the_tree(recorder: Recorder, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    desk = Desk()

    async def slow(text: str, scope: ToolScope) -> str:
        await recorder.clock.sleep(1.5)
        return text

    story = recorder.record(
        "메모 두 개\n남겨줘",
        reply(delay(0.5), say("둘 다 할게요\n잠시만요"), call("note", {"text": "하나"}), call("broken")),
        reply(delay(0.25), "다 했어요"),
        extensions=[Parts(tools=[desk.tool("note", slow), desk.tool("broken", broken)])],
    )
    monkeypatch.setenv("TZ", "Asia/Seoul")
    time.tzset()
    try:
        told = lines(recorder, capsys, "trace", "last")
    finally:
        monkeypatch.undo()
        time.tzset()
    turn = story.record.turn_id
    assert told == [
        f"message {story.record.inbound_id}  answered in 2250 ms",
        "│  accepted  2025-01-06 18:00:00 from ada on web",
        "│  session   main:web:local:direct:main+ada",
        "│  text      메모 두 개 남겨줘",
        "│  stages    normalize 0.0, gate 0.0, command 0.0, ack 0.0, context 0.0, dispatch 0.0, execute 2250.0, "
        "deliver 0.0 ms",
        f"└─ turn {turn}  completed  2 steps  2250 ms  200 in + 40 out  $0",
        "   ├─ step 1  offline/demo  500 ms  100 in + 20 out  $0",
        "   │  │  “둘 다 할게요”",
        '   │  ├─ note  ok  1500 ms  {"text":"하나"}',
        "   │  └─ broken  error  0.0 ms  {}",
        "   └─ step 2  offline/demo  250 ms  100 in + 20 out  $0",
        "      “다 했어요”",
    ]


def test_the_same_as_json_and_by_the_messages_id(recorder: Recorder, capsys: pytest.CaptureFixture[str]):
    story = recorder.record("What is AAPL trading at?")
    (line,) = lines(recorder, capsys, "trace", story.record.inbound_id, "--json")
    trace: dict[str, Any] = json.loads(line)
    assert (trace["message_id"], trace["outcome"], trace["sender"]) == (story.record.inbound_id, "answered", "ada")
    assert [stage["name"] for stage in trace["stages"]][-1] == "deliver"
    turn = trace["turn"]
    assert (turn["turn_id"], turn["status"], turn["whole"]) == (story.record.turn_id, "completed", True)
    first, second = turn["steps"]
    (asked,) = first["calls"]
    assert (asked["tool"], asked["arguments"], asked["status"]) == ("market__quote", {"symbol": "AAPL"}, "ok")
    assert asked["facts"] == 6
    assert second["text"].startswith("**Apple (AAPL)**")
    assert sum(step["usage"]["input"] for step in turn["steps"]) == turn["usage"]["input"]


def test_what_is_left_of_a_turn_is_told_as_that(recorder: Recorder, capsys: pytest.CaptureFixture[str]):
    story = recorder.record("hello")
    recorder.record("hello again")
    told = lines(recorder, capsys, "trace", story.record.turn_id)
    assert not any("reset or shortened" in line for line in told)
    finclaw("ask", "x", "--state", recorder.state)
    (turn,) = json.loads(lines(recorder, capsys, "turns", "--limit", "1", "--json")[0])["items"]
    finclaw("ask", "/reset", "--state", recorder.state)
    told = lines(recorder, capsys, "trace", turn["turn_id"])
    assert told[-1] == "   (the conversation was reset or shortened since: this is what is left of the turn)"
    assert "0 steps" in told[-2]


def test_a_turn_that_still_runs_and_one_that_cost_something(recorder: Recorder):
    story = recorder.record("What is AAPL trading at?")
    dear = structs.replace(story, record=structs.replace(story.record, cost=Decimal("0.00012")))
    assert [step.cost for step in trace_of(dear).turn.steps] == [None, None]
    known = [structs.replace(each, metadata={**each.metadata, "cost": "0.00006"}) for each in dear.messages]
    steps = trace_of(structs.replace(dear, messages=tuple(known))).turn.steps
    assert [step.cost for step in steps] == [Decimal("0.00006")] * 2
    runs = structs.replace(story.record, ended_at=None, status="running", usage=Usage())
    half = structs.replace(story, record=runs, outcome=None, messages=story.messages[:2])
    traced = trace_of(half)
    assert (traced.outcome, traced.turn.ms) == (None, None)
    (step,) = traced.turn.steps
    assert step.calls[0].status is None
    assert traced.turn.usage == step.usage != Usage()


def test_a_strangers_text_cannot_repaint_the_terminal(recorder: Recorder, capsys: pytest.CaptureFixture[str]):
    recorder.record(
        "\x1b[2Jhello\r\nyou\u202e",
        reply(say("\x1b]0;title\x07fine"), call("no\x1b[31mtool", {"a": "\x1b[2J"})),
        reply("ok"),
    )
    for command in (["trace", "last"], ["turns"], ["replay", "last"]):
        told = "\n".join(lines(recorder, capsys, *command))
        assert "\x1b" not in told
        assert "\u202e" not in told
        assert "\r" not in told


def test_a_running_gateway_is_asked(tmp_path: Path):
    with serving(tmp_path):
        finclaw("ask", "삼성전자 시세 알려줘", "--state", tmp_path)
        listed = finclaw("turns", "--state", tmp_path)
        traced = finclaw("trace", "last", "--state", tmp_path)
        again = finclaw("replay", "last", "--state", tmp_path)
        unknown = finclaw("trace", "t-1", "--state", tmp_path)
    assert "삼성전자 시세 알려줘" in listed.out
    assert "market__quote  ok" in traced.out
    assert (again.code, again.out.partition(": ")[2]) == (0, "identical (2 steps)\n")
    assert (unknown.code, "`finclaw turns` lists" in unknown.line()) == (2, True)
    for args in (["turns"], ["trace", "last"], ["replay", "last"]):  # and without one it is the same
        before = {"turns": listed, "trace": traced, "replay": again}[args[0]]
        assert finclaw(*args, "--state", tmp_path).out == before.out


# ── the list ────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_list_stands_in_columns(recorder: Recorder, capsys: pytest.CaptureFixture[str]):
    assert "there is no turn yet" in lines(recorder, capsys, "turns")[0]
    for text in ("hello", "삼성전자 시세 알려줘 " * 20, "AAPL?"):
        recorder.record(text)
    head, *rows = lines(recorder, capsys, "turns")
    assert [row.split()[0].rsplit("-")[-1] for row in rows] == ["3", "2", "1"]
    at = head.index("TEXT")
    assert [row[at:].split()[0] for row in rows] == ["AAPL?", "삼성전자", "hello"]
    assert len(lines(recorder, capsys, "turns", "--limit", "2")) == 3
    items = json.loads(lines(recorder, capsys, "turns", "--json")[0])["items"]
    assert items[1]["opening"] == ("삼성전자 시세 알려줘 " * 20)[:80]


@pytest.mark.parametrize("limit", ["0", "501", "-1", "many", "١", ""])
def test_a_limit_is_a_number_from_1_to_500(limit: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit, match="2"):
        main(["turns", "--limit", limit])
    assert "1 to 500" in capsys.readouterr().err


def test_an_unknown_turn_says_what_to_type(recorder: Recorder):
    recorder.record("hello")
    ended = finclaw("trace", "t-00000000-1", "--state", recorder.state)
    assert (ended.code, ended.out) == (2, "")
    assert "`finclaw turns` lists the latest" in ended.line()


# ── figures ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("ms", "says"),
    [(None, "-"), (0.0, "0.0 ms"), (9.96, "10.0 ms"), (9_999.4, "9999 ms"), (61_500.0, "61.5 s")],
)
def test_times(ms: float | None, says: str):
    assert milliseconds(ms) == says


def test_sums():
    assert [money(cost) for cost in (None, Decimal(0), Decimal("0.00012"), Decimal("1.50"), Decimal("1E+2"))] == [
        "-",
        "$0",
        "$0.00012",
        "$1.50",
        "$100",
    ]
    assert tokens(Usage(1_200, 3, 40, 5)) == "1,200 in + 3 out + 40 from cache + 5 to cache"


def test_room_is_counted_in_columns():
    assert short("한글 두\n줄", 6) == "한글 …"
    assert fit_line("한글", 3) == "한…"
    assert fit_line("any", None) == "any"
    rows = table([("A", "N"), ("가나", "5"), ("abc", "12")], right={1})
    assert rows == ["A      N", "가나   5", "abc   12"]
    assert len({sum(map(width, row)) for row in rows}) == 1


def test_a_failure_is_told_to_its_end(recorder: Recorder, capsys: pytest.CaptureFixture[str]) -> None:
    """What to do stands behind what the server said, and that may be long."""
    recorder.record("hi", fails(AuthFailed("api answered 401: " + "no " * 100)))
    reason = next(line for line in lines(recorder, capsys, "trace", "last") if "reason" in line)
    assert reason.startswith("│  reason    AuthFailed: api answered 401: no no")
    assert reason.endswith("or its variable)")


def test_in_a_terminal_a_long_reason_is_wrapped(
    recorder: Recorder, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder.record("hi", fails(AuthFailed("api answered 401: " + "no " * 100)))
    monkeypatch.setattr("finclaw.cli.commands.trace.terminal_columns", lambda: 60)
    told = lines(recorder, capsys, "trace", "last")
    first = next(place for place, line in enumerate(told) if "reason" in line)
    assert all(len(line) <= 60 for line in told)
    assert told[first + 1].startswith("│            no no")
    assert "or its variable)" in " ".join(line.removeprefix("│").strip() for line in told)


@pytest.mark.parametrize(
    ("answer", "remark"),
    [
        (reply("half an ans", stop="max_tokens"), "cut off: agent.max_tokens or the model's own limit was reached"),
        (reply(stop="refusal"), "refused: the provider's rules, not ours"),
        (reply(think("hm")), "the model said nothing; what was said for it:"),
        (reply(), "the model said nothing; what was said for it:"),
    ],
)
def test_an_answer_that_is_none_is_not_shown_as_one(
    recorder: Recorder, capsys: pytest.CaptureFixture[str], answer: Reply, remark: str
) -> None:
    recorder.record("hi", answer)
    step = next(line for line in lines(recorder, capsys, "trace", "last") if "step 1" in line)
    assert remark in step


def test_a_whole_answer_gets_no_remark(recorder: Recorder, capsys: pytest.CaptureFixture[str]) -> None:
    recorder.record("hi", reply("yes"))
    step = next(line for line in lines(recorder, capsys, "trace", "last") if "step 1" in line)
    assert "said" not in step
    assert "cut off" not in step
