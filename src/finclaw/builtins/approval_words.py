"""Texts of the approval commands, in the language of the person who asks."""

from collections.abc import Sequence
from typing import Final, Literal

from finclaw.approvals.display import (
    action_line,
    action_lines,
    day_of,
    format_lines,
    quote_text,
    short_ids,
    time_of_day,
)
from finclaw.kernel.approval import Approval, RefusalReason, Standing
from finclaw.redaction.redact import redact_for_display
from finclaw.text import Language, shorten
from finclaw.transcript.approval_ids import SHORTEST_TYPED, short_id

Why = RefusalReason | Literal["which", "words"]

_REFUSED: Final[dict[Language, dict[Why, str]]] = {
    "en": {
        "which": "Which one? Write {prefix}approve ID or {prefix}deny ID.",
        "words": "I read this as: {prefix}approve ID, and perhaps once, session or always. Nothing was decided.",
        "unknown": "There is no approval of this id. {prefix}approvals shows what waits. Nothing was decided.",
        "ambiguous": "More than one approval begins so. Write more of its id. Nothing was decided.",
        "too_short": "Write at least {shortest} characters behind ap-. Nothing was decided.",
        "expired": "Too late: this has expired, and was not done. Ask for it again.",
        "already_granted": "This has been approved already; an approval counts once.",
        "already_denied": "This has been denied already.",
        "already_used": "This was approved and has been done; an approval counts once.",
        "failed": "This was approved and could not be done. Ask for it again.",
        "scope": "A yes to this counts once only. Write {prefix}approve ID.",
        "not_an_approver": "You may not decide about this. Nothing was decided.",
        "own_request": "Somebody else has to decide about your own request. Nothing was decided.",
        "our_own_words": "Only a person may decide. Nothing was decided.",
        "forwarded": "A forwarded or edited message decides nothing. Please write it yourself, anew.",
        "unauthenticated": "Nobody can tell here who writes, so nothing is decided here. Use another chat of yours.",
        "elsewhere": "Please decide in the chat in which you asked for it. Nothing was decided.",
    },
    "ko": {
        "which": "어느 요청인가요? {prefix}approve ID 또는 {prefix}deny ID로 적어 주세요.",
        "words": "{prefix}approve ID 뒤에는 once, session, always만 적을 수 있습니다. 아무것도 결정하지 않았습니다.",
        "unknown": "그런 승인 요청이 없습니다. {prefix}approvals에 대기 목록이 있습니다. 아무것도 결정하지 않았습니다.",
        "ambiguous": "그렇게 시작하는 요청이 둘 이상입니다. ID를 더 길게 적어 주세요. 아무것도 결정하지 않았습니다.",
        "too_short": "ap- 뒤에 {shortest}자 이상 적어 주세요. 아무것도 결정하지 않았습니다.",
        "expired": "시간이 지나 만료되었고 실행하지 않았습니다. 다시 요청해 주세요.",
        "already_granted": "이미 승인된 요청입니다. 승인은 한 번만 유효합니다.",
        "already_denied": "이미 거부된 요청입니다.",
        "already_used": "이미 승인되어 실행된 요청입니다. 승인은 한 번만 유효합니다.",
        "failed": "승인되었지만 실행하지 못한 요청입니다. 다시 요청해 주세요.",
        "scope": "이 작업의 승인은 한 번만 유효합니다. {prefix}approve ID로 적어 주세요.",
        "not_an_approver": "이 요청을 결정할 권한이 없습니다. 아무것도 결정하지 않았습니다.",
        "own_request": "본인의 요청은 다른 사람이 결정해야 합니다. 아무것도 결정하지 않았습니다.",
        "our_own_words": "사람만 결정할 수 있습니다. 아무것도 결정하지 않았습니다.",
        "forwarded": "전달되거나 수정된 메시지로는 결정할 수 없습니다. 직접 새로 적어 주세요.",
        "unauthenticated": "누가 쓰는지 확인할 수 없는 곳이라 결정할 수 없습니다. 다른 대화에서 결정해 주세요.",
        "elsewhere": "요청한 대화에서 결정해 주세요. 아무것도 결정하지 않았습니다.",
    },
}

_NOTHING: Final[dict[Language, str]] = {
    "en": "Nothing waits for your decision.",
    "ko": "결정을 기다리는 요청이 없습니다.",
}
_ANSWERS: Final[dict[Language, dict[str, str]]] = {
    "en": {"granted": "Approved ({id}): {action}", "denied": "Denied ({id}), and not done: {action}"},
    "ko": {"granted": "승인했습니다 ({id}): {action}", "denied": "거부하여 실행하지 않습니다 ({id}): {action}"},
}
_REASON: Final[dict[Language, str]] = {"en": "Reason given: {reason}", "ko": "사유: {reason}"}
_BEGINNINGS: Final = tuple(each["granted"].partition("{")[0] for each in _ANSWERS.values())
_LINE: Final = "{id}  {action}  → {time}"
_SHOWN: Final = 20


