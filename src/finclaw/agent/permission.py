"""Permission for a tool call with exactly these arguments: policy judges; where a person must agree, they decide."""

import asyncio
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any, Final, assert_never

from msgspec.structs import replace

from finclaw.agent.turn_state.state import CallState, TurnState
from finclaw.agent.turn_state.turn_log import APPROVED
from finclaw.approvals.action import Action, definition_of
from finclaw.approvals.approvals import Approvals
from finclaw.errors import ToolAwaiting, ToolDenied, ToolTimeout
from finclaw.kernel.approval import Approval
from finclaw.kernel.context import Context
from finclaw.kernel.envelope import Inbound
from finclaw.kernel.message import Append, Replace
from finclaw.kernel.port import Tool, ToolScope
from finclaw.policy import Consent
from finclaw.policy.policy import Policy, announce
from finclaw.policy.verdict import PolicyContext, facts_of
from finclaw.taint.named_addresses import NamedAddresses
from finclaw.taint.sources import others_heard, sources_met
from finclaw.tools.registry import ToolRegistry
from finclaw.tools.strict_arguments import check_strict_arguments
from finclaw.transcript.approval_ids import action_hash
from finclaw.transcript.conversation import Conversation

QUOTE_SECONDS: Final = 10.0


_NO_TOOLS: Final[frozenset[str]] = frozenset()


class Permission:
    """The judge of a tool call.

    `consent` is a program's own way to ask somebody at once; without it, approvals are asked for and waited for.
    """

    def __init__(
        self,
        policy: Policy,
        tools: ToolRegistry,
        consent: Consent | None = None,
        approvals: Approvals | None = None,
    ) -> None:
        self._policy = policy
        self._tools = tools
        self._consent = consent
        self._approvals = approvals
        self._reach = ToolEffects(tools.get)

    async def __call__(self, call: CallState, tool: Tool, args: Mapping[str, Any], scope: ToolScope) -> None:
        """Returns when it may. Raises ToolDenied, or ToolAwaiting when somebody has been asked."""
        turn = call.turn
        ctx = call.ctx
        # The log's own conversation: a layer may put another one into its context. A long one is read only where it
        # matters, for most tools can do nothing that a stranger might want.
        conversation = turn.log.conversation
        inbound = turn.asked_in.inbound
        overheard = bool(others_heard(conversation, inbound))
        met: tuple[str, ...] = ()
        if overheard or may_act(tool):
            met = sources_met(conversation, inbound)
        untrusted = bool(met) and self._reach.acts(tool, args, conversation, inbound, ctx.call_id)
        asked = self._question(turn, tool, args, untrusted=untrusted, overheard=overheard)
        judgement = self._policy.judge(asked)
        announce(judgement, asked, ctx.call_id, ctx.emit, ctx.ids)
        match judgement.verdict:
            case "allow":
                return
            case "deny":
                raise ToolDenied(f"{tool.spec.name} may not run here: {judgement.reason}; it was not run")
            case "require-approval":
                check_strict_arguments(tool.spec, args)  # a card shows only what the tool takes, and as it takes it
                sources = met or sources_met(conversation, inbound)
                await self._ask_person(call, tool, args, scope, sources, untrusted=untrusted or overheard)
            case _:
                assert_never(judgement.verdict)

    def denied_tools(self, asked_in: Context) -> frozenset[str]:
        """The tools of which no call may run for whoever asks: the model is not offered them."""
        if not self._policy.may_deny_always:
            return _NO_TOOLS
        tools = self._tools.list()
        return frozenset([tool.spec.name for tool in tools if self._policy.always_denies(self._facts(asked_in, tool))])

    def _question(
        self, turn: TurnState, tool: Tool, args: Mapping[str, Any], *, untrusted: bool, overheard: bool
    ) -> PolicyContext:
        facts = self._facts(turn.asked_in, tool)
        session = turn.log.claim.session
        return replace(facts, session=session, args=args, untrusted=untrusted, overheard=overheard)

    def _facts(self, asked_in: Context, tool: Tool) -> PolicyContext:
        """What policy must know beside the arguments: the tool, and for whom it would run."""
        user = _user_of(asked_in.inbound)
        entry = self._tools.entry(tool.spec.name)
        return PolicyContext(
            tool=facts_of(tool, entry.source if entry else ""),
            user=user,
            roles=asked_in.sender.roles,
            channel=user.partition(":")[0],  # of a helper's turn that of the person for whom it runs
            agent=asked_in.agent,
        )

    async def _ask_person(
        self,
        call: CallState,
        tool: Tool,
        args: Mapping[str, Any],
        scope: ToolScope,
        sources: tuple[str, ...],
        *,
        untrusted: bool,
    ) -> None:
        if self._consent is not None:
            if not await self._consent(tool, deepcopy(dict(args)), scope):
                raise ToolDenied(f"{tool.spec.name} needs a person's approval and nobody has given it; it was not run")
            return
        if self._approvals is None:
            raise ToolDenied(f"{tool.spec.name} needs a person's approval and nobody can be asked; it was not run")
        quote = await _quote(tool, args, scope)
        approvals = self._approvals
        action = self._action(call, tool, args, sources, quote)
        log = call.turn.log
        call_id = call.ctx.call_id
        has_begun = call_id in log.started or call_id in log.ended
        approved = call.turn.approved
        agreed = approved is not None and not has_begun and _is_that(approved, call_id, tool, args)
        if approved is not None and agreed and not approvals.has_drifted(approved, quote):
            await approvals.take(approved.id, action.turn_id, action.session)
            return
        if not untrusted and await approvals.grants.standing(action) is not None:
            return
        await approvals.ask(action)
        raise ToolAwaiting(
            "awaiting approval, not executed. The person has been asked; do not ask again, and do not say that it was "
            "done."
        )

    @staticmethod
    def _action(
        call: CallState,
        tool: Tool,
        args: Mapping[str, Any],
        sources: tuple[str, ...],
        quote: Mapping[str, Any] | None,
    ) -> Action:
        claim = call.turn.log.claim
        return Action(
            tool=tool.spec.name,
            args=deepcopy(dict(args)),
            inbound=call.turn.asked_in.as_accepted,
            session=claim.session,
            inbound_id=claim.inbound_id,
            turn_id=claim.turn_id,
            call_id=call.ctx.call_id,
            moves_money=tool.transactional,
            quote=quote,
            sources=sources,
            definition=definition_of(tool),
        )


