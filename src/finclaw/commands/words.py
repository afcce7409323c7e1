"""What the command stage says for itself, in English and Korean."""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from finclaw.text import Language

# fmt: off
Saying = Literal[
    "wait", "too_long", "disabled", "roles", "inline_roles", "failed", "similar", "no_value",
    "bad_value", "no_model", "no_thinking", "kept", "given_back",
]
# fmt: on

_WORDS: Final[dict[Language, dict[Saying, str]]] = {
    "en": {
        "wait": "{0} can be used again in {1} s.",
        "too_long": "{0} was not carried out: its arguments may have at most {1} characters. Please shorten them.",
        "disabled": "{0} is switched off here.",
        "roles": "{0} is for {1} only.",
        "inline_roles": "{0} is for {1} only, so I have not answered. Send your message without {0}.",
        "failed": "{0} could not be carried out, because of an error. It is in the gateway's log.",
        "similar": "There is no {0}. Did you mean {1}?",
        "no_value": "{0} needs a value: {1}.",
        "bad_value": "{0} cannot be “{2}”. Choose one of: {1}.",
        "no_model": "I cannot use the model “{0}” here. {1} shows which there are.",
        "no_thinking": "The model {0} cannot think before it answers, so {1} can only be off.",
        "kept": "{0}\nThis holds for this conversation until {1}reset, or {1}{2} default.",
        "given_back": "{0}\nThat is what the settings say.",
    },
    "ko": {
        "wait": "{0} 명령은 {1}초 뒤에 다시 쓸 수 있습니다.",
        "too_long": "{0} 명령을 처리하지 않았습니다. 명령 뒤의 내용은 {1}자까지 쓸 수 있으니 줄여서 다시 보내 주세요.",
        "disabled": "{0} 명령은 여기서 꺼져 있습니다.",
        "roles": "{0} 명령은 {1} 역할이 있어야 쓸 수 있습니다.",
        "inline_roles": "{0} 명령은 {1} 역할이 있어야 쓸 수 있어서 답변하지 않았습니다. {0} 없이 다시 보내 주세요.",
        "failed": "오류가 생겨 {0} 명령을 처리하지 못했습니다. 자세한 내용은 게이트웨이 로그에 있습니다.",
        "similar": "{0} 명령은 없습니다. 혹시 {1} 명령인가요?",
        "no_value": "{0} 뒤에 값을 써 주세요: {1}.",
        "bad_value": "{0} 값으로 “{2}”은(는) 쓸 수 없습니다. 다음 중에서 고르세요: {1}.",
        "no_model": "“{0}” 모델은 여기서 쓸 수 없습니다. {1} 명령으로 쓸 수 있는 모델을 볼 수 있습니다.",
        "no_thinking": "{0} 모델에는 답하기 전에 생각하는 기능이 없어서 {1} 값은 off만 됩니다.",
        "kept": "{0}\n이 대화에서 {1}reset 또는 {1}{2} default를 쓸 때까지 유지됩니다.",
        "given_back": "{0}\n설정에 있는 값입니다.",
    },
}
_OR: Final[dict[Language, str]] = {"en": " or ", "ko": " 또는 "}


def say(which: Saying, language: Language, *parts: object) -> str:
    return _WORDS[language][which].format(*parts)


def join_roles(roles: Sequence[str], language: Language) -> str:
    return _OR[language].join(roles)


OPTIONS: Final[dict[Language, dict[str, str]]] = {
    "en": {"model": "Model", "thinking": "Thinking", "verbosity": "Detail", "queue": "New messages while I am busy"},
    "ko": {"model": "모델", "thinking": "생각 수준", "verbosity": "답변 길이", "queue": "답변 중에 온 메시지"},
}


def describe_options(values: Mapping[str, str], language: Language) -> str:
    return "\n".join(f"{OPTIONS[language][option]}: {value}" for option, value in values.items())
