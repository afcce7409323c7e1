"""The approvals that a turn asked for or ran, from the record, with each change in its order."""

from collections.abc import Iterable, Iterator
from datetime import datetime

from msgspec import Struct

from finclaw.cli.formatting import local_time, short
from finclaw.kernel.approval import Approval
from finclaw.kernel.event import ApprovalChange
from finclaw.kernel.record import TurnTrace
from finclaw.tools.approval.shown import text


class TracedChange(Struct, frozen=True, kw_only=True):
    """A change of an approval.

    `at` is None where the record does not say when; `by` is a person, or the turn that ran it.
    """

    change: ApprovalChange
    at: datetime | None = None
    by: str = ""


class TracedApproval(Struct, frozen=True, kw_only=True):
    """An approval, with its changes."""

    approval_id: str
    call_id: str
    tool: str
    changes: tuple[TracedChange, ...]


def approvals_of(story: TurnTrace, known: Iterable[Approval]) -> tuple[TracedApproval, ...]:
    """Those of this turn, in the order in which they were asked for: the one it ran first, then those it asked for."""
    turn_id = story.record.turn_id
    own = [each for each in known if turn_id in (each.turn_id, each.used_by) or each.id == _approval_that_ran(story)]
    return tuple(map(_trace_approval, sorted(own, key=lambda each: each.asked_at)))


def approval_lines(approval: TracedApproval) -> Iterator[str]:
    yield f"approval {approval.approval_id}  {short(approval.tool, 64)}"
    yield from (f"   {_change_line(change)}" for change in approval.changes)


def _approval_that_ran(story: TurnTrace) -> str | None:
    return None if story.inbound.limits is None else story.inbound.limits.approval


def _trace_approval(approval: Approval) -> TracedApproval:
    return TracedApproval(
        approval_id=approval.id, call_id=approval.call_id, tool=approval.tool, changes=tuple(_changes(approval))
    )


def _changes(approval: Approval) -> Iterator[TracedChange]:
    if approval.lapsed:
        yield TracedChange(change="lapsed", by=approval.lapsed)
    yield TracedChange(change="asked", at=approval.asked_at, by=approval.asked_by)
    yield from (TracedChange(change="notified", by=each.name) for each in approval.sent_to)
    if approval.reminded_at is not None:
        yield TracedChange(change="reminded", at=approval.reminded_at)
    if approval.decided_at is not None:
        word: ApprovalChange = "denied" if approval.state == "denied" else "approved"
        yield TracedChange(change=word, at=approval.decided_at, by=approval.decided_by or "")
    match approval.state:
        case "used":
            yield TracedChange(change="run", by=approval.used_by or "")
        case "failed":
            yield TracedChange(change="failed", by=approval.used_by or "")
        case "expired":
            yield TracedChange(change="expired", at=approval.expires_at)
        case _:
            pass


def _change_line(change: TracedChange) -> str:
    at = "" if change.at is None else f"  {local_time(change.at)}"
    by = f"  {short(text(change.by)[1:-1], 80)}" if change.by else ""
    return f"{change.change:<8}{at}{by}".rstrip()
