"""Commands about the person who writes: /start and /language."""

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from finclaw.builtins.basics import BasicCommand
from finclaw.builtins.commands.sources import CommandSources, tell
from finclaw.kernel.port import CommandArgument, CommandReply, CommandScope

_LANGUAGES: Final = {
    **dict.fromkeys(("ko", "kr", "korean", "한국어", "한글"), "ko"),
    **dict.fromkeys(("en", "english", "영어"), "en"),
    **dict.fromkeys(("auto", "default", "자동", "기본"), ""),
}
_NOW: Final = {
    "ko": "이제부터 한국어로 답하겠습니다.",
    "en": "From now on I answer in English.",
    "": "I answer in the language you write in. / 쓰시는 언어로 답하겠습니다.",
}
_SHOWN: Final = {
    "ko": "한국어로 답하고 있습니다. 바꾸기: {0}language ko|en|auto",
    "en": "I answer you in English. To change it: {0}language ko|en|auto",
    "": "I answer in the language you write in. To change it: {0}language ko|en|auto\n"
    "쓰시는 언어로 답하고 있습니다. 바꾸기: {0}language ko|en|auto",
}
_GREETING: Final = {
    "en": "Hello! I am FinClaw. Ask me about prices, markets and your own money, in your own words.\n"
    "For example: What does Apple cost now?\n"
    "{0}help lists the commands, {0}language ko switches to Korean.",
    "ko": "안녕하세요, FinClaw입니다. 시세와 시장, 내 자산에 대해 편하게 물어보세요.\n"
    "예: 삼성전자 지금 얼마야?\n"
    "{0}help로 명령 목록을 볼 수 있고, {0}language en으로 영어로 바꿀 수 있습니다.",
}


def person_commands(sources: CommandSources) -> Iterator[BasicCommand]:
    prefix = sources.prefix

    async def start(args: Sequence[str], scope: CommandScope) -> CommandReply:
        known = scope.person.language
        languages = (scope.language,) if known or scope.language == "ko" else ("en", "ko")
        return CommandReply("\n\n".join(_GREETING[each].format(prefix) for each in languages))

    async def choose_language(args: Sequence[str], scope: CommandScope) -> CommandReply:
        now = scope.language if scope.person.language else ""
        wanted = _LANGUAGES.get(args[0].casefold()) if len(args) == 1 else None
        if wanted is None:
            return tell(_SHOWN[now].format(prefix))
        await sources.save_person(replace(scope.person, language=wanted))
        return tell(_NOW[wanted])

    yield BasicCommand(
        name="start",
        names={"ko": "시작"},
        description="Says what I am for / 인사와 소개",
        usage=f"{prefix}start",
        answer=start,
    )
    yield BasicCommand(
        name="language",
        names={"ko": "언어"},
        description="Sets the language I answer you in / 답변 언어 바꾸기",
        usage=f"{prefix}language [ko|en|auto]",
        arguments=(
            CommandArgument("ko|en|auto", "Korean, English or as you write / 한국어, 영어, 쓰는 대로", required=False),
        ),
        answer=choose_language,
        when="in_lane",
    )
