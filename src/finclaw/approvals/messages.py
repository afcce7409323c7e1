"""The messages that follow an approval: the one that runs the action, and the gateway's own lines about it."""

import secrets
from typing import Final, Literal

from msgspec.structs import replace

from finclaw.approvals.display import action_line, time_of_day
from finclaw.kernel.approval import Addressee, Approval, Decision
from finclaw.kernel.envelope import ActionButton, Inbound, Limits, Outbound, Sender
from finclaw.text import Language
from finclaw.transcript.approval_ids import short_id

SPEAKER: Final = "approvals"
CARDS: Final = "approval cards"  # asks an approver in another chat, past every layer
Line = Literal["granted", "denied", "denied_because", "expired", "reminder", "crowded"]

_WORDS: Final[dict[Language, dict[Line, str]]] = {
    "en": {
        "granted": "Approved: {tool}. The gateway itself runs it; tell how it ended.",
        "denied": "Denied, and not done: {action} ({id})",
        "denied_because": "Denied, and not done: {action} ({id}). Reason given: {reason}",
        "expired": "Nobody answered in time, so this was not done: {action} ({id}). Ask again if you still want it.",
        "reminder": "Still waiting for a decision: {action} ({id}), until {time}.",
        "crowded": (
            "Nobody was asked, and nothing done: {tool}. Too much waits for approval already; try again later."
        ),
    },
    "ko": {
        "granted": "승인되었습니다: {tool}. 실행은 게이트웨이가 직접 합니다. 어떻게 끝났는지 알려 주세요.",
        "denied": "거부되어 실행하지 않았습니다: {action} ({id})",
        "denied_because": "거부되어 실행하지 않았습니다: {action} ({id}). 사유: {reason}",
        "expired": "시간 안에 답이 없어 실행하지 않았습니다: {action} ({id}). 필요하면 다시 요청해 주세요.",
        "reminder": "아직 결정을 기다리고 있습니다: {action} ({id}), {time}까지.",
        "crowded": (
            "승인을 기다리는 작업이 이미 너무 많아 묻지도 실행하지도 않았습니다: {tool}. 나중에 다시 요청해 주세요."
        ),
    },
}


def decision_message(approval: Approval, decision: Decision) -> Inbound:
    """For the requester's session: an approval runs the action there; a denial is a line."""
    if decision.verdict != "denied":
        run = line_message(approval, "granted")
        return replace(run, from_extension=None, limits=Limits(approval=approval.id))
    if decision.reason:
        return line_message(approval, "denied_because", decision.reason)
    return line_message(approval, "denied")


def card_message(addressee: Addressee, buttons: tuple[ActionButton, ...]) -> Inbound:
    return Inbound(
        text=addressee.card,
        channel=addressee.channel,
        account=addressee.account,
        conversation=addressee.conversation,
        message_id=addressee.message_id,
        sender=Sender(addressee.sender),
        thread=addressee.thread,
        from_extension=CARDS,
        saying=Outbound(text="", kind="notice", actions=buttons),
    )


def outcome_message(approved: Approval, evidence: Inbound, line: str) -> Inbound:
    return Inbound(
        text=line,
        channel=evidence.channel,
        account=evidence.account,
        conversation=evidence.conversation,
        # Nobody knows it beforehand: a client that names its own messages cannot have taken it.
        message_id=f"{approved.id}:ending:{secrets.token_hex(8)}",
        sender=evidence.sender,
        chat_type=evidence.chat_type,
        thread=evidence.thread,
        from_extension=SPEAKER,
    )


def line_message(approval: Approval, line: Line, reason: str = "") -> Inbound:
    words = _WORDS[approval.language][line].format(
        tool=approval.tool,
        action=action_line(approval),
        id=short_id(approval.id),
        reason=reason,
        time=time_of_day(approval.expires_at, approval.language),
    )
    return Inbound(
        text=words,
        channel=approval.channel,
        account=approval.account,
        conversation=approval.conversation,
        # Nobody knows it beforehand: a client that names its own messages cannot have taken it.
        message_id=f"{approval.id}:{line}:{secrets.token_hex(8)}",
        sender=approval.requester,
        chat_type=approval.chat_type,
        thread=approval.thread,
        mentions_us=True,
        from_extension=SPEAKER,
    )
