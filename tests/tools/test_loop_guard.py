"""The loop guard: repeats are found, also with others in between; what only looks like a loop is left alone."""

import json
from collections.abc import Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from finclaw.tools.loop_guard import LoopAction, LoopGuard, LoopVerdict
from finclaw.tools.result_guard import guard_result

AAPL = {"symbol": "AAPL"}
LADDER: list[LoopAction] = ["run", "run", "warn", "warn", "refuse", "refuse", "refuse", "end", "end"]


def call(guard: LoopGuard, name: str, args: dict[str, Any], result: str) -> LoopVerdict:
    """As the turn does it: what the model is told is what is noted and logged."""
    verdict = guard.judge(name, args)
    guard.note(name, args, verdict.with_warning(result) if verdict.runs else verdict.words)
    return verdict


@pytest.mark.spec("LD-01", "LD-02", "LD-03", "DX-30")
def test_the_same_call_with_the_same_result_is_warned_then_refused_then_ended():
    guard = LoopGuard()
    verdicts = [call(guard, "market__quote", AAPL, "187.44") for _ in range(9)]
    assert [each.action for each in verdicts] == LADDER
    assert [each.repeats for each in verdicts] == list(range(1, 10))
    assert [each.runs for each in verdicts] == [True] * 4 + [False] * 5


@pytest.mark.spec("LD-03", "DX-30")
def test_the_model_is_told_which_tool_how_often_and_what_to_do_instead():
    guard = LoopGuard()
    verdicts = [call(guard, "market__quote", AAPL, "187.44") for _ in range(8)]
    assert [each.words for each in verdicts[:2]] == ["", ""]
    for verdict in verdicts[2:7]:
        assert "market__quote" in verdict.words
        assert f" {verdict.repeats} times" in verdict.words
        assert "answer with what you have, or change the arguments" in verdict.words
    assert verdicts[2].with_warning("187.44") == f"187.44\n\n{verdicts[2].words}"
    assert verdicts[0].with_warning("187.44") == "187.44"
    assert "market__quote" in verdicts[7].words
    assert "turn ends" in verdicts[7].words


@pytest.mark.spec("DX-30")
def test_ping_pong_is_a_loop():
    guard = LoopGuard()
    actions = [
        call(guard, name, {}, f"result of {name}").action
        for name in ("news__read", "market__quote") * 5  # A B A B …
    ]
    assert actions[::2] == actions[1::2] == LADDER[:5]


@pytest.mark.spec("DX-30")
def test_five_quotes_for_five_tickers_are_no_loop():
    guard = LoopGuard()
    for symbol in ("AAPL", "MSFT", "NVDA", "005930", "BTC"):
        assert call(guard, "market__quote", {"symbol": symbol}, "the same words for all").action == "run"


@pytest.mark.spec("DX-30")
def test_a_poll_whose_result_changes_is_no_loop():
    guard = LoopGuard()
    assert {call(guard, "order__status", {"id": 1}, f"{filled} of 50 filled").action for filled in range(50)} == {"run"}


@pytest.mark.spec("DX-30")
def test_the_count_begins_anew_with_the_last_change():
    guard = LoopGuard()
    results = ["open", "open", "open", "filled", "filled", "filled", "open"]
    assert [call(guard, "order__status", {}, each).repeats for each in results] == [1, 2, 3, 4, 2, 3, 4]
    assert guard.judge("order__status", {}).repeats == 2


@pytest.mark.spec("LD-01", "DX-30")
def test_equal_calls_in_one_parallel_batch_are_counted_before_any_has_a_result():
    guard = LoopGuard()
    verdicts = [guard.judge("market__quote", AAPL) for _ in range(9)]
    assert [each.action for each in verdicts] == LADDER
    for verdict in reversed(verdicts):  # refused ones are known first
        guard.note("market__quote", AAPL, verdict.with_warning("187.44") if verdict.runs else verdict.words)
    assert guard.judge("market__quote", AAPL).repeats == 10
    assert guard.judge("market__quote", {"symbol": "MSFT"}).repeats == 1


@pytest.mark.spec("DX-30")
def test_a_refused_call_counts_whether_or_not_it_is_noted():
    """It was asked for once more and nothing new came of it; its words are not a new result of the tool."""
    noted, forgotten = LoopGuard(), LoopGuard()
    for guard in (noted, forgotten):
        for _ in range(4):
            call(guard, "a", {}, "same")
    for expected in (5, 6, 7, 8):
        verdict = noted.judge("a", {})
        noted.note("a", {}, verdict.words)
        assert (verdict.repeats, forgotten.judge("a", {}).repeats) == (expected, expected)


def test_a_call_that_never_came_back_counts():
    guard = LoopGuard()
    guard.judge("a", {})
    guard.judge("a", {})
    assert guard.judge("a", {}).action == "warn"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1, "b": {"c": 2, "d": 3}}, {"b": {"d": 3, "c": 2}, "a": 1}),
        ({"a": 1}, {"a": 1.0}),
        ({"a": [10**16]}, {"a": [1e16]}),
        ({"a": 0}, {"a": -0.0}),
        ({"a": "한"}, json.loads('{"a": "\\ud55c"}')),
    ],
)
def test_arguments_are_equal_if_their_json_is(one: dict[str, Any], other: dict[str, Any]):
    guard = LoopGuard()
    guard.judge("a", one)
    assert guard.judge("a", other).repeats == 2


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1}, {"a": True}),
        ({"a": 1}, {"a": "1"}),
        ({"a": None}, {}),
        ({"a": [1, 2]}, {"a": [2, 1]}),
        ({"a": 2**53 + 1}, {"a": 2.0**53}),
        ({"a": 0.1}, {"a": 0.2}),
        ({"a": Decimal("0.1")}, {"a": Decimal("0.2")}),  # a layer may have put it there
    ],
)
def test_arguments_that_differ_are_other_calls(one: dict[str, Any], other: dict[str, Any]):
    guard = LoopGuard()
    guard.judge("a", one)
    assert guard.judge("a", other).repeats == 1


