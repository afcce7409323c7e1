"""Estimates beside real tokenizers, measured on texts of our own that the weights were not fitted to.

Median error, and how far under and over it goes:

                     o200k                        claude
    korean chat        4.5 %   -2.7 … +22.0 %      5.9 %  -13.8 … +10.0 %
    english chat       5.7 %   -7.8 … +17.2 %      7.3 %  -11.8 … +14.7 %
    market answer      5.8 %  -11.8 …  +5.9 %      8.8 %  -11.4 … +10.8 %
    json tool result   3.5 %   -8.8 …  +6.7 %      5.9 %   -2.2 …  +9.6 %
    code               5.0 %   -7.8 … +28.9 %      5.2 %   -5.1 … +21.3 %
    mixed              3.8 %   -5.4 …  +6.6 %      5.5 %   -5.8 …  +9.5 %
    hard               3.7 %   -9.2 … +16.4 %      3.8 %   -6.4 … +14.8 %
    all                4.9 %  -11.8 … +28.9 %      5.5 %  -13.8 … +21.3 %

The weights are a quantile regression (under counts more than over) on other texts: documentation, source code,
translated catalogs of messages in ten languages, and made-up tables, JSON, digests and addresses.
"""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct, convert
from msgspec.structs import replace
from tests.machine import is_quick, slowness

from finclaw.agent.window.tokens.count import WEIGHTS, Weights, count_tokens
from finclaw.agent.window.tokens.estimator import A_CALL, A_MESSAGE, AN_IMAGE, Estimator
from finclaw.kernel.chunk import ToolSpec, Vocabulary
from finclaw.kernel.message import Block, Image, Message, Source, Text, Thinking, ToolCall, ToolResult

VOCABULARIES: tuple[Vocabulary, ...] = ("o200k", "claude")


class Sample(Struct, frozen=True):
    kind: str
    name: str
    text: str
    tokens: Mapping[Vocabulary, int]

    def error(self, vocabulary: Vocabulary) -> float:
        return count_tokens(self.text, vocabulary) / self.tokens[vocabulary] - 1


SAMPLES = convert(json.loads(Path(__file__).with_name("token_corpus.json").read_text("utf-8"))["texts"], list[Sample])
KINDS = tuple(dict.fromkeys(each.kind for each in SAMPLES))


# ── beside real tokenizers ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("DX-46")
@pytest.mark.parametrize("vocabulary", VOCABULARIES)
@pytest.mark.parametrize("kind", KINDS)
def test_half_of_every_kind_is_within_a_tenth(kind: str, vocabulary: Vocabulary) -> None:
    errors = [abs(each.error(vocabulary)) for each in SAMPLES if each.kind == kind]
    assert len(errors) >= 6
    assert median(errors) <= 0.10


@pytest.mark.spec("DX-46")
@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_no_text_is_under_by_a_fifth(vocabulary: Vocabulary) -> None:
    errors = {f"{each.kind}, {each.name}": each.error(vocabulary) for each in SAMPLES}
    assert {name: error for name, error in errors.items() if error < -0.20} == {}
    assert {name: error for name, error in errors.items() if error > 0.35} == {}
    assert median(map(abs, errors.values())) <= 0.07


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_a_conversation_of_all_of_them_is_within_a_twentieth(vocabulary: Vocabulary) -> None:
    estimated = sum(count_tokens(each.text, vocabulary) for each in SAMPLES)
    assert estimated == pytest.approx(sum(each.tokens[vocabulary] for each in SAMPLES), rel=0.05)


def test_korean_is_more_than_a_token_for_each_syllable_where_the_vocabulary_lacks_it() -> None:
    text = "배당수익률은 주가 대비 배당금의 비율입니다."
    assert count_tokens(text, "claude") > 1.4 * count_tokens(text, "o200k")


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_english_goes_by_fast(vocabulary: Vocabulary) -> None:
    """42 MB/s were seen, and 20 is the goal; the bound is loose, for a busy machine is not a finding."""
    text = "\n".join(each.text for each in SAMPLES if each.kind == "english chat") * 300
    assert text.isascii()

    def seconds() -> float:
        before = process_time()
        count_tokens(text, vocabulary)
        return process_time() - before

    assert len(text) / min(seconds() for _ in range(9)) > 8e6 / slowness()


@given(st.text() | st.text(st.characters()))
def test_any_text_has_a_number(text: str) -> None:
    tokens = count_tokens(text)
    assert 0 <= tokens <= 4 * len(text)
    assert Estimator().tokens_in(text + "x") >= 1


@given(st.text(max_size=200), st.text(max_size=200))
def test_two_texts_are_about_the_sum_of_both(one: str, other: str) -> None:
    together = count_tokens(f"{one}\n{other}")
    assert together == pytest.approx(count_tokens(one) + count_tokens(other), abs=2)


