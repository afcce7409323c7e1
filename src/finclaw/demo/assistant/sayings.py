"""Fixed replies, for what needs no tool. No figure is in here: there is no fact it could come from."""

from collections.abc import Mapping
from typing import Literal

from finclaw.text import Language

_Polite = Literal["help", "greeting", "thanks", "bye", "ok"]
_Refusal = Literal[
    "unknown",
    "wordless",
    "left",
    "too_long",
    "too_many",
    "advice",
    "trade",
    "news",
    "real",
    "no_tool",
    "unfinished",
]
_Question = Literal["which_one", "which_two", "how_much", "periods"]
_AboutAlerts = Literal["alert_how", "alert_which", "alert_one"]
Saying = _Polite | _Refusal | _Question | _AboutAlerts

_CAN_EN = (
    "I can tell prices, changes and comparisons, market hours and holidays, convert currencies, show a sample "
    "portfolio and keep price alerts. Ask, for example:\n"
    "• What is AAPL trading at?\n"
    "• How did Samsung Electronics do this month?\n"
    "• Compare Tesla and NVIDIA\n"
    "• Is the New York market open?\n"
    "• How much is the euro?\n"
    "• Set an alert for Bitcoin"
)
_CAN_KO = (
    "시세, 등락, 종목 비교, 장 시간과 휴장일, 환율 계산, 예시 포트폴리오, 가격 알림을 도와드릴 수 있습니다. "
    "예를 들어 이렇게 물어봐 주세요.\n"
    "• 삼성전자 현재 주가 알려줘\n"
    "• 애플 이번 달에 얼마나 올랐어?\n"
    "• 테슬라랑 엔비디아 비교해줘\n"
    "• 미국장 언제 열려?\n"
    "• 백만 원은 몇 달러야?\n"
    "• 비트코인 알림 설정해줘"
)

