"""Outcomes and steps tell what happened without anybody adding it up again."""

import pytest

from finclaw.kernel.message import Message, Source, Text, ToolCall
from finclaw.kernel.scope import Outcome, OutcomeKind, StageEntry, StepResult
from finclaw.testing.clock import EPOCH


def stages(*results: str) -> tuple[StageEntry, ...]:
    return tuple(StageEntry(f"s{place}", result, 1.0) for place, result in enumerate(results))  # pyright: ignore[reportArgumentType]


@pytest.mark.spec("P-07", "DX-05")
def test_a_skip_tells_where_and_why() -> None:
    outcome = Outcome(kind="skipped", reason="empty", stages=stages("continue", "skip"))
    assert (outcome.success, outcome.skipped_at, outcome.skip_reason) == (True, "s1", "empty")
    assert (outcome.aborted_at, outcome.abort_reason) == (None, None)


@pytest.mark.spec("P-07", "P-16")
def test_an_abort_tells_where_and_why() -> None:
    outcome = Outcome(kind="failed", reason="broken", stages=stages("continue", "abort"))
    assert (outcome.success, outcome.aborted_at, outcome.abort_reason) == (False, "s1", "broken")
    assert outcome.stages_executed == ("s0", "s1")
    assert (outcome.skipped_at, outcome.skip_reason) == (None, None)


@pytest.mark.spec("P-07", "P-06")
@pytest.mark.parametrize(
    ("kind", "success"),
    [
        *((kind, True) for kind in ("answered", "command", "skipped", "joined", "refused")),
        *((kind, False) for kind in ("failed", "expired", "dropped")),
    ],
)
def test_success_is_told_by_the_kind_where_no_stage_failed(kind: OutcomeKind, success: bool) -> None:
    outcome = Outcome(kind=kind, reason="why")
    assert outcome.success is success
    assert outcome.abort_reason == (None if success else "why")


def test_a_step_knows_whether_it_asked_for_tools() -> None:
    def step(*blocks: Text | ToolCall) -> StepResult:
        return StepResult(message=Message("1", "assistant", blocks, Source("assistant"), EPOCH))

    assert not step(Text("hi")).has_tool_calls
    assert step(Text("hi"), ToolCall("c", "t")).has_tool_calls
