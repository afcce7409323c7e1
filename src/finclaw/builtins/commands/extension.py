"""The extension with these commands."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, get_args

from msgspec.structs import replace

from finclaw.builtins.basics import BasicCommand
from finclaw.builtins.commands.reports import operator_commands, report_commands
from finclaw.builtins.commands.sources import CommandSources, choose, tell
from finclaw.commands.declaration import Directive
from finclaw.commands.words import OPTIONS
from finclaw.gateway import QueuedMessage
from finclaw.kernel.envelope import QueueMode
from finclaw.kernel.extension import ExtensionApi
from finclaw.kernel.port import CommandArgument, CommandReply, CommandScope
from finclaw.text import Language


class ConversationCommands:
    name = "conversation"

    def __init__(self, sources: CommandSources) -> None:
        self._sources = sources

    def register(self, api: ExtensionApi) -> None:
        for make in (person_commands, report_commands, option_commands, operator_commands):
            for command in make(self._sources):
                api.commands.register(command)


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


_LEVELS: Final = {
    **{each: each for each in ("off", "low", "medium", "high")},
    **{"끔": "off", "끄기": "off", "낮음": "low", "보통": "medium", "높음": "high"},
}
_LENGTHS: Final = {
    **{"on": "high", "off": "medium", "low": "low", "medium": "medium", "high": "high"},
    **{"켜기": "high", "끄기": "medium", "짧게": "low", "보통": "medium", "자세히": "high"},
}
_MODES: Final = {
    **{each: each for each in get_args(QueueMode)},
    **{"자동": "auto", "순서대로": "followup", "끼어들기": "steer", "모아서": "collect", "중단하고": "interrupt"},
}
_STATES: Final[dict[Language, dict[str, str]]] = {
    "en": {"running": "Being answered: {}", "joined": "Taken into that answer: {}", "waiting": "Waiting: {}"},
    "ko": {"running": "답변 중: {}개", "joined": "진행 중인 답변에 반영: {}개", "waiting": "대기 중: {}개"},
}
_LONGEST_MODEL: Final = 200


def option_commands(sources: CommandSources) -> Iterator[BasicCommand]:
    prefix, defaults = sources.prefix, sources.defaults

    async def answer_thinking(args: Sequence[str], scope: CommandScope) -> CommandReply:
        return tell(_show("thinking", sources, scope, f"{prefix}think off|low|medium|high|default"))

    async def answer_model(args: Sequence[str], scope: CommandScope) -> CommandReply:
        listed = ", ".join(sources.models)
        known = choose(scope.language, f"There are: {listed}", f"쓸 수 있는 모델: {listed}")
        return tell(f"{_show('model', sources, scope, f'{prefix}model NAME|default')}\n{known}")

    async def answer_queue(args: Sequence[str], scope: CommandScope) -> CommandReply:
        usage = f"{prefix}queue {'|'.join(get_args(QueueMode))}|default"
        own = "" if scope.accepted is None else scope.accepted.id
        others = [each for each in sources.gateway().queue(scope.session) if each.inbound_id != own]
        return tell("\n".join([*_describe_queue(others, scope.language), _show("queue", sources, scope, usage)]))

    async def answer_length(args: Sequence[str], scope: CommandScope) -> CommandReply:
        return tell(_show("verbosity", sources, scope, f"{prefix}verbose on|off|low|medium|high|default"))

    yield BasicCommand(
        name="model",
        names={"ko": "모델"},
        description="Shows or chooses the model that answers / 답변하는 모델 보기와 선택",
        usage=f"{prefix}model [NAME|default]",
        arguments=(CommandArgument("NAME", "a model or an alias / 모델 이름이나 별칭", required=False),),
        answer=answer_model,
        when="in_lane",
        directive=Directive(
            option="model", read=_read_model, values=tuple(sources.models), default=defaults.model or ""
        ),
    )
    yield BasicCommand(
        name="think",
        names={"ko": "생각"},
        description="Sets how much the model thinks first / 답하기 전에 얼마나 생각할지 정하기",
        usage=f"{prefix}think [off|low|medium|high|default]",
        answer=answer_thinking,
        when="in_lane",
        directive=_make_directive("thinking", _LEVELS, ("off", "low", "medium", "high"), defaults.thinking or "off"),
    )
    yield BasicCommand(
        name="verbose",
        names={"ko": "자세히"},
        description="Sets how long answers are / 답변을 얼마나 길게 할지 정하기",
        usage=f"{prefix}verbose [on|off|low|medium|high|default]",
        answer=answer_length,
        when="in_lane",
        directive=_make_directive(
            "verbosity", _LENGTHS, ("on", "off", "low", "medium", "high"), defaults.verbosity or "medium", bare="high"
        ),
    )
    yield BasicCommand(
        name="queue",
        names={"ko": "대기"},
        description="Shows what waits, and what new messages do while I am busy / 대기 상태와 새 메시지 처리 방식",
        usage=f"{prefix}queue [{'|'.join(get_args(QueueMode))}|default]",
        answer=answer_queue,
        directive=_make_directive("queue", _MODES, get_args(QueueMode), defaults.queue or "auto"),
    )


def _describe_queue(messages: Sequence[QueuedMessage], language: Language) -> Iterator[str]:
    """How many are being answered and how many wait, and for what the first of them does."""
    if not messages:
        yield choose(language, "No message waits for an answer.", "답변을 기다리는 메시지가 없습니다.")
        return
    numbers = Counter(each.state for each in messages)
    labels = _STATES[language]
    yield " · ".join(labels[state].format(numbers[state]) for state in labels if numbers[state])
    first = messages[0]
    if first.waits_for == "seat":
        yield choose(
            language,
            f"All seats are taken. Conversations that wait before this one: {first.before}",
            f"동시에 답변할 수 있는 자리가 모두 찼습니다. 먼저 기다리는 대화: {first.before}개",
        )
    elif first.waits_for == "share":
        yield choose(
            language,
            "Your other conversations have all the seats that one person may have; this one is next when one ends.",
            "한 사람이 쓸 수 있는 자리를 다른 대화에서 모두 쓰고 있습니다. 그중 하나가 끝나면 이어서 답변합니다.",
        )


def _read_model(word: str) -> str | None:
    return word if len(word) <= _LONGEST_MODEL else None


def _make_directive(
    option: str, words: Mapping[str, str], values: tuple[str, ...], default: str, bare: str | None = None
) -> Directive:
    return Directive(
        option=option,  # pyright: ignore[reportArgumentType]
        read=lambda word: words.get(word.casefold()),
        values=values,
        default=default,
        bare=bare,
    )


def _show(option: str, sources: CommandSources, scope: CommandScope, usage: str) -> str:
    """The value that holds in the session, where it comes from, and how to change it."""
    language, kept = scope.language, getattr(sources.kept(scope.session), option)
    value = kept or getattr(sources.defaults, option)
    origin = (
        choose(language, "by the settings", "설정 값")
        if kept is None
        else choose(language, "set for this conversation", "이 대화에서 정한 값")
    )
    change = choose(language, f"To change it: {usage}", f"바꾸기: {usage}")
    return f"{OPTIONS[language][option]}: {value} ({origin})\n{change}"
