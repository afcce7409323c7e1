"""The commands every gateway has: help, whoami, stop and reset; and undo and retry."""

import difflib
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, Literal

from msgspec import Struct

from finclaw.commands.declaration import Directive, describe_in, directive_of, name_in
from finclaw.gateway import StopReport, StopRequest, UndoneTurn, sender_of
from finclaw.ids import identity
from finclaw.kernel.extension import ExtensionApi
from finclaw.kernel.port import Command, CommandArgument, CommandReply, CommandScope, LayerCommand, names_of
from finclaw.kernel.record import Accepted
from finclaw.text import Language, shorten

Category = Literal["general", "finance", "admin", "debug"]


class BasicCommand(Struct, frozen=True, kw_only=True):
    """A command as plain data and one function."""

    name: str
    description: str
    usage: str
    answer: Callable[[Sequence[str], CommandScope], Awaitable[CommandReply]]
    aliases: tuple[str, ...] = ()
    category: Category = "general"
    roles: tuple[str, ...] = ()
    names: Mapping[Language, str] = {}
    arguments: tuple[CommandArgument, ...] = ()
    cooldown: float = 0.0
    when: Literal["now", "in_lane"] = "now"
    words: tuple[str, ...] = ()
    directive: Directive | None = None
    decides: bool = False
    """It takes a person's decision: it runs only for a message that said so when it was accepted, whatever layers have
    made of it since, and is told who sent that one."""

    async def run(self, args: Sequence[str], scope: CommandScope) -> CommandReply:
        return await self.answer(args, scope)


class Basics:
    name = "basics"

    def __init__(
        self,
        prefix: str,
        commands: Callable[[], Sequence[Command]],
        reset: Callable[[str], Awaitable[None]],
        stop: Callable[[StopRequest], Awaitable[StopReport]],
        retention_days: int,
        mentioned: Callable[[], Mapping[str, LayerCommand]] = dict[str, LayerCommand],
    ) -> None:
        self._mentioned = mentioned
        self._prefix = prefix
        self._commands = commands
        self._reset = reset
        self._stop = stop
        self._retention_days = retention_days

    def register(self, api: ExtensionApi) -> None:
        for command in (
            BasicCommand(
                name="help",
                aliases=("h",),
                names={"ko": "도움말"},
                description="Shows what I can do / 도움말",
                usage=f"{self._prefix}help [command]",
                answer=self._help,
            ),
            BasicCommand(
                name="whoami",
                names={"ko": "내정보"},
                description="Shows who I take you for / 내 정보",
                usage=f"{self._prefix}whoami",
                answer=self._whoami,
            ),
            BasicCommand(
                name="stop",
                aliases=("중단", "стоп"),
                names={"ko": "중지"},
                description="Stops the answer that is being made, and what you have waiting / 답변 중단",
                usage=f"{self._prefix}stop",
                answer=self._stop_all,
                words=STOP_WORDS,
                decides=True,
            ),
            BasicCommand(
                name="reset",
                aliases=("clear",),
                names={"ko": "초기화"},
                description="Forgets this conversation and starts anew / 대화 초기화",
                usage=f"{self._prefix}reset",
                answer=self._forget,
                words=RESET_WORDS,
            ),
        ):
            api.commands.register(command)

    async def _help(self, args: Sequence[str], scope: CommandScope) -> CommandReply:
        return CommandReply(help_text(self._prefix, self._commands(), self._mentioned(), args, scope), ephemeral=True)

    async def _whoami(self, args: Sequence[str], scope: CommandScope) -> CommandReply:
        sender = scope.sender
        known_as = identity(scope.inbound.channel, scope.inbound.account, sender.id)
        label, none = _ROLES[scope.language]
        roles = ", ".join(sender.roles) or none
        return CommandReply(f"{sender.name or sender.id} ({known_as}), {label}: {roles}", ephemeral=True)

    async def _stop_all(self, args: Sequence[str], scope: CommandScope) -> CommandReply:
        """Stop the person's turn and what they have waiting, or one message by its id. The owner stops anybody's."""
        accepted = scope.accepted
        asked_by = sender_of(scope.inbound)
        report = await self._stop(
            StopRequest(
                session=scope.session,
                reason="stopped by the person",
                sender=None if "owner" in scope.sender.roles else asked_by,
                asked_by=asked_by,
                before=accepted and accepted.ticket,
                only=next(iter(args), None),
                language=scope.language,
            )
        )
        # A command that a crash interrupted has stopped what it could; the report of that is lost.
        was_interrupted = accepted is not None and accepted.left and report.is_empty
        text = describe_stop(report, scope.language, known=was_interrupted)
        if report.approvals:
            waiting = _STOPPED[scope.language]["approval"].format(ids=", ".join(report.approvals), prefix=self._prefix)
            text = f"{text}\n{waiting}"
        return CommandReply(text)

    async def _forget(self, args: Sequence[str], scope: CommandScope) -> CommandReply:
        """Stop what runs, then begin again. Messages that came after the command belong to the new conversation."""
        report = await self._stop(
            StopRequest(
                session=scope.session,
                reason="the conversation was reset",
                before=scope.accepted and scope.accepted.ticket,
                language=scope.language,
            )
        )
        await self._reset(scope.session)
        text = _describe_reset(scope.session, self._retention_days)
        if not report.is_empty:
            text = f"{describe_stop(report, scope.language)}\n{text}"
        return CommandReply(text)


