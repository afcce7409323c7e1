"""Texts of the command for grants, in the language of the person who asks."""

from collections.abc import Sequence
from typing import Final, Literal

from finclaw.approvals.display import day_of, format_lines, quote_text
from finclaw.builtins.approval_words import refusal_text
from finclaw.kernel.approval import RefusalReason, Standing
from finclaw.redaction.redact import redact_for_display
from finclaw.text import Language
from finclaw.transcript.approval_ids import short_id

Why = RefusalReason | Literal["words"]
Line = Literal["nothing", "here", "everywhere", "line", "more", "how", "revoked"]

_SHOWN: Final = 20
_LONGEST: Final = 200
"""Characters of arguments in a list; the card, which shows them whole, is a `/approvals` away for an operator."""

_REFUSED: Final[dict[Language, dict[Why, str]]] = {
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

_WORDS: Final[dict[Language, dict[Line, str]]] = {
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


def not_revoked(why: Why, language: Language, prefix: str) -> str:
    own = _REFUSED[language].get(why)
    return refusal_text(why, language, prefix) if own is None else own.format(prefix=prefix)


def taken_back(grant: Standing, language: Language) -> str:
    return _WORDS[language]["revoked"].format(tool=_escape(grant.tool), id=short_id(grant.id))


def grants_text(grants: Sequence[Standing], language: Language, prefix: str) -> str:
    words = _WORDS[language]
    if not grants:
        return words["nothing"]
    shown = [_line(grant, words) for grant in grants[:_SHOWN]]
    if (more := len(grants) - _SHOWN) > 0:
        shown.append(words["more"].format(number=more))
    return "\n".join([*shown, words["how"].format(prefix=prefix)])


def _line(grant: Standing, words: dict[Line, str]) -> str:
    arguments = redact_for_display("; ".join(format_lines(grant.args)))  # a list is no card: nobody decides by it
    return words["line"].format(
        id=short_id(grant.id),
        tool=_escape(grant.tool),
        arguments=arguments if len(arguments) <= _LONGEST else f"{arguments[:_LONGEST]}…",
        who=_escape(grant.requester),
        where=words["everywhere" if grant.session is None else "here"],
        until=day_of(grant.expires_at),
        by=_escape(grant.granted_by),
    )


def _escape(value: str) -> str:
    return quote_text(value)[1:-1]
