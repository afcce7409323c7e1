"""Notices: texts of the gateway itself, in the language in which the person wrote."""

from collections.abc import Sequence
from typing import Final, Literal

from finclaw.errors import AuthFailed, BadRequest, ContextTooLong, NoStream, NotFound, ProviderError, QuotaExceeded
from finclaw.kernel.envelope import Inbound, Outbound
from finclaw.text import Language

Notice = (
    Literal["failed", "timeout", "poison", "expired", "reset", "stopped", "stalled", "loop", "too_long", "busy"]
    | Literal["turn_budget", "day_budget", "month_budget", "model_unknown", "wordless", "out_of_order", "not_taken"]
    | Literal["need_input", "full", "interrupted", "left_out"]
)

_ENGLISH: Final[dict[Notice, str]] = {
    "failed": "Sorry, something went wrong and I could not answer this message. Please try again in a moment.",
    "timeout": "Sorry, this took too long and I stopped. Please try again, perhaps with a smaller question.",
    "poison": "Sorry, I could not finish this message after several tries, so I have set it aside. "
    "Please ask in other words.",
    "expired": "I was away when you wrote this, and it has been a while. Please ask again if you still want an answer.",
    "reset": "Stopped: the conversation was reset while I was answering.",
    "stopped": "Stopped.",
    "interrupted": "Stopped: your newer message comes first.",
    "left_out": "You have written more than I can keep waiting, so I leave some of it out. Please wait for my answer, "
    "and then repeat what is missing.",
    "stalled": "Sorry, I got stuck on this and stopped. Please try again, perhaps in other words.",
    "loop": "Sorry, I kept asking for the same thing and getting the same answer, so I stopped. "
    "Please ask in other words.",
    "too_long": "Sorry, that is more than I can read at once. Please send a shorter message.",
    "busy": "The assistant behind me is not available right now. Please try again in a few minutes.",
    "out_of_order": "I cannot answer now: something about my model has to be put right first, and trying again will "
    "not help until then. If you run me, `finclaw trace last` says what; if not, please tell whoever does.",
    "not_taken": "My model did not take this request, and would refuse the same one again. Please ask in other words, "
    "or begin anew with /reset. If that does not help, please tell whoever runs me.",
    "turn_budget": "To go on would cost more than one answer may, so I stopped. Please ask for less at a time.",
    "day_budget": "What is left of today's budget is not enough for this, so I cannot answer it now. "
    "Please try again tomorrow; the day ends at midnight where I run.",
    "month_budget": "What is left of this month's budget is not enough for this, so I cannot answer it now. "
    "Please ask whoever runs me, or try again next month.",
    "wordless": "Sorry, I came to no answer this time. Please ask again, perhaps in other words.",
    "need_input": "I need to know more before I can go on. Please tell me in more detail what you want.",
    "full": "This chat has too many unanswered messages, so I cannot take more until I have answered some of them. "
    "What you write until then is not answered: please send it again later. Commands still work.",
    "model_unknown": "I cannot use the model you chose here: {about}. Please choose another one, or none; "
    "our conversation is as it was.",
}

_KOREAN: Final[dict[Notice, str]] = {
    "failed": "죄송합니다. 문제가 생겨 이 메시지에 답하지 못했습니다. 잠시 후 다시 시도해 주세요.",
    "timeout": "죄송합니다. 시간이 너무 오래 걸려 중단했습니다. 질문을 조금 줄여 다시 시도해 주세요.",
    "poison": "죄송합니다. 여러 번 시도했지만 이 메시지를 처리하지 못했습니다. 다른 표현으로 다시 물어봐 주세요.",
    "expired": "자리를 비운 사이에 보내신 메시지라 시간이 많이 지났습니다. 아직 필요하시면 다시 물어봐 주세요.",
    "reset": "대화가 초기화되어 답변을 중단했습니다.",
    "stopped": "중단했습니다.",
    "interrupted": "새 메시지에 먼저 답하기 위해 중단했습니다.",
    "left_out": "대기 중인 메시지가 너무 많아 일부는 건너뜁니다. 답변을 받으신 뒤 빠진 내용을 다시 보내 주세요.",
    "stalled": "죄송합니다. 처리가 멈춰서 중단했습니다. 다른 표현으로 다시 시도해 주세요.",
    "loop": "죄송합니다. 같은 조회를 되풀이해도 같은 결과만 나와서 중단했습니다. 다른 표현으로 다시 물어봐 주세요.",
    "too_long": "죄송합니다. 한 번에 읽기에는 너무 깁니다. 더 짧게 나누어 보내 주세요.",
    "busy": "지금은 답변을 드릴 수 없습니다. 몇 분 뒤에 다시 시도해 주세요.",
    "out_of_order": "지금은 답변을 드릴 수 없습니다. 모델 설정이나 계정에 문제가 있어, 해결되기 전에는 다시 시도해도 "
    "같은 결과가 나옵니다. 직접 운영하신다면 `finclaw trace last`로 원인을 확인하시고, "
    "아니라면 운영자에게 알려 주세요.",
    "not_taken": "모델이 이 요청을 받아들이지 않았습니다. 그대로 다시 보내도 마찬가지이니 다른 표현으로 물어보시거나 "
    "/reset으로 대화를 새로 시작해 주세요. 그래도 안 되면 운영자에게 알려 주세요.",
    "turn_budget": "더 진행하면 답변 하나에 쓸 수 있는 비용을 넘게 되어 중단했습니다. "
    "질문을 나누어 다시 물어봐 주세요.",
    "day_budget": "오늘 남은 예산으로는 이 질문에 답변을 드릴 수 없습니다. "
    "내일 다시 시도해 주세요. 하루는 제가 실행되는 곳의 자정에 끝납니다.",
    "month_budget": "이번 달 남은 예산으로는 이 질문에 답변을 드릴 수 없습니다. "
    "운영자에게 문의하시거나 다음 달에 다시 시도해 주세요.",
    "wordless": "죄송합니다. 이번에는 답변을 만들지 못했습니다. 다른 표현으로 다시 물어봐 주세요.",
    "need_input": "계속하려면 조금 더 알아야 합니다. 원하시는 내용을 더 자세히 알려 주세요.",
    "full": "이 대화에 아직 답변하지 못한 메시지가 너무 많아, 먼저 온 메시지에 답변할 때까지 더 받을 수 없습니다. "
    "그동안 보내신 메시지에는 답변하지 않으니 나중에 다시 보내 주세요. 명령어는 계속 쓸 수 있습니다.",
    "model_unknown": "선택하신 모델은 여기서 사용할 수 없습니다: {about}. "
    "다른 모델을 고르시거나 선택 없이 다시 보내 주세요. 대화 내용은 그대로 남아 있습니다.",
}