# ── beside a slow count of the same ─────────────────────────────────────────────────────────────────────────

CLASSES = {
    "a": "[a-z]",
    "A": "[A-Z]",
    "0": "[0-9]",
    " ": "[ \t]",
    "\n": "[\r\n]",
    "x": "[\x80-\u07ff]",
    "t": "[\u0800-\u1fff]",
    "s": "[\u2000-\u2fff\ue000-\uffff]",
    "j": "[\u3000-\u3fff]",
    "c": "[\u4000-\u9fff]",
    "k": "[\ua000-\udfff]",
    "e": "[\U00010000-\U0010ffff]",
}
SIGNS = st.sampled_from(list("bcAB019 \t\n\r.,-€é가나ㅋ漢あ🙂ไ\ud83d"))
RUNS = st.tuples(SIGNS, st.sampled_from([1, 1, 1, 2, 3, 8, 17, 22]))


def plainly(text: str, weights: Weights) -> float:
    """The rules one by one, as somebody would write them down."""
    kinds = (next((name for name, each in CLASSES.items() if re.match(each, sign)), ".") for sign in text)
    classes = "\n" + "".join(kinds)

    def runs(pattern: str) -> list[int]:
        return [len(each) for each in re.findall(pattern, classes)]

    words, after_space = len(re.findall("(?<![aAx])[aAx]", classes)), len(re.findall("(?<= )[aA]", classes))
    signs = re.sub("[.]{8}", "", classes)
    kana = len(re.findall("[\u3100-\u317f]", text))
    return (
        weights.word_after_space * after_space
        + weights.other_word * (words - after_space)
        + weights.small_letter * classes.count("a")
        + weights.seven_small_letters * sum(each // 7 for each in runs("a+"))
        + weights.three_sevens * sum(each // 21 for each in runs("a+"))
        + weights.capital * classes.count("A")
        + weights.hump * classes.count("aA")
        + weights.sixteen_capitals * sum(each // 16 for each in runs("A+"))
        + weights.gap * len(runs(" {2,}"))
        + weights.sixteen_blanks * sum(each // 16 for each in (*runs(" +"), *runs("\n+")))
        + weights.three_digits * sum(each // 3 for each in runs("0+"))
        + weights.two_digits * sum(each % 3 == 2 for each in runs("0+"))
        + weights.one_digit * sum(each % 3 == 1 for each in runs("0+"))
        + weights.letter_beside_digit * (classes.count("a0") + classes.count("0a"))
        + weights.eight_signs * sum(each // 8 for each in runs("[.]+"))
        + weights.run_of_signs * len(re.findall("[.]+", signs))
        + weights.two_signs * sum(len(each) // 2 for each in re.findall("[.]+", signs))
        + weights.ideograph * classes.count("c")
        + weights.kana * (classes.count("j") - kana)
        + weights.single_hangul * kana
        + weights.other_letter * classes.count("x")
        + weights.other_script * classes.count("t")
        + weights.symbol * classes.count("s")
        + weights.emoji * classes.count("e")
        + weights.syllable * classes.count("k")
        + weights.korean_word * len(runs("k+"))
        + weights.four_syllables * sum(each // 4 for each in runs("k+"))
    )


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
@given(st.lists(RUNS, max_size=30).map(lambda runs: "".join(sign * times for sign, times in runs)) | st.text())
def test_the_fast_count_is_that_of_the_rules(vocabulary: Vocabulary, text: str) -> None:
    assert count_tokens(text, vocabulary) == pytest.approx(plainly(text, WEIGHTS[vocabulary]))


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda each: each.name)
def test_and_so_it_is_for_real_texts(sample: Sample) -> None:
    assert count_tokens(sample.text, "claude") == pytest.approx(plainly(sample.text, WEIGHTS["claude"]))


def test_nothing_is_nothing() -> None:
    assert count_tokens("") == 0


def test_a_lone_surrogate_counts() -> None:
    assert count_tokens("\ud83d") > 0


# ── messages ────────────────────────────────────────────────────────────────────────────────────────────────


def message(*blocks: Block, id: str = "m") -> Message:
    return Message(id, "user", blocks, Source("user"), datetime(2026, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    ("block", "least", "most"),
    [
        (Text("What is AAPL trading at?"), 5, 10),
        (Thinking("two prices are needed", "c2lnbmF0dXJl" * 100), 3, 7),
        (Thinking("", "x" * 1_000, redacted=True), 100, 300),
        (Image("image/png", b"\x00" * 500_000), AN_IMAGE, AN_IMAGE),
        (ToolCall("call_1", "market__quote", {"symbols": ["AAPL", "TSLA"]}), A_CALL + 10, A_CALL + 25),
        (ToolCall("call_1", "market__quote", {}, bad_args='{"symbols": ["AA'), A_CALL + 6, A_CALL + 20),
        (ToolCall("call_1", "odd", {"huge": 2**70, "half": "\ud83d", "nan": float("nan")}), A_CALL + 8, A_CALL + 35),
        (ToolResult("call_1", "market__quote", '{"price": "213.49"}'), A_CALL + 6, A_CALL + 14),
    ],
)
def test_each_block_counts_for_what_the_model_reads_of_it(block: Block, least: int, most: int) -> None:
    assert least <= Estimator().tokens_of(message(block)) - A_MESSAGE <= most


def test_blocks_add_up() -> None:
    blocks: tuple[Block, ...] = (Text("one"), ToolCall("c", "clock", {}), ToolResult("c", "clock", "noon"))
    estimator = Estimator()
    alone = [estimator.tokens_of(message(block, id=str(place))) - A_MESSAGE for place, block in enumerate(blocks)]
    assert estimator.tokens_of(message(*blocks)) == A_MESSAGE + sum(alone)


def test_a_tool_is_its_description_and_its_schema() -> None:
    schema = {"type": "object", "properties": {"symbol": {"type": "string"}}}
    assert 25 <= Estimator().tokens_of_tool(ToolSpec("market__quote", "The price of an instrument.", schema)) <= 50


def test_one_that_was_replaced_under_its_id_is_counted_anew() -> None:
    estimator = Estimator()
    long = message(Text("word " * 500))
    assert estimator.tokens_of(long) > 400
    assert estimator.tokens_of(replace(long, blocks=(Text("word"),))) < 10
    assert estimator.tokens_of(long) > 400


def test_a_kept_message_is_one_look_however_long_it_is() -> None:
    estimator = Estimator()
    long = message(Text("The quick brown fox. " * 100_000))
    first = estimator.tokens_of(long)
    before = process_time()
    for _ in range(1_000):
        assert estimator.tokens_of(long) == first
    assert is_quick(process_time() - before, 0.1)  # counting it again would take a minute


def test_what_is_kept_is_bounded_and_what_is_asked_for_stays() -> None:
    estimator = Estimator(kept_tokens=2_000)
    favourite = message(Text("word " * 50), id="favourite")
    counted: set[int] = set()
    for place in range(1_000):
        estimator.tokens_of(message(Text("word " * 50), id=str(place)))
        counted.add(estimator.tokens_of(favourite))
        kept = {**estimator._old, **estimator._young}  # pyright: ignore[reportPrivateUsage]
        assert sum(each.tokens for each in kept.values()) <= 2_000 + 2 * max(counted)
        assert "favourite" in kept
    assert len(counted) == 1
    estimator.evict()
    assert estimator.tokens_of(favourite) in counted


# ── what a model measured ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("DX-46")
def test_it_learns_how_a_model_counts() -> None:
    estimator = Estimator()
    assert estimator.correction.to_model(1_000) == 1_000
    for _ in range(3):
        estimator.correction.learn(1_000, 1_300)
    assert estimator.correction.to_model(1_000) == 1_300


def test_what_it_counts_does_not_change_with_what_it_learns() -> None:
    estimator = Estimator()
    asked = message(Text("What is AAPL trading at?"))
    before = estimator.tokens_of(asked), estimator.tokens_in("word")
    for _ in range(9):
        estimator.correction.learn(1_000, 2_000)
    assert (estimator.tokens_of(asked), estimator.tokens_in("word")) == before


@pytest.mark.parametrize("absurd", [0, -5, 1, 10**12])
def test_an_absurd_report_now_and_then_changes_nothing(absurd: int) -> None:
    estimator = Estimator()
    for turn in range(40):
        estimator.correction.learn(10_000, absurd if turn % 4 == 3 else 11_000)
        if turn > 4:
            assert estimator.correction.to_model(10_000) == pytest.approx(11_000, abs=1)


def test_short_requests_teach_nothing() -> None:
    estimator = Estimator()
    for _ in range(20):
        estimator.correction.learn(20, 400)
    assert estimator.correction.factor == 1.0


def test_it_follows_a_model_that_changes() -> None:
    estimator = Estimator()
    for measured in [1_000] * 20 + [1_500] * 8:
        estimator.correction.learn(1_000, measured)
    assert estimator.correction.factor == 1.5


@given(st.lists(st.tuples(st.integers(-10, 10**9), st.integers(-10, 10**9)), max_size=40))
def test_no_report_moves_it_out_of_bounds(reports: list[tuple[int, int]]) -> None:
    estimator = Estimator()
    for counted, measured in reports:
        estimator.correction.learn(counted, measured)
        assert 0.5 <= estimator.correction.factor <= 3.0
