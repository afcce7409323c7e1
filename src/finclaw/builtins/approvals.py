"""The commands by which people decide: approve, deny, approvals."""

from collections.abc import Callable, Sequence
from typing import Final, cast, get_args

from finclaw.builtins.approval_words import answer, listed, refused
from finclaw.builtins.basics import BasicCommand
from finclaw.kernel.approval import ApprovalScope, ApprovalVerdict, Refusal
from finclaw.kernel.extension import ExtensionApi
from finclaw.kernel.language import Language, language_of
from finclaw.kernel.port import CommandReply, CommandScope
from finclaw.tools.approval.approvals import Approvals

_LONGEST_REASON: Final = 300


class ApprovalCommands:
    name = "approvals"

    def __init__(self, prefix: str, approvals: Callable[[], Approvals]) -> None:
        self._prefix = prefix
        self._approvals = approvals

    def register(self, api: ExtensionApi) -> None:
        for command in (
            BasicCommand(
                name="approve",
                aliases=("승인",),
                description="Says yes to one action that waits for it / 승인",
                usage=f"{self._prefix}approve ID [once|session|always]",
                answer=self._approve,
            ),
            BasicCommand(
                name="deny",
                aliases=("거부",),
                description="Says no to it / 거부",
                usage=f"{self._prefix}deny ID [reason]",
                answer=self._deny,
            ),
            BasicCommand(
                name="approvals",
                description="Shows what waits for your decision / 승인 대기 목록",
                usage=f"{self._prefix}approvals",
                answer=self._list,
            ),
        ):
            api.commands.register(command)

    async def _approve(self, args: Sequence[str], scope: CommandScope) -> CommandReply:
        if not args:
            return await self._which(scope)
        typed, *rest = args
        wanted = rest[0].lower() if len(rest) == 1 else "once"
        if len(rest) > 1 or wanted not in get_args(ApprovalScope):
            return CommandReply(refused("words", _language(scope), self._prefix), ephemeral=True)
        return await self._decide(typed, "granted", scope, cast("ApprovalScope", wanted))

    async def _deny(self, args: Sequence[str], scope: CommandScope) -> CommandReply:
        if not args:
            return await self._which(scope)
        reason = " ".join(args[1:])[:_LONGEST_REASON]
        return await self._decide(args[0], "denied", scope, "once", reason)

    async def _decide(
        self, typed: str, verdict: ApprovalVerdict, scope: CommandScope, reach: ApprovalScope, reason: str = ""
    ) -> CommandReply:
        decided = await self._approvals().decide(typed, verdict, scope.inbound, scope=reach, reason=reason)
        language = _language(scope)
        if isinstance(decided, Refusal):
            return CommandReply(refused(decided.why, language, self._prefix), ephemeral=True)
        return CommandReply(answer(decided, language), ephemeral=True)

    async def _which(self, scope: CommandScope) -> CommandReply:
        """Never the only one that waits: between reading and typing it may have become another."""
        waiting = await self._approvals().open_to(scope.inbound)
        language = _language(scope)
        return CommandReply(f"{refused('which', language, self._prefix)}\n{listed(waiting, language)}", ephemeral=True)

    async def _list(self, args: Sequence[str], scope: CommandScope) -> CommandReply:
        waiting = await self._approvals().open_to(scope.inbound)
        return CommandReply(listed(waiting, _language(scope)), ephemeral=True)


def _language(scope: CommandScope) -> Language:
    return language_of(scope.inbound.text)