_WORDS: Final[dict[Language, dict[Notice, str]]] = {"en": _ENGLISH, "ko": _KOREAN}
_LONGEST_NAME: Final = 60


def notice(which: Notice, inbound: Inbound, about: str = "") -> Outbound:
    """`about` is what the notice names, as somebody wrote it."""
    text = _WORDS[inbound.reply_language][which].format(about=_shorten(about))
    return make_notice(text, inbound)


def make_notice(text: str, inbound: Inbound) -> Outbound:
    return Outbound(text=text, kind="notice", reply_to=inbound.answer_to, thread=inbound.thread)


def _shorten(name: str) -> str:
    name = " ".join(name.split())
    return name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"


_UNKNOWN_CALLS: Final[dict[Language, str]] = {
    "en": "{tools} had begun and was cut off: it is not known whether it went through. Please check before you "
    "try again.",
    "ko": "{tools} 실행 중에 끊겨서 처리되었는지 알 수 없습니다. 다시 시도하기 전에 확인해 주세요.",
}


def describe_unknown_calls(tools: Sequence[str], language: Language) -> str:
    return _UNKNOWN_CALLS[language].format(tools=", ".join(map(_plain_name, tools)))


_RENEWED: Final[dict[Language, str]] = {
    "en": "(A new conversation: nothing had been said here for a while, so what came before is not used.)",
    "ko": "(새 대화입니다. 한동안 대화가 없어 이전 내용은 참고하지 않습니다.)",
}


def renewal_line(language: Language) -> str:
    return _RENEWED[language]


_TOOL_NOTE: Final[dict[Language, str]] = {"en": "Using {tool} …", "ko": "{tool} 사용 중 …"}
_PROGRESS: Final[dict[Language, str]] = {"en": "Still working: {tool} …", "ko": "아직 작업 중입니다: {tool} …"}
_THINKING: Final[dict[Language, str]] = {
    "en": "Still working on your answer …",
    "ko": "아직 답변을 준비하고 있습니다 …",
}


def tool_note(tool: str, language: Language) -> str:
    return _TOOL_NOTE[language].format(tool=_plain_name(tool))


def progress_line(tool: str, language: Language) -> str:
    """What is being done when it takes long; `tool` is empty while the model itself is at work."""
    text = _PROGRESS if tool else _THINKING
    return text[language].format(tool=_plain_name(tool))


def _plain_name(tool: str) -> str:
    """`market__get_quote` as a person would write it: `market get quote`."""
    return _shorten(tool.replace("_", " "))


def limit_notice(limit: str) -> Notice:
    """By the setting that stands in the way."""
    match limit:
        case "turn_usd":
            return "turn_budget"
        case "user_day_usd" | "agent_day_usd":
            return "day_budget"
        case "month_usd":
            return "month_budget"
        case _:  # nobody knows what the model costs; that is the operator's to change
            return "out_of_order"


def error_notice(error: ProviderError) -> Notice:
    """By who can do something about it: time, the person, or only who runs the gateway."""
    match error:
        case ContextTooLong():
            return "too_long"
        case BadRequest():
            return "not_taken"
        case AuthFailed() | QuotaExceeded() | NotFound() | NoStream():
            return "out_of_order"
        case _:
            return "busy"