SAYINGS: Mapping[Saying, Mapping[Language, str]] = {
    "help": {
        "en": (
            f"I am FinClaw's offline assistant: there is no language model behind me. {_CAN_EN}\n\n"
            "To talk freely, set `model` under `agent` in your FinClaw configuration to a real model "
            "(`provider/model`), give that provider's key, and restart."
        ),
        "ko": (
            f"저는 FinClaw의 오프라인 도우미이며, 언어 모델 없이 동작합니다. {_CAN_KO}\n\n"
            "자유롭게 대화하려면 FinClaw 설정의 `agent` 아래 `model`에 실제 모델(`provider/model`)을 적고 "
            "해당 제공자의 키를 넣은 뒤 다시 시작해 주세요."
        ),
    },
    "greeting": {
        "en": f"Hello! I am FinClaw's offline assistant. {_CAN_EN}",
        "ko": f"안녕하세요! FinClaw의 오프라인 도우미입니다. {_CAN_KO}",
    },
    "thanks": {
        "en": "You are welcome. Ask me for another price whenever you like.",
        "ko": "천만에요. 다른 시세가 궁금하시면 언제든지 물어봐 주세요.",
    },
    "bye": {"en": "Goodbye!", "ko": "안녕히 가세요!"},
    "ok": {
        "en": "All right. Tell me a symbol or a name when you want to look something up.",
        "ko": "알겠습니다. 조회할 종목이 있으면 코드나 이름을 알려 주세요.",
    },
    "unknown": {
        "en": f"Sorry, I did not understand that: I am an offline assistant without a language model. {_CAN_EN}",
        "ko": f"죄송합니다. 이해하지 못했습니다. 저는 언어 모델 없이 동작하는 오프라인 도우미입니다. {_CAN_KO}",
    },
    "wordless": {
        "en": "There were no words in your message.",
        "ko": "보내신 메시지에 글이 없습니다.",
    },
    "left": {
        "en": (
            "Sorry, I did not understand {words}, so I looked nothing up. I am an offline assistant without a language "
            "model and answer only when I understand every word. You could ask: {nearest}"
        ),
        "ko": (
            "죄송합니다. {words} 부분을 이해하지 못해 조회하지 않았습니다. 언어 모델이 없는 오프라인 도우미라서 "
            "모든 말을 이해했을 때만 답합니다. 이렇게 물어보실 수 있습니다: {nearest}"
        ),
    },
    "too_long": {
        "en": "That text is too long for me: I am an offline assistant and only understand short questions.",
        "ko": "글이 너무 길어 이해하지 못했습니다. 오프라인 도우미는 짧은 질문만 이해할 수 있습니다.",
    },
    "too_many": {
        "en": "Those are too many at once. Please ask about a few of them.",
        "ko": "한 번에 너무 많습니다. 몇 가지만 골라서 물어봐 주세요.",
    },
    "advice": {
        "en": (
            "I do not give investment advice, recommendations or forecasts; that decision is yours. I can tell you "
            "the price of an instrument, how it moved, or how it compares with another."
        ),
        "ko": (
            "투자 조언이나 추천, 전망은 드리지 않습니다. 판단은 본인의 몫입니다. "
            "대신 현재 시세와 등락, 다른 종목과의 비교는 알려 드릴 수 있습니다."
        ),
    },
    "trade": {
        "en": "I cannot trade or move money: I only look things up. I can tell you the price instead.",
        "ko": "저는 매매나 송금을 할 수 없고 조회만 할 수 있습니다. 대신 시세는 알려 드릴 수 있습니다.",
    },
    "news": {
        "en": "Ask for headlines with a command: “/news AAPL”, or “/news” for those of central banks.",
        "ko": "뉴스는 명령으로 물어봐 주세요. 예: “/뉴스 삼성전자”, 중앙은행 소식은 “/뉴스”.",
    },
    "real": {
        "en": (
            "Every figure I give names its source and its time. What comes from the demo market is simulated and not a "
            "real quote: the names are real, the prices are made up."
        ),
        "ko": (
            "제가 드리는 모든 수치에는 출처와 기준 시각이 함께 표시됩니다. "
            "출처가 데모 시장이면 실제 시세가 아니라 모의 가격입니다. 종목 이름은 실제이지만 가격은 지어낸 값입니다."
        ),
    },
    "which_one": {
        "en": "Which one do you mean? Please give me a symbol or a name, such as AAPL or Samsung Electronics.",
        "ko": "어떤 종목을 말씀하시나요? AAPL이나 삼성전자처럼 종목 코드나 이름을 알려 주세요.",
    },
    "which_two": {
        "en": "Which ones shall I compare? Please name two or more, such as Apple and Tesla.",
        "ko": "어떤 종목을 비교할까요? 애플과 테슬라처럼 둘 이상 알려 주세요.",
    },
    "how_much": {
        "en": "Which amount shall I convert, and into what? For example: a hundred dollars, written in digits, in won.",
        "ko": "얼마를 어떤 통화로 바꿀까요? 금액과 통화를 함께 알려 주세요. 예: 백만 원을 달러로.",
    },
    "periods": {
        "en": (
            "I cannot look at that time. I can look at the past day, week, month, quarter or year, at this or last "
            "week, month, quarter or year, or at the close of one date. Which shall it be?"
        ),
        "ko": (
            "그 기간은 볼 수 없습니다. 최근 하루, 일주일, 한 달, 한 분기, 한 해, 이번 주나 지난주, 이번 달이나 지난달, "
            "올해나 작년, 또는 어느 날짜의 종가를 볼 수 있습니다. 어느 기간으로 볼까요?"
        ),
    },
    "alert_how": {
        "en": "Please tell me the instrument and the price, as in “alert me when Apple rises above …”.",
        "ko": "종목과 가격을 함께 알려 주세요. 예: “애플이 …달러 넘으면 알려줘”.",
    },
    "alert_which": {
        "en": "Which alert shall I remove? They have no numbers: name one instrument, or say “remove all alerts”.",
        "ko": "어떤 알림을 지울까요? 번호는 없으니 종목 하나를 알려 주시거나 “알림 모두 삭제”라고 말씀해 주세요.",
    },
    "alert_one": {
        "en": "One alert at a time, please: one instrument, one price to be reached, and above or below it.",
        "ko": "알림은 한 번에 하나씩 설정합니다. 종목 하나와 도달할 가격 하나, 이상인지 이하인지를 알려 주세요.",
    },
    "no_tool": {
        "en": "I cannot look that up here: the tool for it is not available to me. I will not guess a figure.",
        "ko": "여기에서는 조회할 도구를 쓸 수 없습니다. 수치를 추측해서 말씀드리지는 않겠습니다.",
    },
    "unfinished": {
        "en": "I could not finish looking that up. Please ask again.",
        "ko": "조회를 마치지 못했습니다. 다시 한번 물어봐 주세요.",
    },
}
