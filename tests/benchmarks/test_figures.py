"""The figures of a run: what `latest.json` promises to whoever reads it."""

import os
import sys
import xml.etree.ElementTree as xml
from pathlib import Path
from typing import Any

import pytest
from benchmarks.figures import BLOCKS, PLANS, Goal, figures, read_value, shown, times, verdict
from benchmarks.page import page, plot
from benchmarks.peers import AGENTS, JUDGED, OURS, OURS_OPENAI, PEERS, REFERENCE, REFERENCE_OPENAI
from benchmarks.slices import SLICES, SliceFailed, SliceProcess

PROMISED = {
    "cpu_plain",
    "cpu_plain_alone",
    "cpu_tool",
    "cpu_tool_alone",
    "cpu_first_token",
    "cpu_first_token_alone",
    "cpu_64_paced",
    "us_per_history_message",
    "us_per_history_message_evicted",
    "kb_written",
    "kb_written_alone",
    "cold_cpu",
    "rss",
    "kb_idle_session",
    "kb_in_flight",
    "durable_turns_per_s",
    "openai_cpu_plain",
    "openai_cpu_plain_alone",
    "openai_cpu_tool",
    "openai_cpu_first_token",
    "openai_cpu_64_paced",
    "openai_us_per_history_message",
    "openai_us_per_history_message_evicted",
    "openai_kb_sent_at_5000",
    "agents_cpu_plain",
    "agents_cpu_at_5000",
}


def rounds(scale: float) -> dict[str, list[dict[str, Any]]]:
    turn = {"cpu_ms": 2 * scale, "turns_per_s": 100.0, "written_kb": 10.0}
    speed: dict[str, Any] = {"plain_64": turn}
    slices = dict.fromkeys(SLICES, turn)
    turn["sent_kb"] = 1500.0
    speed |= {f"{kind}_10": turn for kind in ("history", "evicted")}
    speed |= {f"{kind}_5000": {**turn, "cpu_ms": 2 * scale + 4.99} for kind in ("history", "evicted")}
    return {
        "slices": [slices, slices],
        "speed": [speed, speed, speed],
        "cold": [{"cpu_ms": 200.0, "rss_mb": 40.0}],
        "memory": [{"kb_idle_session": 3.0, "kb_in_flight": 30.0, "files_a_session": 0.0}],
    }


RUN = {
    OURS: rounds(1),
    REFERENCE: rounds(4),
    OURS_OPENAI: rounds(2),
    REFERENCE_OPENAI: rounds(16),
    AGENTS: rounds(40),
}


def test_every_promised_figure_is_there_with_its_five_fields() -> None:
    rows = figures(RUN)
    assert {row["figure"] for row in rows} >= PROMISED
    assert all(set(row) == {"figure", "ours", "reference", "ratio", "unit"} for row in rows)


def test_a_figure_is_ours_beside_the_reference() -> None:
    by_name = {row["figure"]: row for row in figures(RUN)}
    assert by_name["cpu_plain"] == {"figure": "cpu_plain", "ours": 2.0, "reference": 8.0, "ratio": 0.25, "unit": "ms"}
    assert by_name["us_per_history_message"]["ours"] == pytest.approx(1.0)


def test_each_block_sets_one_of_ours_beside_its_own_reference() -> None:
    by_name = {row["figure"]: row for row in figures(RUN)}
    assert by_name["openai_cpu_plain"]["ratio"] == 0.125
    assert by_name["agents_cpu_plain"]["ratio"] == 0.05
    assert by_name["agents_cpu_at_5000"]["ratio"] == pytest.approx((4 + 4.99) / (80 + 4.99), rel=1e-3)


def test_every_figure_has_a_name_of_its_own() -> None:
    assert len({plan.figure for plan in PLANS}) == len(PLANS)


def test_the_same_is_wanted_over_both_protocols() -> None:
    ours, openai, _ = BLOCKS
    wanted = {plan.figure: plan.goal for plan in ours.plans}
    assert all(plan.goal == wanted[plan.figure.removeprefix("openai_")] for plan in openai.plans)


def plain_slices(*values: float) -> dict[str, list[dict[str, Any]]]:
    return {"slices": [{"plain_8": {"cpu_ms": value}, "plain_1": {"written_kb": value}} for value in values]}


def test_the_middle_of_the_rounds_counts() -> None:
    by_name = {row["figure"]: row for row in figures({OURS: plain_slices(9.0, 1.0, 2.0)})}
    assert by_name["cpu_plain"]["ours"] == 2.0


