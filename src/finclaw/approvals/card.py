"""The card that a person reads before they decide: made by code from the action itself, all of it or nothing."""

from collections.abc import Iterable, Sequence
from typing import Final

from finclaw.approvals.local_time import time_of_day
from finclaw.approvals.safe_display import format_lines, quote_text
from finclaw.errors import ToolDenied
from finclaw.kernel.approval import Approval
from finclaw.kernel.envelope import ActionButton
from finclaw.text import Language
from finclaw.transcript.approval_id import short_id

LONGEST: Final = 3_500
"""Characters of a card. What is longer nobody reads, and many a chat would cut."""
_SOURCES: Final = 5

_WORDS: Final[dict[Language, dict[str, str]]] = {
    "en": {
        "title": "Approval needed. Nothing has been done yet.",
        "action": "Action: {tool}",
        "nothing": "(without arguments)",
        "quote": "Prices as they are now:",
        "lapsed": "Asked again, for the yes that stood came from {who}, who may no longer give it.",
        "sources": (
            "Careful: before this was asked for, the assistant read what others wrote. Such a text can tell it what to "
            "do, so this may be their wish and not yours. Say yes only if you want exactly this. It read:"
        ),
        "more": "… and {number} more",
        "who": "Who may decide: {who}",
        "role": "anyone with the role {role}",
        "sent": "Asked in their own chats: {who}",
        "for": "Asked for by: {who}",
        "shared": "Asked for by: {who}, in {place}",
        "decide": "Yes: {prefix}approve {id}\nNo: {prefix}deny {id}",
        "scopes": "A yes counts once; add {scopes} to let it stand.",
        "expires": "Without an answer by {time} it is a no.",
    },
    "ko": {
        "title": "승인이 필요합니다. 아직 아무것도 실행하지 않았습니다.",
        "action": "실행할 작업: {tool}",
        "nothing": "(인자 없음)",
        "quote": "지금 가격:",
        "lapsed": "{who} 님이 계속 허용했지만 이제는 그럴 권한이 없어 다시 묻습니다.",
        "sources": (
            "주의: 이 요청에 앞서 다른 사람이 쓴 글을 읽었습니다. "
            "그런 글이 시킨 일이라 본인이 원한 것이 아닐 수 있습니다. 정말 원하는 작업일 때만 승인하세요. 읽은 글:"
        ),
        "more": "… 외 {number}건",
        "who": "결정할 수 있는 사람: {who}",
        "role": "{role} 역할을 가진 사람",
        "sent": "개인 대화로 물어본 사람: {who}",
        "for": "요청한 사람: {who}",
        "shared": "요청한 사람: {who} ({place})",
        "decide": "승인: {prefix}approve {id}\n거부: {prefix}deny {id}",
        "scopes": "승인은 한 번만 유효합니다. 계속 허용하려면 {scopes}을(를) 덧붙이세요.",
        "expires": "{time}까지 답이 없으면 거부로 처리합니다.",
    },
}

TITLES: Final = tuple(words["title"] for words in _WORDS.values())


def card(approval: Approval, *, prefix: str = "/", max_length: int = LONGEST, elsewhere: bool = False) -> str:
    """`elsewhere`: for an approver in another chat, who has to be told whose request it is.

    Raises ToolDenied when it cannot be shown in full: nobody consents to what they have not seen.
    """
    words = _WORDS[approval.language]
    shown = "\n".join([*_paragraphs(approval, words), *_how(approval, words, prefix, elsewhere=elsewhere)])
    room = min(max_length, LONGEST)
    if len(shown) > room:
        raise ToolDenied(
            f"{approval.tool} needs a person's approval and is too long to be shown to one in full "
            f"({len(shown)} characters, {room} fit); it was not run. Ask for less at a time."
        )
    return shown


_LABELS: Final[dict[Language, tuple[str, str]]] = {"en": ("Approve", "Deny"), "ko": ("승인", "거부")}


def decision_buttons(asked: Sequence[Approval], prefix: str = "/") -> tuple[ActionButton, ...]:
    """Two below one card; below several, those of each, with the beginning of the id that its card shows."""
    return tuple(button for each in asked for button in _decision(each, prefix, several=len(asked) > 1))


def _decision(approval: Approval, prefix: str, *, several: bool) -> Iterable[ActionButton]:
    which = f" {short_id(approval.id)}" if several else ""
    yes, no = (f"{label}{which}" for label in _LABELS[approval.language])
    yield ActionButton(label=yes, command=f"{prefix}approve {approval.id}", style="primary")
    yield ActionButton(label=no, command=f"{prefix}deny {approval.id}", style="danger")


def _paragraphs(approval: Approval, words: dict[str, str]) -> Iterable[str]:
    yield words["title"]
    yield ""
    yield words["action"].format(tool=quote_text(approval.tool)[1:-1])
    yield from (f"• {line}" for line in format_lines(approval.args)) if approval.args else (words["nothing"],)
    if approval.quote:
        yield ""
        yield words["quote"]
        yield from (f"• {line}" for line in format_lines(approval.quote))
    if approval.lapsed:
        yield ""
        yield words["lapsed"].format(who=quote_text(approval.lapsed)[1:-1])
    if approval.sources:
        yield ""
        yield words["sources"]
        yield from (f"• {quote_text(source)}" for source in approval.sources[:_SOURCES])
        if more := len(approval.sources) - _SOURCES:
            yield from (words["more"].format(number=more),) if more > 0 else ()
    yield ""


def _how(approval: Approval, words: dict[str, str], prefix: str, *, elsewhere: bool) -> Iterable[str]:
    if elsewhere:
        yield _whose(approval, words)
    elif approval.asked_by not in approval.approvers:
        yield words["who"].format(who=", ".join(_name(each, words) for each in approval.approvers))
    if approval.sent_to and not elsewhere:
        yield words["sent"].format(who=", ".join(quote_text(each.name)[1:-1] for each in approval.sent_to))
    yield words["decide"].format(prefix=prefix, id=short_id(approval.id))
    if wider := [scope for scope in approval.scopes if scope != "once"]:
        yield words["scopes"].format(scopes=" / ".join(wider))
    yield words["expires"].format(time=deadline(approval))


def _whose(approval: Approval, words: dict[str, str]) -> str:
    who = quote_text(approval.asked_by)[1:-1]
    if approval.requester.name:
        who = f"{quote_text(approval.requester.name)} ({who})"
    if approval.chat_type == "direct":
        return words["for"].format(who=who)
    return words["shared"].format(who=who, place=quote_text(approval.conversation))


def deadline(approval: Approval) -> str:
    """The time of day after which it is a no, where the person is."""
    return time_of_day(approval.expires_at, approval.language)


def _name(approver: str, words: dict[str, str]) -> str:
    kind, _, role = approver.partition(":")
    return words["role"].format(role=role) if kind == "role" and ":" not in role else quote_text(approver)[1:-1]