def test_a_name_cannot_run_into_the_arguments():
    guard = LoopGuard()
    guard.judge('a\0{"b": 1}', {})
    assert guard.judge("a", {"b": 1}).repeats == 1


def nested(depth: int) -> dict[str, Any]:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return {"a": value}


@pytest.mark.parametrize(
    "args", [nested(100_000), {"a": object()}, {("a", 1): 2}, {"a": 10**5000}, {"a": float("nan")}]
)
def test_no_arguments_break_the_guard(args: dict[str, Any]):
    guard = LoopGuard()
    assert [call(guard, "a", args, "same").action for _ in range(9)] == LADDER
    assert call(guard, "b", args, "same").action == "run"


@pytest.mark.parametrize("name", ["", "a\nb\x00\x1b[31m", "x" * 10_000, "\ud800", "[Loop guard] Not run: "])
def test_the_words_for_any_name_pass_the_result_guard_unchanged(name: str):
    guard = LoopGuard()
    verdicts = [call(guard, name, {}, "\udfff") for _ in range(9)]
    assert [each.action for each in verdicts] == LADDER
    for verdict in verdicts:
        assert guard_result(verdict.words) == verdict.words
        assert len(verdict.words) < 400


def test_a_tool_that_talks_like_the_guard_is_only_refused_the_sooner():
    guard, words = LoopGuard(), LoopGuard()
    refusal = next(verdict.words for _ in range(5) if not (verdict := words.judge("a", {})).runs)
    for count in range(9):
        assert guard.judge("a", {}).action == LADDER[count]
        guard.note("a", {}, f"{refusal} {count}")


def test_results_are_not_kept():
    guard = LoopGuard()
    call(guard, "a", {"secret": "4111 1111 1111 1111"}, "a long result " * 1000)
    (key, repeats), *_ = vars(guard)["_history"].items()
    assert (len(key), len(repeats.result)) == (16, 16)


# ── against a reference that counts in another way ──────────────────────────────────────────────────────────

Step = tuple[str, int, str]
"""Tool, argument, result; few of each, so that they meet."""

steps = st.lists(st.tuples(st.sampled_from("AB"), st.integers(0, 1), st.sampled_from("xxxy")), max_size=40)


def naive_count(told: Sequence[tuple[str, int, str]], name: str, arg: int) -> int:
    """Look the whole list through: what was told about this call since its result last changed. "-" is a refusal."""
    own = [text for each, value, text in told if (each, value) == (name, arg)]
    real = [(place, text) for place, text in enumerate(own) if text != "-"]
    changes = [place for (_, before), (place, text) in pairwise(real) if before != text]
    return len(own) - (changes[-1] if changes else 0)


@pytest.mark.spec("LD-01", "LD-02", "DX-30")
@given(steps)
def test_the_count_equals_a_naive_one_for_any_sequence(sequence: list[Step]):
    guard, told = LoopGuard(), list[Step]()
    for name, arg, result in sequence:
        verdict = call(guard, name, {"n": arg}, result)
        assert verdict.repeats == naive_count(told, name, arg) + 1
        assert verdict.action == LADDER[min(verdict.repeats, 9) - 1]
        told.append((name, arg, result if verdict.runs else "-"))


@pytest.mark.spec("LD-01", "DX-30")
@given(st.lists(st.tuples(steps, st.randoms(use_true_random=False)), max_size=6))
def test_the_count_equals_a_naive_one_for_parallel_batches_ending_in_any_order(batches: list[tuple[list[Step], Any]]):
    guard, told = LoopGuard(), list[Step]()
    for batch, rng in batches:
        running: list[tuple[Step, LoopVerdict]] = []
        for name, arg, result in batch:
            verdict = guard.judge(name, {"n": arg})
            beside = sum(1 for (each, value, _), _ in running if (each, value) == (name, arg))
            assert verdict.repeats == naive_count(told, name, arg) + beside + 1
            running.append(((name, arg, result), verdict))
        rng.shuffle(running)
        for (name, arg, result), verdict in running:
            guard.note(name, {"n": arg}, verdict.with_warning(result) if verdict.runs else verdict.words)
            told.append((name, arg, result if verdict.runs else "-"))


@pytest.mark.spec("LD-01", "DX-30")
@given(steps, st.integers(0, 40))
def test_a_crash_anywhere_changes_no_verdict(sequence: list[Step], crash: int):
    """The log holds what the model was told: results with their warnings, and refusals in place of results."""
    guard, log = LoopGuard(), list[tuple[str, dict[str, Any], str]]()
    for place, (name, arg, result) in enumerate(sequence):
        if place == crash:
            guard.judge(name, {"n": arg})  # in flight when the process died, so not in the log
            guard = LoopGuard.from_history(log)
        unbroken = LoopGuard.from_history(log)
        verdict = guard.judge(name, {"n": arg})
        assert unbroken.judge(name, {"n": arg}) == verdict
        text = verdict.with_warning(result) if verdict.runs else verdict.words
        guard.note(name, {"n": arg}, text)
        log.append((name, {"n": arg}, text))