def test_slices_are_compared_with_their_neighbours() -> None:
    """A machine that is four times as slow in the second rotation does not move the ratio, only the medians."""
    by_name = {
        row["figure"]: row
        for row in figures({OURS: plain_slices(1.0, 4.0, 4.0), REFERENCE: plain_slices(2.0, 8.0, 2.0)})
    }
    assert by_name["cpu_plain"] == {"figure": "cpu_plain", "ours": 4.0, "reference": 2.0, "ratio": 0.5, "unit": "ms"}


def test_a_peer_that_took_part_in_fewer_rotations_is_compared_over_those() -> None:
    rows = figures({OURS_OPENAI: plain_slices(1.0, 1.0, 9.0), AGENTS: plain_slices(10.0, 10.0)})
    assert next(row["ratio"] for row in rows if row["figure"] == "agents_cpu_plain") == 0.1


def test_what_is_written_in_few_slices_counts_for_all() -> None:
    by_name = {row["figure"]: row for row in figures({OURS: plain_slices(0.0, 0.0, 9.0)})}
    assert by_name["kb_written_alone"]["ours"] == 3.0


def test_what_was_not_measured_is_said_and_not_made_up() -> None:
    rows = figures({OURS: rounds(1)})
    assert all(row["reference"] is None and row["ratio"] is None for row in rows)
    judged = dict(zip((plan.figure for plan in PLANS), map(verdict, PLANS, rows), strict=True))
    assert judged["cpu_plain"] == "missing"
    assert judged["rss"] == "yes"
    assert read_value({}, "plain_8.cpu_ms") is None
    assert shown(None) == times(None) == "–"


@pytest.mark.parametrize(
    ("ratio", "told"), [(1.953, "1.95×"), (0.1, "0.10×"), (0.0098, "0.0098×"), (0.0102, "0.0102×")]
)
def test_a_hundredth_can_be_told_from_more(ratio: float, told: str) -> None:
    assert times(ratio) == told


@pytest.mark.parametrize(
    ("goal", "value", "ratio", "met"),
    [
        (Goal(0.5), 9, 0.5, True),
        (Goal(0.5), 0, 0.6, False),
        (Goal(20, "value"), 20, None, True),
        (Goal(20, "value"), 21, 0.1, False),
        (Goal(200, "value", at_least=True), 199, 9, False),
        (Goal(0.5), 1, None, None),
        (Goal(600, "cpu"), 1_200, None, True),
        (Goal(600, "cpu"), 1_201, None, False),
    ],
)
def test_goals(goal: Goal, value: float, ratio: float | None, met: bool | None) -> None:
    assert goal.met(value, ratio, slowness=2.0) is met


def test_the_page_tells_the_machine_the_disk_and_who_is_missing() -> None:
    about = {
        "machine": "2 cores of something",
        "loop": "asyncio",
        "quick": True,
        "at": "2026-11-15",
        "load": [0.5, 1.5],
        "syncs_per_s": [9000, 9100],
        "slowness": 1.75,
    }
    text = page({"about": about, "rounds": RUN, "missing": {"nanobot": "no such package"}}, figures(RUN))
    for told in (
        "2 cores of something",
        "9,000",
        "9,100",
        "nanobot as shipped",
        "no such package",
        "0.25×",
        "a quick run",
        "s = 1.75 times",
    ):
        assert told in text
    assert all(f"## {block.title}\n" in text and f"| {block.reference} |" in text for block in BLOCKS)
    assert all(f"| `{plan.figure}` |" in text for plan in PLANS)


def test_the_plot_is_a_picture_with_a_bar_for_each() -> None:
    picture = xml.fromstring(plot(RUN))
    assert len(picture.findall("{http://www.w3.org/2000/svg}rect")) == len(RUN)


def test_everybody_a_goal_speaks_of_is_measured_in_every_round() -> None:
    assert {peer for block in BLOCKS for peer in (block.ours, block.reference)} <= set(JUDGED) <= set(PEERS)


# ── a peer's process ────────────────────────────────────────────────────────────────────────────────────────


def start(tmp_path: Path, program: str) -> SliceProcess:
    return SliceProcess([sys.executable, "-c", program], tmp_path, os.environ, tmp_path)


def test_a_process_measures_what_it_is_asked_for(tmp_path: Path) -> None:
    program = "import sys\nprint('ready', flush=True)\nfor each in sys.stdin: print('{\"cpu_ms\": 2}', flush=True)"
    with start(tmp_path, program) as process:
        assert process.measure("plain_8") == process.measure("tool_8") == {"cpu_ms": 2}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("program", ["raise SystemExit('no such package')", "print('ready'); exit('no such package')"])
def test_a_process_that_ends_says_why(tmp_path: Path, program: str) -> None:
    with pytest.raises(SliceFailed, match="no such package"), start(tmp_path, program) as process:
        process.measure("plain_8")
    assert list(tmp_path.iterdir()) == []