def refusal_text(why: Why, language: Language, prefix: str = "/") -> str:
    return _REFUSED[language][why].format(prefix=prefix, shortest=SHORTEST_TYPED)


def answer(decided: Approval, language: Language) -> str:
    """What was decided, with all of the action: whoever decided by a false card sees it here."""
    text = _ANSWERS[language][decided.state].format(action="\n".join(action_lines(decided)), id=short_id(decided.id))
    if decided.reason:
        text += f"\n{_REASON[language].format(reason=decided.reason)}"
    return text


def is_yes(reply: str) -> bool:
    """Whether a command answered so that something was approved."""
    return reply.startswith(_BEGINNINGS)


def waiting_text(waiting: Sequence[Approval], language: Language) -> str:
    ids = short_ids(waiting)
    lines = [
        _LINE.format(id=ids[each.id], action=action_line(each), time=time_of_day(each.expires_at, language))
        for each in waiting[:_SHOWN]
    ]
    if len(waiting) > _SHOWN:
        lines.append(f"… +{len(waiting) - _SHOWN}")
    return "\n".join(lines) or _NOTHING[language]


RevokeWhy = RefusalReason | Literal["words"]
GrantLine = Literal["nothing", "here", "everywhere", "line", "more", "how", "revoked"]

_LONGEST_ARGUMENTS: Final = 200
"""Characters of arguments in a list; the card, which shows them whole, is a `/approvals` away for an operator."""

_NOT_REVOKED: Final[dict[Language, dict[RevokeWhy, str]]] = {
    "en": {
        "words": "I read this as: {prefix}grants, or {prefix}grants revoke ID. Nothing was taken back.",
        "unknown": "No yes of this id stands. {prefix}grants shows what does.",
        "not_an_approver": "You may not take this back; whom it lets act and approvers may.",
    },
    "ko": {
        "words": "{prefix}grants 또는 {prefix}grants revoke ID로 적어 주세요. 아무것도 철회하지 않았습니다.",
        "unknown": "그런 허용이 없습니다. {prefix}grants에 허용 목록이 있습니다.",
        "not_an_approver": "이 허용을 철회할 권한이 없습니다. 허용받은 사람과 승인자만 철회할 수 있습니다.",
    },
}

_GRANTS: Final[dict[Language, dict[GrantLine, str]]] = {
    "en": {
        "nothing": "Nothing stands: whatever needs a person is asked for each time.",
        "here": "in one conversation",
        "everywhere": "everywhere",
        "line": "{id}\n  {tool}: {arguments}\n  for {who}, {where}, until {until}; approved by {by}",
        "more": "… and {number} more",
        "how": "To take one back: {prefix}grants revoke ID",
        "revoked": "Taken back: {tool} ({id}). It is asked for again from now on.",
    },
    "ko": {
        "nothing": "계속 허용된 작업이 없습니다. 승인이 필요한 작업은 매번 물어봅니다.",
        "here": "한 대화에서",
        "everywhere": "모든 대화에서",
        "line": "{id}\n  {tool}: {arguments}\n  대상 {who}, {where}, {until}까지, 승인한 사람 {by}",
        "more": "… 외 {number}건",
        "how": "철회하려면: {prefix}grants revoke ID",
        "revoked": "철회했습니다: {tool} ({id}). 이제부터 다시 물어봅니다.",
    },
}


def not_revoked(why: RevokeWhy, language: Language, prefix: str) -> str:
    texts = _NOT_REVOKED[language]
    if why not in texts:
        return refusal_text(why, language, prefix)
    return texts[why].format(prefix=prefix)


def taken_back(grant: Standing, language: Language) -> str:
    return _GRANTS[language]["revoked"].format(tool=_escape(grant.tool), id=short_id(grant.id))


def grants_text(grants: Sequence[Standing], language: Language, prefix: str) -> str:
    words = _GRANTS[language]
    if not grants:
        return words["nothing"]
    lines = [_grant_text(grant, words) for grant in grants[:_SHOWN]]
    if len(grants) > _SHOWN:
        lines.append(words["more"].format(number=len(grants) - _SHOWN))
    lines.append(words["how"].format(prefix=prefix))
    return "\n".join(lines)


def _grant_text(grant: Standing, words: dict[GrantLine, str]) -> str:
    arguments = redact_for_display("; ".join(format_lines(grant.args)))  # a list is no card: nobody decides by it
    return words["line"].format(
        id=short_id(grant.id),
        tool=_escape(grant.tool),
        arguments=shorten(arguments, _LONGEST_ARGUMENTS + 1),
        who=_escape(grant.requester),
        where=words["here" if grant.session else "everywhere"],
        until=day_of(grant.expires_at),
        by=_escape(grant.granted_by),
    )


def _escape(value: str) -> str:
    return quote_text(value)[1:-1]
