"""Summaries of an action, for lists, answers and what follows a decision. Only the card is made to decide by."""

from collections.abc import Collection, Iterator, Sequence
from typing import Final, Literal

from finclaw.approvals.safe_display import format_lines, quote_text
from finclaw.gateway import Summary
from finclaw.kernel.approval import Approval
from finclaw.kernel.message import ToolStatus
from finclaw.redaction.redact import redact_for_display
from finclaw.text import Language
from finclaw.transcript.approval_id import short_id

Ending = Literal["done", "not done", "failed", "unknown"]

_ENDINGS: Final[dict[Language, dict[Ending, str]]] = {
    "en": {
        "done": "Done as approved: {action}",
        "not done": "Approved, but not done: {action}",
        "failed": "Approved, but it failed: {action}",
        "unknown": "Approved and begun, but nobody knows how it ended: {action}",
    },
    "ko": {
        "done": "승인한 대로 실행했습니다: {action}",
        "not done": "승인했지만 실행하지 않았습니다: {action}",
        "failed": "승인했지만 실행에 실패했습니다: {action}",
        "unknown": "승인하여 시작했지만 어떻게 끝났는지 알 수 없습니다: {action}",
    },
}
_BY_STATUS: Final[dict[ToolStatus, Ending]] = {
    "ok": "done",
    "unknown": "unknown",
    "denied": "not done",
    "invalid": "not done",
    "skipped": "not done",
}
LONGEST: Final = 160
"""Characters of an action in a list."""
_LONGEST_ENDING: Final = 600


def action_line(approval: Approval, longest: int = LONGEST) -> str:
    """`broker__order: symbol = "AAPL"; quantity = 10`, cut where it is too long for a line."""
    shown = redact_for_display("; ".join(_parts(approval)))  # in this order: no half of a secret is left
    line = f"{tool_name(approval)}: {shown}" if shown else tool_name(approval)
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def action_lines(approval: Approval) -> Iterator[str]:
    """Everything that the card showed of it, a line each, to be repeated to whoever decided.

    Without the secrets in it: this answer is kept in the history, which more people read than the card.
    """
    yield tool_name(approval)
    yield from (f"• {redact_for_display(each)}" for each in _parts(approval))


def ending_line(approval: Approval, status: ToolStatus) -> str:
    """What came of it, by the gateway: a model that tells of it may tell it wrong. Empty while it waits again."""
    if status == "awaiting":
        return ""
    words = _ENDINGS[approval.language][_BY_STATUS.get(status, "failed")]
    return words.format(action=action_line(approval, _LONGEST_ENDING))


def tool_name(approval: Approval) -> str:
    return quote_text(approval.tool)[1:-1]


def short_ids(approvals: Collection[Approval]) -> dict[str, str]:
    """For each id the shortest beginning that lists show and that no other of them has."""
    ids = [each.id for each in approvals]
    return {each: _unlike(each, ids) for each in ids}


def summaries(approvals: Sequence[Approval]) -> Sequence[Summary]:
    ids = short_ids(approvals)
    return [(ids[each.id], action_line(each)) for each in approvals]


def _unlike(approval_id: str, ids: Collection[str]) -> str:
    length = len(short_id(approval_id))
    while length < len(approval_id) and sum(each.startswith(approval_id[:length]) for each in ids) > 1:
        length += 1
    return approval_id[:length]


def _parts(approval: Approval) -> list[str]:
    """In the order of the card: what is kept has lost its own."""
    known = [
        *(format_lines(approval.args) if approval.args else ()),
        *(format_lines(approval.quote) if approval.quote else ()),
    ]
    places = {line: approval.card.find(f"• {line}\n") for line in known}
    return sorted(known, key=lambda line: places[line])