def _describe_reset(session: str, days: int) -> str:
    erase = f"finclaw sessions delete {session}"
    return (
        "The conversation starts anew. / 대화를 새로 시작합니다.\n"
        "What was said before is not used any more, but it stays on record: "
        f"`finclaw prune` removes what is older than {days} days, and `{erase}` erases it now.\n"
        "지금까지의 대화는 더 이상 쓰이지 않지만 기록에는 남아 있습니다. "
        f"`finclaw prune`은 {days}일이 지난 기록을 지우고, `{erase}`는 바로 지웁니다."
    )


_ROLES: Final[dict[Language, tuple[str, str]]] = {"en": ("roles", "none"), "ko": ("역할", "없음")}
# These count as whole messages only: nobody who asks about a stop order stops anything.
STOP_WORDS: Final = (
    *("stop", "stop it", "stop that", "stop now", "stop please", "please stop", "stop stop", "stop stop stop"),
    *("stop answering", "stop talking", "stop writing", "cancel", "cancel it", "cancel that", "cancel please"),
    *("please cancel", "abort", "halt", "never mind", "nevermind", "forget it", "thats enough", "enough"),
    *("중지", "중지해", "중지해줘", "중지해 줘", "중지해주세요", "중지해 주세요"),
    *("중단", "중단해", "중단해줘", "중단해 줘", "중단해주세요", "중단해 주세요"),
    *("그만", "그만해", "그만해줘", "그만해 줘", "그만해주세요", "그만해 주세요", "그만하세요", "그만 그만"),
    *("이제 그만", "됐어 그만"),
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

_STOPPED: Final[dict[Language, dict[str, str]]] = {
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
    texts = _STOPPED[language]
    sentences: list[str] = []
    if report.stopped or known:
        sentences.append(texts["stopped"])
    elif report.withdrawn:
        sentences.append(texts["withdrawn"])
    if report.dropped:
        text = texts["dropped" if sentences else "only_dropped"]
        count = len(report.dropped)
        sentences.append(text.format(count=count, message="message was" if count == 1 else "messages were"))
    if not sentences:
        sentences.append(texts["nothing"])
    if report.kept:
        message = "message is" if report.kept == 1 else "messages are"
        sentences.append(texts["kept"].format(count=report.kept, message=message))
    if report.warning:
        sentences.append(report.warning)
    return " ".join(sentences)


_CATEGORIES: Final[dict[Language, dict[str, str]]] = {
    "en": {"general": "General", "finance": "Markets", "admin": "Administration", "debug": "Diagnostics"},
    "ko": {"general": "일반", "finance": "시장", "admin": "관리", "debug": "진단"},
}
_HELP: Final[dict[Language, dict[str, str]]] = {
    "en": {
        "more": "{0} NAME explains one of them.",
        "none": "There is no {0} here.",
        "similar": "There is no {0} here. Did you mean {1}?",
        "optional": "optional",
        "aliases": "also: {0}",
        "roles": "for: {0}",
        "inline": "In front of a message it holds for that answer; alone it holds for the conversation.",
    },
    "ko": {
        "more": "{0} 이름 – 그 명령을 자세히 설명합니다.",
        "none": "{0} 명령은 여기에 없습니다.",
        "similar": "{0} 명령은 여기에 없습니다. 혹시 {1} 명령인가요?",
        "optional": "선택",
        "aliases": "다른 이름: {0}",
        "roles": "필요한 역할: {0}",
        "inline": "메시지 맨 앞에 쓰면 그 답변에만, 혼자 쓰면 이 대화 전체에 적용됩니다.",
    },
}


def help_text(
    prefix: str,
    commands: Sequence[Command],
    layer_commands: Mapping[str, LayerCommand],
    args: Sequence[str],
    scope: CommandScope,
) -> str:
    """What `/help` answers. Nobody is told of what they may not use."""
    language = scope.language
    roles = set(scope.sender.roles)
    own = [each for each in commands if not each.roles or roles.intersection(each.roles)]
    layers = {name: it for name, it in layer_commands.items() if not it.roles or roles.intersection(it.roles)}
    if not args:
        return "\n".join(_list_commands(prefix, own, layers, language))
    wanted = args[0].removeprefix(prefix).casefold()
    found = next((each for each in own if wanted in map(str.casefold, names_of(each))), None)
    if found is not None:
        return "\n".join(_explain(found, language))
    if wanted in layers:
        return f"{prefix}{wanted}\n{describe_in(language, layers[wanted].about)}"
    shown = f"{prefix}{wanted[:50]}"
    near = difflib.get_close_matches(wanted, [name for each in own for name in names_of(each)], n=1, cutoff=0.7)
    if near:
        return _HELP[language]["similar"].format(shown, f"{prefix}{near[0]}")
    return _HELP[language]["none"].format(shown)


def _list_commands(
    prefix: str, commands: Sequence[Command], layers: Mapping[str, LayerCommand], language: Language
) -> Iterator[str]:
    by_category: dict[str, list[Command]] = {category: [] for category in _CATEGORIES[language]}
    for each in commands:
        by_category[each.category].append(each)
    filled = {category: listed for category, listed in by_category.items() if listed}
    for category, listed in filled.items():
        if len(filled) > 1:
            yield f"{_CATEGORIES[language][category]}:"
        for each in listed:
            yield _line(prefix, name_in(language, each), describe_in(language, each.description))
        if category == "general":
            for name, it in layers.items():
                yield _line(prefix, name, describe_in(language, it.about))
    yield _HELP[language]["more"].format(f"{prefix}help")


def _line(prefix: str, name: str, about: str) -> str:
    return f"{prefix}{name} – {about}".removesuffix(" – ")


def _explain(command: Command, language: Language) -> Iterator[str]:
    words = _HELP[language]
    arguments: tuple[CommandArgument, ...] = getattr(command, "arguments", ())
    yield command.usage
    yield describe_in(language, command.description)
    for each in arguments:
        name = each.name if each.required else f"{each.name} ({words['optional']})"
        yield f"  {name} – {describe_in(language, each.about)}".removesuffix(" – ")
    if directive_of(command) is not None:
        yield words["inline"]
    if also := [name for name in names_of(command) if name != command.name]:
        yield words["aliases"].format(", ".join(also))
    if command.roles:
        yield words["roles"].format(", ".join(command.roles))


# ── undo and retry ──────────────────────────────────────────────────────────────────────────────────────────

Undo = Callable[[Accepted, bool, bool], Awaitable[UndoneTurn]]
"""Of the command's own message, whether the owner asks, and whether the question is to be asked again."""

_LONGEST_QUESTION: Final = 60
_UNDO: Final[dict[Language, dict[str, str]]] = {
    "en": {
        "undone": "Taken back: “{question}” and its answer are not part of the conversation any more. "
        "What I sent stays where you see it.",
        "tools": "What my tools did for it stays done.",
        "again": "Asking again: “{question}”",
        "nothing": "There is nothing to take back here.",
        "others": "The last question here was somebody else's; only they can take it back.",
        "shortened": "“{question}” has become part of a summary since, and cannot be taken back.",
    },
    "ko": {
        "undone": "되돌렸습니다: “{question}” 질문과 답변은 이제 대화에 포함되지 않습니다. "
        "이미 보낸 메시지는 화면에 그대로 남습니다.",
        "tools": "답변하면서 도구가 실행한 일은 취소되지 않습니다.",
        "again": "다시 답변합니다: “{question}”",
        "nothing": "되돌릴 것이 없습니다.",
        "others": "이 대화의 마지막 질문은 다른 분이 하신 것이라 그분만 되돌릴 수 있습니다.",
        "shortened": "“{question}” 질문은 이미 요약에 포함되어 되돌릴 수 없습니다.",
    },
}


class UndoCommands:
    name = "undo"

    def __init__(self, prefix: str, undo: Undo) -> None:
        self._prefix = prefix
        self._undo = undo

    def register(self, api: ExtensionApi) -> None:
        for command in (
            BasicCommand(
                name="undo",
                names={"ko": "되돌리기"},
                description="Takes the last question and its answer out of the conversation / 마지막 질문 되돌리기",
                usage=f"{self._prefix}undo",
                answer=partial(self._answer, again=False),
                when="in_lane",
                decides=True,
            ),
            BasicCommand(
                name="retry",
                names={"ko": "다시"},
                description="Asks your last question again, and forgets the first answer / 마지막 질문에 다시 답변",
                usage=f"{self._prefix}retry",
                answer=partial(self._answer, again=True),
                when="in_lane",
                decides=True,
            ),
        ):
            api.commands.register(command)

    async def _answer(self, args: Sequence[str], scope: CommandScope, *, again: bool) -> CommandReply:
        assert scope.accepted is not None  # the command stage sets it
        undone = await self._undo(scope.accepted, "owner" in scope.sender.roles, again)
        texts = _UNDO[scope.language]
        question = shorten(" ".join(undone.question.split()), _LONGEST_QUESTION)
        if undone.problem:
            return CommandReply(texts[undone.problem].format(question=question), ephemeral=True)
        if again:
            return CommandReply(texts["again"].format(question=question))
        text = texts["undone"].format(question=question)
        if undone.used_tools:
            text = f"{text} {texts['tools']}"
        return CommandReply(text)
