"""Words that stop an answer or begin a conversation anew, and what the gateway says to them, in the person's language.

They count as whole messages only: nobody who asks about a stop order stops anything.
"""

from collections.abc import Sequence
from typing import Final

from finclaw.gateway import StopReport
from finclaw.text import Language

STOP_WORDS: Final = (
    *("stop", "stop it", "stop that", "stop now", "stop please", "please stop", "stop stop", "stop stop stop"),
    *("stop answering", "stop talking", "stop writing", "cancel", "cancel it", "cancel that", "cancel please"),
    *("please cancel", "abort", "halt", "never mind", "nevermind", "forget it", "thats enough", "enough"),
    *("중지", "중지해", "중지해줘", "중지해 줘", "중지해주세요", "중지해 주세요"),
    *("중단", "중단해", "중단해줘", "중단해 줘", "중단해주세요", "중단해 주세요"),
    *(
        "그만",
        "그만해",
        "그만해줘",
        "그만해 줘",
        "그만해주세요",
        "그만해 주세요",
        "그만하세요",
        "그만 그만",
        "이제 그만",
        "됐어 그만",
    ),
    *("멈춰", "멈춰줘", "멈춰 줘", "멈춰주세요", "멈춰 주세요", "멈추세요", "정지", "스톱", "스탑"),
    *("취소", "취소해", "취소해줘", "취소해 줘", "취소해주세요", "취소해 주세요"),
    *("стоп", "стій", "стійте", "зупинись", "зупиніться", "зупини", "зупиніть", "припини", "припиніть", "досить"),
    *("годі", "скасуй", "скасуйте", "скасувати", "відміна", "відміни", "перестань", "будь ласка зупинись"),
)
RESET_WORDS: Final = (
    *("reset", "start over", "new chat", "new conversation", "start a new conversation", "begin anew"),
    *("초기화해줘", "대화 초기화", "대화 초기화해줘", "새 대화", "새로 시작", "새로 시작하자", "처음부터 다시"),
    *("почнімо спочатку", "почати спочатку", "нова розмова", "новий чат"),
)

_TEXTS: Final[dict[Language, dict[str, str]]] = {
    "en": {
        "nothing": "There is nothing to stop here.",
        "stopped": "Stopped.",
        "withdrawn": "Stopped: the rest of the answer is not sent.",
        "dropped": "{count} waiting {message} dropped too.",
        "only_dropped": "{count} waiting {message} dropped.",
        "kept": "{count} other {message} still waiting.",
        "approval": "Still waiting for an approval: {ids}. Nothing runs without it; {prefix}deny withdraws it.",
    },
    "ko": {
        "nothing": "지금 중단할 것이 없습니다.",
        "stopped": "중단했습니다.",
        "withdrawn": "중단했습니다. 답변의 나머지는 보내지 않습니다.",
        "dropped": "기다리던 메시지 {count}개도 취소했습니다.",
        "only_dropped": "기다리던 메시지 {count}개를 취소했습니다.",
        "kept": "이 대화의 메시지 {count}개는 계속 차례를 기다립니다.",
        "approval": "승인을 기다리는 요청이 남아 있습니다: {ids}. "
        "승인 없이는 아무것도 실행되지 않으며, {prefix}deny로 거부할 수 있습니다.",
    },
}


def describe_stop(report: StopReport, language: Language, *, known: bool = False) -> str:
    """What a stop has done, in a few sentences. `known`: something was stopped, and the report of it is lost."""
    texts = _TEXTS[language]
    lines: list[str] = []
    if report.stopped or known:
        lines.append(texts["stopped"])
    elif report.withdrawn:
        lines.append(texts["withdrawn"])
    if report.dropped:
        lines.append(_count(texts["dropped" if lines else "only_dropped"], len(report.dropped), was=True))
    if not lines:
        lines.append(texts["nothing"])
    if report.kept:
        lines.append(_count(texts["kept"], report.kept, was=False))
    if report.warning:
        lines.append(report.warning)
    return " ".join(lines)


def describe_open_approvals(ids: Sequence[str], prefix: str, language: Language) -> str:
    """One line about what waits for a person all the same."""
    return _TEXTS[language]["approval"].format(ids=", ".join(ids), prefix=prefix)


def _count(text: str, count: int, *, was: bool) -> str:
    verb = ("was" if count == 1 else "were") if was else ("is" if count == 1 else "are")
    return text.format(count=count, message=f"{'message' if count == 1 else 'messages'} {verb}")
