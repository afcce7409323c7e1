"""The commands every gateway has: help, whoami, stop, reset."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from finclaw.builtins.help_text import help_text
from finclaw.builtins.stop_words import RESET_WORDS, STOP_WORDS, describe_open_approvals, describe_stop
from finclaw.commands.declaration import Directive
from finclaw.gateway import StopReport, StopRequest, sender_of
from finclaw.ids import identity
from finclaw.kernel.extension import ExtensionApi
from finclaw.kernel.port import Command, CommandArgument, CommandReply, CommandScope, LayerCommand
from finclaw.text import Language

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
        sender, korean = scope.sender, scope.language == "ko"
        roles = ", ".join(sender.roles) or ("없음" if korean else "none")
        known_as = identity(scope.inbound.channel, scope.inbound.account, sender.id)
        label = "역할" if korean else "roles"
        return CommandReply(f"{sender.name or sender.id} ({known_as}), {label}: {roles}", ephemeral=True)

    async def _stop_all(self, args: Sequence[str], scope: CommandScope) -> CommandReply:
        """The person's own turn and what they have waiting; with an id that message alone. The owner may stop
        anybody's.
        """
        accepted = scope.accepted
        may_stop_others = "owner" in scope.sender.roles
        report = await self._stop(
            StopRequest(
                session=scope.session,
                reason="stopped by the person",
                sender=None if may_stop_others else sender_of(scope.inbound),
                asked_by=sender_of(scope.inbound),
                before=None if accepted is None else accepted.ticket,
                only=args[0] if args else None,
                language=scope.language,
            )
        )
        # One that a crash has cut off has stopped what it could then; nobody knows any more what that was.
        was_cut_off = accepted is not None and accepted.left and report.is_empty
        lines = [describe_stop(report, scope.language, known=was_cut_off)]
        if report.approvals:
            lines.append(describe_open_approvals(report.approvals, self._prefix, scope.language))
        return CommandReply("\n".join(lines))

    async def _forget(self, args: Sequence[str], scope: CommandScope) -> CommandReply:
        """While it is busy: stop, then start anew. What was written behind it belongs to the new conversation."""
        ticket = None if scope.accepted is None else scope.accepted.ticket
        reason = "the conversation was reset"
        request = StopRequest(session=scope.session, reason=reason, before=ticket, language=scope.language)
        report = await self._stop(request)
        await self._reset(scope.session)
        stopped = "" if report.is_empty else f"{describe_stop(report, scope.language)}\n"
        return CommandReply(stopped + _what_a_reset_keeps(scope.session, self._retention_days))


def _what_a_reset_keeps(session: str, days: int) -> str:
    erase = f"finclaw sessions delete {session}"
    return (
        "The conversation starts anew. / 대화를 새로 시작합니다.\n"
        "What was said before is not used any more, but it stays on record: "
        f"`finclaw prune` removes what is older than {days} days, and `{erase}` erases it now.\n"
        "지금까지의 대화는 더 이상 쓰이지 않지만 기록에는 남아 있습니다. "
        f"`finclaw prune`은 {days}일이 지난 기록을 지우고, `{erase}`는 바로 지웁니다."
    )
