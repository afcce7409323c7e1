"""What the gateway says for itself, in the language the person wrote in."""

from typing import Final, Literal

from finclaw.kernel.envelope import Inbound, Outbound
from finclaw.kernel.language import Language, language_of

Notice = (
    Literal["failed", "timeout", "poison", "expired", "reset", "stopped", "stalled", "loop", "too_long", "busy"]
    | Literal["turn_budget", "day_budget", "month_budget", "model_unknown", "wordless"]
)

_ENGLISH: Final[dict[Notice, str]] = {
    "failed": "Sorry, something went wrong and I could not answer this message. Please try again in a moment.",
    "timeout": "Sorry, this took too long and I stopped. Please try again, perhaps with a smaller question.",
    "poison": "Sorry, I could not finish this message after several tries, so I have set it aside. "
    "Please ask in other words.",
    "expired": "I was away when you wrote this, and it has been a while. Please ask again if you still want an answer.",
    "reset": "Stopped: the conversation was reset while I was answering.",
    "stopped": "Stopped.",
    "stalled": "Sorry, I got stuck on this and stopped. Please try again, perhaps in other words.",
    "loop": "Sorry, I kept asking for the same thing and getting the same answer, so I stopped. "
    "Please ask in other words.",
    "too_long": "Sorry, that is more than I can read at once. Please send a shorter message.",
    "busy": "The assistant behind me is not available right now. Please try again in a few minutes.",
    "turn_budget": "This question has used up what one answer may cost, so I stopped. Please ask for less at a time.",
    "day_budget": "The budget for today is used up, so I cannot answer this now. "
    "Please try again tomorrow; the day ends at midnight UTC.",
    "month_budget": "The budget for this month is used up, so I cannot answer this now. "
    "Please ask whoever runs me, or try again next month.",
    "wordless": "Sorry, I came to no answer this time. Please ask again, perhaps in other words.",
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
    "stalled": "죄송합니다. 처리가 멈춰서 중단했습니다. 다른 표현으로 다시 시도해 주세요.",
    "loop": "죄송합니다. 같은 조회를 되풀이해도 같은 결과만 나와서 중단했습니다. 다른 표현으로 다시 물어봐 주세요.",
    "too_long": "죄송합니다. 한 번에 읽기에는 너무 깁니다. 더 짧게 나누어 보내 주세요.",
    "busy": "지금은 답변을 드릴 수 없습니다. 몇 분 뒤에 다시 시도해 주세요.",
    "turn_budget": "이 질문에 쓸 수 있는 비용을 모두 사용하여 중단했습니다. 질문을 나누어 다시 물어봐 주세요.",
    "day_budget": "오늘 예산을 모두 사용하여 지금은 답변을 드릴 수 없습니다. "
    "내일 다시 시도해 주세요. 하루는 UTC 자정에 끝납니다.",
    "month_budget": "이번 달 예산을 모두 사용하여 지금은 답변을 드릴 수 없습니다. "
    "운영자에게 문의하시거나 다음 달에 다시 시도해 주세요.",
    "wordless": "죄송합니다. 이번에는 답변을 만들지 못했습니다. 다른 표현으로 다시 물어봐 주세요.",
    "model_unknown": "선택하신 모델은 여기서 사용할 수 없습니다: {about}. "
    "다른 모델을 고르시거나 선택 없이 다시 보내 주세요. 대화 내용은 그대로 남아 있습니다.",
}

_WORDS: Final[dict[Language, dict[Notice, str]]] = {"en": _ENGLISH, "ko": _KOREAN}


_LONGEST_NAME: Final = 60


def notice(which: Notice, inbound: Inbound, about: str = "") -> Outbound:
    """`about` is what the notice names, as somebody wrote it."""
    name = " ".join(about.split())
    short = name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"
    text = _WORDS[language_of(inbound.text)][which].format(about=short)
    return Outbound(text=text, kind="notice", reply_to=inbound.message_id, thread=inbound.thread)


def at_the_limit(limit: str) -> Notice:
    """By the setting that stands in the way."""
    match limit:
        case "turn_usd":
            return "turn_budget"
        case "user_day_usd" | "agent_day_usd":
            return "day_budget"
        case "month_usd":
            return "month_budget"
        case _:  # nobody knows what the model costs; that is the operator's to change
            return "busy"