async def _quote(tool: Tool, args: Mapping[str, Any], scope: ToolScope) -> Mapping[str, Any] | None:
    if tool.quote is None:
        return None
    try:
        async with asyncio.timeout(QUOTE_SECONDS):
            return await tool.quote(deepcopy(dict(args)), scope)
    except TimeoutError as error:
        raise ToolTimeout(f"{tool.spec.name} got no price within {QUOTE_SECONDS:g} s; nobody was asked") from error


def _is_that(approved: Approval, call_id: str, tool: Tool, args: Mapping[str, Any]) -> bool:
    """The very action, and to the letter: whatever a layer has made of it since is asked for anew."""
    return call_id == approved_call_id(approved) and _hash_of(tool, args) == approved.hash


def _hash_of(tool: Tool, args: Mapping[str, Any]) -> str:
    return action_hash(tool.spec.name, args, definition_of(tool))


def approved_call_id(approved: Approval) -> str:
    return f"{APPROVED}{approved.id}"


def _user_of(inbound: Inbound) -> str:
    """The sender as rules name them. A helper's turn runs for the person for whom it was begun."""
    if inbound.limits is not None and inbound.limits.pool == "subagent":
        return f"{inbound.account}:{inbound.sender.id}"
    return f"{inbound.channel}:{inbound.sender.id}"


SPEAKS_FOR_US: Final = "communication"  # the group of tools that write to others
_GOES_OUT: Final = "web"


def may_act(tool: Tool) -> bool:
    """Whether some call of it could."""
    return tool.transactional or tool.approval or tool.changes or tool.group in (SPEAKS_FOR_US, _GOES_OUT)


class ToolEffects:
    def __init__(self, find: Callable[[str], Tool | None]) -> None:
        """`find` gives a tool by its name."""
        self._find = find

    def acts(
        self, tool: Tool, args: Mapping[str, Any], conversation: Conversation, asked_by: Inbound, call_id: str
    ) -> bool:
        if tool.transactional or tool.approval or tool.changes or tool.group == SPEAKS_FOR_US:
            return True
        return tool.group == _GOES_OUT and self._carries_out(tool, args, conversation, asked_by, call_id)

    def _carries_out(
        self, tool: Tool, args: Mapping[str, Any], conversation: Conversation, asked_by: Inbound, call_id: str
    ) -> bool:
        """What the model has put together may carry what it knows to whoever is asked for it.

        An address that stands in the person's words, or in a page as it was read, carries nothing but the choice.
        """
        named = NamedAddresses(asked_by, self._goes_out, self._writes_itself)
        # With what was taken out again in this turn: a page that is gone has used up its share all the same.
        added = (event.message for event in conversation.events if isinstance(event, Append | Replace))
        named.read((*conversation.base_messages, *added), before=call_id)
        return not named.allow(tool, args)

    def _goes_out(self, name: str) -> Tool | None:
        tool = self._find(name)
        if tool is None or tool.group != _GOES_OUT:
            return None
        return tool

    def _writes_itself(self, name: str) -> bool:
        """Whether its results are a model's words, or nobody knows: an address in them was named by no page."""
        tool = self._find(name)
        return tool is None or tool.group == "agent"
