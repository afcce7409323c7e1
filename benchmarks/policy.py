"""What a judgement costs when there are a thousand rules. `python -m benchmarks.policy`"""

import statistics
from collections.abc import Sequence
from typing import Final

from benchmarks.meter import cpu_seconds
from finclaw.policy.condition import Condition
from finclaw.policy.policy import Policy
from finclaw.policy.rule import Rule
from finclaw.policy.verdict import PolicyContext, ToolFacts

RULES: Final = 1_000
CALLS: Final = 2_000
RUNS: Final = 5
GOAL: Final = 100.0
"""Microseconds of CPU that one judgement may take."""

CALL: Final = PolicyContext(
    tool=ToolFacts(name="order__place", group="finance", transactional=True),
    user="web:u500",
    roles=("trader", "owner"),
    channel="web",
    agent="main",
    args={"amount": "1500.00", "symbol": "AAPL"},
)
LARGE: Final = (Condition(path="amount", op="gt", value=1_000_000),)


def mixed() -> Sequence[Rule]:
    """As a large house might have them: by name and by pattern, for users, roles, channels and everybody."""
    return [
        Rule(f"tool_{number}__*", "deny") if number % 4 == 0
        else Rule(f"order__act_{number}", "require-approval", "tool") if number % 4 == 1
        else Rule("order__*", "allow", "user", (f"web:u{number}",)) if number % 4 == 2
        else Rule("*__place", "require-approval", "role", (f"role-{number}",), LARGE)
        for number in range(RULES)
    ]  # fmt: skip


WORLDS: Final = {
    "mixed rules": mixed(),
    "patterns that all begin with a star": [Rule(f"*__nothing_{number}", "deny") for number in range(RULES)],
    "rules that all fit, without conditions": [Rule("order__*", "allow", priority=n) for n in range(RULES)],
    "rules that all fit, each with a condition that fails": [Rule("*", "deny", when=LARGE)] * RULES,
}


def microseconds(policy: Policy, calls: int = CALLS) -> float:
    before = cpu_seconds()
    for _ in range(calls):
        policy.judge(CALL)
    return (cpu_seconds() - before) / calls * 1e6


def known(rules: Sequence[Rule]) -> float:
    """Of a tool that was judged before."""
    policy = Policy(rules)
    policy.judge(CALL)
    return statistics.median(microseconds(policy) for _ in range(RUNS))


def first(rules: Sequence[Rule]) -> float:
    """Of a tool that nobody has called yet: its name is held against every pattern."""
    return statistics.median(microseconds(Policy(rules), calls=1) for _ in range(RUNS * 4))


if __name__ == "__main__":
    print(f"one judgement with {RULES:,} rules (goal: below {GOAL:g} µs)")
    for name, rules in WORLDS.items():
        print(f"  {name}: {known(rules):.1f} µs; a tool's first: {first(rules):.1f} µs")
