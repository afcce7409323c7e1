"""The card that a person reads before they decide, made by code from the action itself, and texts that imitate one.

A model that writes them could make a false card look true. It is told no id (`transcript/approval_ids.py`), so whatever
looks like one in its words is made up, or was guessed.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Final

from finclaw.approvals.display import format_lines, quote_text, time_of_day, tool_name
from finclaw.errors import ToolDenied
from finclaw.kernel.approval import Approval
from finclaw.kernel.envelope import ActionButton
from finclaw.text import Language
from finclaw.transcript.approval_ids import ID_IN_TEXT, MARK, short_id

LONGEST: Final = 3_500  # characters; nobody reads more, and many chats cut it
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

_QUESTIONS: Final[dict[Language, dict[str, str]]] = {
    "en": {"memory__save": "Save this note?", "memory__forget": "Forget this note?"},
    "ko": {"memory__save": "이 메모를 저장할까요?", "memory__forget": "이 메모를 삭제할까요?"},
}
"""Questions for people who need not know the tool's name. Arguments follow them as below any action."""

TITLES: Final = tuple(words["title"] for words in _WORDS.values())


def card(approval: Approval, *, prefix: str = "/", max_length: int = LONGEST, elsewhere: bool = False) -> str:
    """Raises ToolDenied when it cannot be shown in full. `elsewhere`: for an approver in another chat."""
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
    buttons: list[ActionButton] = []
    for approval in asked:
        yes, no = _LABELS[approval.language]
        which = f" {short_id(approval.id)}" if len(asked) > 1 else ""
        buttons.append(ActionButton(label=yes + which, command=f"{prefix}approve {approval.id}", style="primary"))
        buttons.append(ActionButton(label=no + which, command=f"{prefix}deny {approval.id}", style="danger"))
    return tuple(buttons)


def _paragraphs(approval: Approval, words: dict[str, str]) -> Iterable[str]:
    yield words["title"]
    yield ""
    action = words["action"].format(tool=tool_name(approval))
    yield _QUESTIONS[approval.language].get(approval.tool, action)
    if approval.args:
        yield from (f"• {line}" for line in format_lines(approval.args))
    else:
        yield words["nothing"]
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
        if len(approval.sources) > _SOURCES:
            yield words["more"].format(number=len(approval.sources) - _SOURCES)
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
    yield words["expires"].format(time=time_of_day(approval.expires_at, approval.language))


def _whose(approval: Approval, words: dict[str, str]) -> str:
    who = quote_text(approval.asked_by)[1:-1]
    if approval.requester.name:
        who = f"{quote_text(approval.requester.name)} ({who})"
    if approval.chat_type == "direct":
        return words["for"].format(who=who)
    return words["shared"].format(who=who, place=quote_text(approval.conversation))


def _name(approver: str, words: dict[str, str]) -> str:
    kind, _, role = approver.partition(":")
    if kind == "role" and ":" not in role:
        return words["role"].format(role=role)
    return quote_text(approver)[1:-1]


_COMMAND: Final = re.compile(
    r"\S{0,8}\b(?:approve|deny)\b[\s`*_\"':]{1,8}ap-\S{0,40}|\S{0,8}(?:승인|거부)[\s`*_\"':]{1,8}ap-\S{0,40}",
    re.IGNORECASE,
)
_TITLE: Final = re.compile(
    r"^(?:[^\S\n]|[>*_#`])*+(?:" + "|".join(map(re.escape, TITLES)) + r")(?:[^\S\n]|[*_`])*+$",
    re.IGNORECASE | re.MULTILINE,
)
_UNSEEN: Final = (
    r"[*_~`\u00ad\u0300-\u036f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    r"\u20d0-\u20ff\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff]"
)
"""What a reader does not see inside a word: hidden characters, and marks of Markdown."""
_WIDE: Final = "\U0001d400-\U0001d7ff\u24b6-\u24ea"
"""Letters and digits of mathematics, and those in circles."""
_DASH: Final = "-\u02d7\u2010-\u2015\u2043\u2212\ufe58\ufe63\uff0d"
_CYRILLIC: Final = str.maketrans("аверсухкмтнАВЕРСУХКМТН", "abepcyxkmthABEPCYXKMTH")
_LETTER: Final = (
    rf"[0-9A-TV-Za-tv-z\uff10-\uff19\uff21-\uff34\uff36-\uff3a\uff41-\uff54\uff56-\uff5a{_WIDE}аверсухкмтнАВЕРСУХКМТН]"
)
_DISGUISED: Final = re.compile(
    rf"[aAаАａＡ{_WIDE}]{_UNSEEN}*+[pPрРｐＰ{_WIDE}]{_UNSEEN}*+[{_DASH}](?:{_UNSEEN}*+{_LETTER}){{6,60}}+"
)
"""An id to the eye, in whatever letters: a person who reads it would type the id."""
_LENGTH: Final = len("ap-") + 26
_READ_AS_ID: Final = re.compile(r"ap-(?:[0-7oil][0-9a-tv-z]{25,}|(?=[0-9]*[a-z])[0-7][0-9a-tv-z]{5,24})")
_TITLE_STARTS: Final = tuple(title[:8].casefold() for title in TITLES)
_REMOVED: Final = {"en": "[only the gateway shows approval ids]", "ko": "[승인 ID는 게이트웨이만 보여 줍니다]"}


def without_forged_consent(text: str) -> str:
    """The very same text where nothing in it looks like a card's own words."""
    if not _may_hold_consent(text):
        return text
    mark = _REMOVED["ko" if re.search("[가-힣]", text) else "en"]
    clean = _COMMAND.sub(mark, text)
    clean = ID_IN_TEXT.sub(mark, clean).replace(MARK, mark)
    clean = _DISGUISED.sub(lambda found: mark if _reads_as_id(found) else found[0], clean)
    clean = _TITLE.sub("", clean)
    if clean == text:
        return text
    return clean


def _may_hold_consent(text: str) -> bool:
    """A quick look, False for most texts: every word that is shown passes here (`cpu_plain`)."""
    folded = text.casefold()
    if any(map(folded.__contains__, _TITLE_STARTS)):
        return True
    has_dash = "-" in text or not text.isascii()
    return has_dash and ("ap-" in folded or _DISGUISED.search(text) is not None)


def _reads_as_id(found: re.Match[str]) -> bool:
    start, end = found.span()
    around = found.string[max(0, start - 1) : start] + found.string[end : end + 1]
    seen = unicodedata.normalize("NFKC", re.sub(_UNSEEN, "", found[0]).translate(_CYRILLIC)).lower()
    seen = "".join(letter if letter.isalnum() else "-" for letter in seen)
    if seen == found[0].lower():
        return False  # in plain letters: what `ID_IN_TEXT` leaves is somebody's invoice
    is_whole = len(seen) >= _LENGTH
    glued = any(each.isascii() and each.isalnum() for each in around)
    return _READ_AS_ID.fullmatch(seen) is not None and (is_whole or not glued)
