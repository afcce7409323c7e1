"""The commands by which people decide: approve, deny, approvals; and grants, which lists those that hold."""

from collections.abc import Callable, Sequence
from typing import Final, cast, get_args

from finclaw.approvals.approvals import Approvals
from finclaw.builtins.approval_words import answer, grants_text, not_revoked, refusal_text, taken_back, waiting_text
from finclaw.builtins.basics import BasicCommand
from finclaw.kernel.approval import ApprovalScope, ApprovalVerdict, Refusal
from finclaw.kernel.extension import ExtensionApi
from finclaw.kernel.port import CommandReply, CommandScope
from finclaw.redaction.redact import redact_for_display

_LONGEST_REASON: Final = 300
_REVOKE: Final = ("revoke", "철회")


class ApprovalCommands:
    name = "approvals"

    def __init__(self, prefix: str, approvals: Callable[[], Approvals]) -> None:
        self._prefix = prefix
        self._approvals = approvals

    def register(self, api: ExtensionApi) -> None:
        for command in (
            BasicCommand(
                name="approve",
                names={"ko": "승인"},
                description="Approves one action / 승인",
                usage=f"{self._prefix}approve ID [once|session|always]",
                answer=self._approve,
                decides=True,
            ),
            BasicCommand(
                name="deny",
                names={"ko": "거부"},
                description="Denies one action / 거부",
                usage=f"{self._prefix}deny ID [reason]",
                answer=self._deny,
                decides=True,
            ),
            BasicCommand(
                name="approvals",
                names={"ko": "승인목록"},
                description="Lists the actions that wait for your approval / 승인 대기 목록",
                usage=f"{self._prefix}approvals",
                answer=self._list,
                decides=True,
            ),
            BasicCommand(
                name="grants",
                names={"ko": "허용"},
                description="Lists grants, and revokes them / 계속 허용된 작업과 철회",
                usage=f"{self._prefix}grants [revoke ID]",
                answer=self._grants,
                decides=True,
            ),
        ):
            api.commands.register(command)

    async def _approve(self, args: Sequence[str], scope: CommandScope) -> CommandReply:
        if not args:
            return await self._which(scope)
        typed, *rest = args
        wanted = " ".join(rest).lower() or "once"
        if wanted not in get_args(ApprovalScope):
            return CommandReply(refusal_text("words", scope.language, self._prefix), ephemeral=True)
        return await self._decide(typed, "granted", scope, cast("ApprovalScope", wanted))

    async def _deny(self, args: Sequence[str], scope: CommandScope) -> CommandReply:
        if not args:
            return await self._which(scope)
        reason = redact_for_display(" ".join(args[1:]))[:_LONGEST_REASON]  # in this order: no half of one is left
        return await self._decide(args[0], "denied", scope, "once", reason)

    async def _decide(
        self, typed: str, verdict: ApprovalVerdict, scope: CommandScope, reach: ApprovalScope, reason: str = ""
    ) -> CommandReply:
        decided = await self._approvals().decide(
            typed, verdict, scope.inbound, scope=reach, reason=reason, session=scope.session
        )
        language = scope.language
        if isinstance(decided, Refusal):
            return CommandReply(refusal_text(decided.why, language, self._prefix), ephemeral=True)
        if verdict == "granted" or scope.session != decided.session:
            return CommandReply(answer(decided, language), ephemeral=True)
        if scope.inbound.chat_type != "direct":  # this answer alone tells the others there of the denial
            language = decided.language
        return CommandReply(answer(decided, language))

    async def _which(self, scope: CommandScope) -> CommandReply:
        """Ask for an id, even if only one waits: between reading and typing it may have become another."""
        waiting = await self._approvals().open_to(scope.inbound)
        which = refusal_text("which", scope.language, self._prefix)
        return CommandReply(f"{which}\n{waiting_text(waiting, scope.language)}", ephemeral=True)

    async def _list(self, args: Sequence[str], scope: CommandScope) -> CommandReply:
        waiting = await self._approvals().open_to(scope.inbound)
        return CommandReply(waiting_text(waiting, scope.language), ephemeral=True)

    async def _grants(self, args: Sequence[str], scope: CommandScope) -> CommandReply:
        if not args:
            found = await self._approvals().grants.open_to(scope.inbound)
            return CommandReply(grants_text(found, scope.language, self._prefix), ephemeral=True)
        if len(args) != 2 or args[0].lower() not in _REVOKE:
            return CommandReply(not_revoked("words", scope.language, self._prefix), ephemeral=True)
        revoked = await self._approvals().grants.revoke(args[1], scope.inbound)
        if isinstance(revoked, Refusal):
            return CommandReply(not_revoked(revoked.why, scope.language, self._prefix), ephemeral=True)
        return CommandReply(taken_back(revoked, scope.language), ephemeral=True)
