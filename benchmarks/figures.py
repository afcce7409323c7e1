"""From the rounds of a run to the figures: ours and a reference's, their ratio, and the goals."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from benchmarks.peers import AGENTS, OURS, OURS_OPENAI, REFERENCE, REFERENCE_OPENAI

Rounds = Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]]
"""Peer, then kind of measure (slices, speed, memory, cold), then one result a round."""


@dataclass(frozen=True)
class Goal:
    """`of` says what is bounded: our value itself, our CPU time on a machine of ordinary speed (decision 0028), or the
    ratio to the reference."""

    bound: float
    of: Literal["ratio", "value", "cpu"] = "ratio"
    at_least: bool = False

    def met(self, value: float | None, ratio: float | None, slowness: float = 1.0) -> bool | None:
        judged = ratio if self.of == "ratio" else value
        if judged is None:
            return None
        if self.of == "cpu":
            judged /= slowness
        return judged >= self.bound if self.at_least else judged <= self.bound

    def __str__(self) -> str:
        sign, unit = "≥" if self.at_least else "≤", {"ratio": "×", "value": "", "cpu": "·s"}[self.of]
        return f"{sign} {self.bound:g}{unit}"


@dataclass(frozen=True)
class Plan:
    """Where a figure comes from: `kind` of measure, `path` into its result, and what it should be."""

    figure: str
    unit: str
    kind: str
    path: str
    goal: Goal | None
    meaning: str


EVERYWHERE = (
    Plan("cpu_plain", "ms", "slices", "plain_8.cpu_ms", Goal(0.45), "CPU of a plain turn, 8 in flight"),
    Plan("cpu_plain_alone", "ms", "slices", "plain_1.cpu_ms", Goal(0.6), "CPU of a plain turn, alone"),
    Plan("cpu_tool", "ms", "slices", "tool_8.cpu_ms", Goal(0.5), "CPU of a turn with one tool call, 8 in flight"),
    Plan("cpu_tool_alone", "ms", "slices", "tool_1.cpu_ms", None, "CPU of a turn with one tool call, alone"),
    Plan("cpu_first_token", "ms", "slices", "first_8.cpu_ms", Goal(0.6), "CPU before the first text, 8 in flight"),
    Plan("cpu_first_token_alone", "ms", "slices", "first_1.cpu_ms", Goal(0.8), "CPU before the first text, alone"),
    Plan("cpu_64", "ms", "speed", "plain_64.cpu_ms", None, "CPU of a plain turn, 64 in flight"),
    Plan("cpu_64_paced", "ms", "slices", "paced_64.cpu_ms", Goal(0.5), "the same, 10 ms between chunks"),
    Plan(
        "us_per_history_message",
        "µs",
        "speed",
        "history",
        Goal(0.5, "cpu"),
        "CPU a message of history, 10 to 5,000 messages",
    ),
    Plan(
        "us_per_history_message_evicted",
        "µs",
        "speed",
        "evicted",
        Goal(2, "cpu"),
        "the same, the conversation read from disk",
    ),
    Plan("kb_written", "kB", "speed", "plain_64.written_kb", Goal(20, "value"), "written to disk a turn, 64 in flight"),
    Plan("kb_written_alone", "kB", "slices", "plain_1.written_kb", Goal(100, "value"), "written to disk a turn, alone"),
    Plan("kb_written_at_10", "kB", "speed", "history_10.written_kb", None, "the same after 10 messages"),
    Plan("kb_written_at_5000", "kB", "speed", "history_5000.written_kb", None, "the same after 5,000 messages"),
    Plan(
        "kb_sent_at_5000",
        "kB",
        "speed",
        "history_5000.sent_kb",
        Goal(0.9, at_least=True),
        "sent to the model after 5,000 messages: all of them",
    ),
    Plan("kb_idle_session", "kB", "memory", "kb_idle_session", Goal(4, "value"), "memory a conversation, idle"),
    Plan("kb_in_flight", "kB", "memory", "kb_in_flight", Goal(40, "value"), "memory a turn waiting for its model"),
    Plan("files_a_session", "", "memory", "files_a_session", Goal(0.01, "value"), "open files a conversation"),
    Plan(
        "durable_turns_per_s",
        "/s",
        "speed",
        "plain_64.turns_per_s",
        Goal(200, "value", at_least=True),
        "turns a second, 64 in flight (the reference keeps nothing)",
    ),
)
COLD = (
    Plan("cold_cpu", "ms", "cold", "cpu_ms", Goal(600, "cpu"), "CPU from nothing to the first answer"),
    Plan("rss", "MB", "cold", "rss_mb", Goal(60, "value"), "memory after it"),
)
BESIDE_AGENTS = (
    Plan("agents_cpu_plain", "ms", "slices", "plain_8.cpu_ms", Goal(0.1), "CPU of a plain turn, 8 in flight"),
    Plan("agents_cpu_tool", "ms", "slices", "tool_8.cpu_ms", None, "CPU of a turn with one tool call, 8 in flight"),
    Plan("agents_cpu_at_10", "ms", "speed", "history_10.cpu_ms", None, "CPU of a plain turn after 10 messages"),
    Plan("agents_cpu_at_5000", "ms", "speed", "history_5000.cpu_ms", Goal(0.01), "the same after 5,000 messages"),
)


@dataclass(frozen=True)
class Block:
    """One of ours beside one of theirs."""

    title: str
    ours: str
    reference: str
    plans: Sequence[Plan]


BLOCKS = (
    Block("Over the Anthropic protocol", OURS, REFERENCE, EVERYWHERE + COLD),
    Block(
        "Over the OpenAI protocol",
        OURS_OPENAI,
        REFERENCE_OPENAI,
        [replace(plan, figure=f"openai_{plan.figure}") for plan in EVERYWHERE],
    ),
    Block("Beside openai-agents", OURS_OPENAI, AGENTS, BESIDE_AGENTS),
)
PLANS = [plan for block in BLOCKS for plan in block.plans]


def summarize_rounds(rounds: Rounds, peer: str, kind: str, path: str) -> float | None:
    """The median of the rounds. What is written is their mean: a checkpoint falls into few of them, for all."""
    values = _values(rounds, peer, kind, path)
    if not values:
        return None
    return statistics.fmean(values) if path.endswith("written_kb") else statistics.median(values)


def compare_rounds(rounds: Rounds, ours: str, reference: str, kind: str, path: str) -> float | None:
    """Of slices the median of the ratios of neighbours, of all else the ratio of the medians."""
    if kind == "slices":
        pairs = zip(_values(rounds, ours, kind, path), _values(rounds, reference, kind, path), strict=False)
        ratios = [one / other for one, other in pairs if other]
        return statistics.median(ratios) if ratios else None
    one, other = summarize_rounds(rounds, ours, kind, path), summarize_rounds(rounds, reference, kind, path)
    return one / other if one is not None and other else None


def _values(rounds: Rounds, peer: str, kind: str, path: str) -> list[float]:
    results = rounds.get(peer, {}).get(kind, ())
    return [value for result in results if (value := read_value(result, path)) is not None]


def read_value(result: Mapping[str, Any], path: str) -> float | None:
    """The number at a path like `plain_8.cpu_ms`; `history` and `evicted` are slopes between two lengths."""
    if path in ("history", "evicted"):
        long, short = read_value(result, f"{path}_5000.cpu_ms"), read_value(result, f"{path}_10.cpu_ms")
        return None if long is None or short is None else (long - short) / 4990 * 1e3
    found: Any = result
    for part in path.split("."):
        if part not in found:
            return None
        found = found[part]
    return float(found)


def figures(rounds: Rounds) -> list[dict[str, Any]]:
    """What `latest.json` holds: a row for each of `PLANS`."""
    return [_row(block, plan, rounds) for block in BLOCKS for plan in block.plans]


def _row(block: Block, plan: Plan, rounds: Rounds) -> dict[str, Any]:
    return {
        "figure": plan.figure,
        "ours": _round(summarize_rounds(rounds, block.ours, plan.kind, plan.path)),
        "reference": _round(summarize_rounds(rounds, block.reference, plan.kind, plan.path)),
        "ratio": _round(compare_rounds(rounds, block.ours, block.reference, plan.kind, plan.path)),
        "unit": plan.unit,
    }


def _round(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")


def verdict(plan: Plan, row: Mapping[str, Any], slowness: float = 1.0) -> str:
    if plan.goal is None:
        return ""
    met = plan.goal.met(row["ours"], row["ratio"], slowness)
    return "missing" if met is None else "yes" if met else "no"


def shown(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def times(ratio: float | None) -> str:
    if ratio is None:
        return "–"
    return f"{ratio:.2f}×" if ratio >= 0.1 else f"{ratio:.3g}×"
