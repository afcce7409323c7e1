"""Fixed replies. No figure is in here: there is no fact it could come from."""

from collections.abc import Mapping
from typing import Final

from finclaw.text import Language

EXAMPLES: Final[Mapping[Language, tuple[str, ...]]] = {
    "en": (
        *("Apple price in won", "Compare Tesla and NVIDIA", "Is the New York market open?"),
        *("How did Samsung Electronics do this month?", "News about Tesla", "Show my watchlist"),
    ),
    "ko": (
        *("삼성전자 현재 주가 알려줘", "테슬라랑 엔비디아 비교해줘", "수능날 장 몇 시에 열어?"),
        *("애플 이번 달에 얼마나 올랐어?", "테슬라 뉴스", "관심 종목 보여줘"),
    ),
}
_LISTED: Final = {language: "\n".join(f"• {each}" for each in examples) for language, examples in EXAMPLES.items()}
_QUOTED: Final = {language: ", ".join(f"“{each}”" for each in examples[:3]) for language, examples in EXAMPLES.items()}

PHRASES: Final[Mapping[str, Mapping[Language, str]]] = {
    "not understood": {
        "en": f"Sorry, I did not understand that, so I looked nothing up. These work: {_QUOTED['en']}.",
        "ko": f"죄송합니다. 이해하지 못해 조회하지 않았습니다. 이렇게 물어봐 주세요: {_QUOTED['ko']}.",
    },
    "greeting": {
        "en": f"Hello! I tell prices, changes, charts, hours, news and conversions. For example:\n{_LISTED['en']}",
        "ko": f"안녕하세요! 시세, 등락, 차트, 장 시간, 뉴스, 환율을 알려 드립니다. 예를 들면:\n{_LISTED['ko']}",
    },
    "help": {
        "en": f"You can ask, for example:\n{_LISTED['en']}\nTo talk freely, set `agent.model` to a real model.",
        "ko": f"이렇게 물어봐 주세요.\n{_LISTED['ko']}\n자유롭게 대화하려면 `agent.model`에 실제 모델을 설정하세요.",
    },
    "thanks": {"en": "You are welcome.", "ko": "천만에요."},
    "bye": {"en": "Goodbye!", "ko": "안녕히 가세요!"},
    "introduction": {"en": "(I am an offline assistant.)", "ko": "(저는 오프라인 도우미입니다.)"},
    "demo": {"en": "(I am an offline demo with {} instruments.)", "ko": "(저는 종목 {}개를 아는 오프라인 데모입니다.)"},
    "lacking": {"en": "I do not have {}.", "ko": "{} 자료는 없습니다."},
    "wordless": {"en": "There were no words in your message.", "ko": "보내신 메시지에 글이 없습니다."},
    "empty": {"en": "Your watchlist is empty.", "ko": "관심 종목이 없습니다."},
    "sample": {"en": "A sample portfolio, not your own:", "ko": "예시 포트폴리오입니다. 실제 보유 종목이 아닙니다."},
    "no tool": {
        "en": "I cannot look that up: the tool is not available.",
        "ko": "여기에서는 조회할 도구를 쓸 수 없습니다.",
    },
    "unfinished": {
        "en": "I could not finish that. Please ask again.",
        "ko": "조회를 마치지 못했습니다. 다시 물어봐 주세요.",
    },
    "denied": {"en": "I am not allowed to do that here.", "ko": "여기에서는 허용되지 않습니다."},
    "awaiting": {"en": "That waits for somebody's approval.", "ko": "담당자의 승인을 기다리고 있습니다."},
    "error": {
        "en": "Sorry, that did not work. I guess no figure.",
        "ko": "처리하지 못했습니다. 수치를 추측하지 않습니다.",
    },
    "NoSuchSession": {
        "en": "I have no close of that day ({}): it is no trading day, lies ahead or is too long ago.",
        "ko": "해당 날짜({})의 종가가 없습니다. 휴장일이거나 아직 오지 않았거나 너무 오래된 날짜입니다.",
    },
    "HistoryTooShort": {
        "en": "The prices begin too late for that ({}).",
        "ko": "시세가 그 기간보다 늦게 시작합니다({}).",
    },
    "AllSourcesFailed": {
        "en": "No source gives that at the moment ({}), so I tell no figure. Please try again later.",
        "ko": "지금은 어느 제공처에서도 가져올 수 없어({}) 수치를 드리지 않습니다. 나중에 다시 시도해 주세요.",
    },
    "UnknownDay": {"en": "The calendar does not know “{}”.", "ko": "달력에는 “{}”이(가) 없습니다."},
}
