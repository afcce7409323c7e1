"""Makes docs/performance.md and its plot from the last run.

python -m benchmarks.page
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.figures import BLOCKS, Block, Rounds, shown, summarize_rounds, times, verdict
from benchmarks.peers import PEERS
from benchmarks.plot import bars

ROOT = Path(__file__).parents[1]
OUT = ROOT / "benchmarks" / "out"
DOCS = ROOT / "docs"

COLUMNS = (
    ("plain turn alone, ms", "slices", "plain_1.cpu_ms"),
    ("8 in flight", "slices", "plain_8.cpu_ms"),
    ("64", "speed", "plain_64.cpu_ms"),
    ("64 paced", "slices", "paced_64.cpu_ms"),
    ("tool turn, 8", "slices", "tool_8.cpu_ms"),
    ("before first text, 8", "slices", "first_8.cpu_ms"),
    ("µs a message of history", "speed", "history"),
    ("kB written, 64", "speed", "plain_64.written_kb"),
    ("at 5,000 messages", "speed", "history_5000.written_kb"),
    ("kB sent at 5,000 messages", "speed", "history_5000.sent_kb"),
    ("turns/s, 64", "speed", "plain_64.turns_per_s"),
    ("kB an idle session", "memory", "kb_idle_session"),
    ("kB in flight", "memory", "kb_in_flight"),
    ("cold start, ms CPU", "cold", "cpu_ms"),
)

READING = """\
*Ours* is the whole gateway: a message comes in, is written to disk, passes the pipeline, is answered through the tool
loop, is folded into the conversation, written to disk again and delivered; every commit is synced before anybody is
told. The *reference* is a loop of thirty lines around the official `anthropic` SDK, or the `openai` one, that keeps its
history in a list and forgets it when it ends; openai-agents keeps its own in its `SQLiteSession`. All talk to one mock
model on the same machine, which gives the same words in the same pieces over both protocols. It answers at once unless
"paced" (10 ms between chunks), so that what is measured is the software and not the model. A real model takes seconds
to answer, so none of these figures is a person's waiting time: they say how many conversations a machine carries.
Every turn sends its whole history: `kb_sent_at_5000` tells what the mock received.

A goal with `s` is CPU time on a machine of ordinary speed: on one that is `s` times as slow it is `s` times as much.

CPU is user and system time of all threads, for one turn, and it is what to compare, as a ratio: other programs on the
machine move it by 10 to 20 %, and turns a second by far more. Turns alone, 8 in flight and paced are measured in slices
of a second or less, one peer after the other in rotation; their ratio is the median of the ratios of neighbours, and
not that of the two cells beside it. All else are medians over interleaved rounds, each in a process of its own; peers
that no goal speaks of have one. Loops that keep nothing write nothing; peers with a store use it as it is shipped, with
whatever syncing it does. `kB written` counts the pages that the kernel sent to the disk;
over the few turns at 10 and 5,000 messages it moves with whether a checkpoint fell among them. Memory is the growth of
the resident set, so small values are noise. The cold start is `finclaw ask` for us, whose answer comes from the
offline assistant, because that is what a new user gets; over OpenAI and for the others it is import plus first answer.
What is measured here and what is not: one machine, no TLS, a model that is never slow in the middle of a word."""


def page(whole: Mapping[str, Any], figures: Sequence[Mapping[str, Any]]) -> str:
    about, rounds = whole["about"], whole["rounds"]
    before, after = about["syncs_per_s"]
    began, ended = about["load"]
    lines = [
        "# Performance",
        "",
        "Made by `make bench` and `python -m benchmarks.page`; do not edit.",
        "",
        f"{about['machine']}; {about['loop']} for all; {about['at']}{'; a quick run' * about['quick']}; "
        f"load {began:.1f} to {ended:.1f}. "
        f"The disk syncs 4 kB {before:,} times a second before the run and {after:,} after it. "
        f"A fixed calculation takes s = {about['slowness']:g} times as long as on the machine for "
        "which goals in CPU time were set.",
        "",
        "![CPU of a plain turn](performance.svg)",
        "",
    ]
    rows = {row["figure"]: row for row in figures}
    for block in BLOCKS:
        lines += [*_beside(block, rows, about["slowness"]), ""]
    lines += ["## How to read this", "", READING, "", "## All peers", "", *_table(rounds)]
    lines += [f"\n{PEERS[peer].title} is missing: {why}" for peer, why in whole["missing"].items()]
    return "\n".join(lines) + "\n"


def _beside(block: Block, rows: Mapping[str, Mapping[str, Any]], slowness: float) -> list[str]:
    lines = [
        f"## {block.title}",
        "",
        f"| figure | meaning | ours | {block.reference} | ratio | unit | goal | met |",
        "|---|---|--:|--:|--:|---|---|---|",
    ]
    for plan in block.plans:
        row = rows[plan.figure]
        lines.append(
            f"| `{plan.figure}` | {plan.meaning} | {shown(row['ours'])} | {shown(row['reference'])} "
            f"| {times(row['ratio'])} | {plan.unit} | {plan.goal or ''} | {verdict(plan, row, slowness)} |"
        )
    return lines


def _table(rounds: Rounds) -> list[str]:
    head = ["| peer |" + "".join(f" {title} |" for title, _, _ in COLUMNS), "|---|" + "--:|" * len(COLUMNS)]
    for name, entry in PEERS.items():
        if name in rounds:
            cells = (shown(summarize_rounds(rounds, name, kind, path)) for _, kind, path in COLUMNS)
            head.append(f"| {entry.title} |" + "".join(f" {cell} |" for cell in cells))
    return head


def plot(rounds: Rounds) -> str:
    kinds = {block.reference: "reference" for block in BLOCKS[:2]} | {block.ours: "ours" for block in BLOCKS}
    rows = [
        (entry.title.replace("*", "").split(",")[0], value, kinds.get(name, ""))
        for name, entry in PEERS.items()
        if name in rounds and (value := summarize_rounds(rounds, name, "slices", "plain_8.cpu_ms"))
    ]
    return bars("CPU of a plain streamed turn, 8 in flight (log scale; less is better)", rows, "ms")


def main() -> None:
    if not (OUT / "rounds.json").exists():
        sys.exit("bench: there is no run yet; start one with `make bench`")
    whole = json.loads((OUT / "rounds.json").read_text())
    (DOCS / "performance.md").write_text(page(whole, json.loads((OUT / "latest.json").read_text())))
    (DOCS / "performance.svg").write_text(plot(whole["rounds"]))


if __name__ == "__main__":
    main()
