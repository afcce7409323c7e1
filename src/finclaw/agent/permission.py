"""Permission for a tool call with exactly these arguments: policy judges; where a person must agree, they decide."""

import asyncio
from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Final, assert_never

from msgspec.structs import replace

from finclaw.agent.turn_state.state import CallState
from finclaw.agent.turn_state.turn_log import APPROVED
from finclaw.approvals.action import Action, definition_of
from finclaw.approvals.approvals import Approvals
from finclaw.errors import ToolAwaiting, ToolDenied, ToolTimeout
from finclaw.kernel.approval import Approval
from finclaw.kernel.context import Context
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

QUOTE_SECONDS: Final = 10.0
_SPEAKS_FOR_US: Final = "communication"
_GOES_OUT: Final = "web"


class Permission:
    """`consent` is a program's own way to ask somebody at once; without it, approvals are asked for and waited for."""

    def __init__(
        self, policy: Policy, tools: ToolRegistry, consent: Consent | None, approvals: Approvals | None
    ) -> None:
        self._policy = policy
        self._tools = tools
        self._consent = consent
        self._approvals = approvals

    async def __call__(self, call: CallState, tool: Tool, args: Mapping[str, Any], scope: ToolScope) -> None:
        """Returns when it may. Raises ToolDenied, or ToolAwaiting when somebody has been asked."""
        turn = call.turn
        ctx = call.ctx
        # The log's own conversation: a layer may put another one into its context. A long one is read only where it
        # matters, for most tools can do nothing that a stranger might want.
        conversation = turn.log.conversation
        inbound = turn.asked_in.inbound
        overheard = bool(others_heard(conversation, inbound))
        acts = tool.transactional or tool.approval or tool.changes or tool.group == _SPEAKS_FOR_US
        met: tuple[str, ...] = ()
        if overheard or acts or tool.group == _GOES_OUT:
            met = sources_met(conversation, inbound)
        untrusted = bool(met) and (acts or self._carries_out(call, tool, args))
        facts = self._facts(turn.asked_in, tool)
        session = turn.log.claim.session
        asked = replace(facts, session=session, args=args, untrusted=untrusted, overheard=overheard)
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
        if not self._policy.may_deny_always:
            return frozenset()
        tools = self._tools.list()
        return frozenset([tool.spec.name for tool in tools if self._policy.always_denies(self._facts(asked_in, tool))])

    def _carries_out(self, call: CallState, tool: Tool, args: Mapping[str, Any]) -> bool:
        """An address that the model composed may carry what it knows; one from a person or a page does not."""
        if tool.group != _GOES_OUT:
            return False
        conversation = call.turn.log.conversation
        named = NamedAddresses(call.turn.asked_in.inbound, self._web_tool, self._writes_itself)
        # With what was taken out again in this turn: a page that is gone has used up its share all the same.
        added = (event.message for event in conversation.events if isinstance(event, Append | Replace))
        named.read((*conversation.base_messages, *added), before=call.ctx.call_id)
        return not named.allow(tool, args)

    def _web_tool(self, name: str) -> Tool | None:
        tool = self._tools.get(name)
        return tool if tool is not None and tool.group == _GOES_OUT else None

    def _writes_itself(self, name: str) -> bool:
        """Whether its results are a model's words, or nobody knows: an address in them was named by no page."""
        tool = self._tools.get(name)
        return tool is None or tool.group == "agent"

    def _facts(self, asked_in: Context, tool: Tool) -> PolicyContext:
        inbound = asked_in.inbound
        user = f"{inbound.channel}:{inbound.sender.id}"
        if inbound.limits is not None and inbound.limits.pool == "subagent":
            user = f"{inbound.account}:{inbound.sender.id}"  # a helper's turn runs for the person who began it
        entry = self._tools.entry(tool.spec.name)
        return PolicyContext(
            tool=facts_of(tool, entry.source if entry else ""),
            user=user,
            roles=asked_in.sender.roles,
            channel=user.partition(":")[0],
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
        log = call.turn.log
        call_id = call.ctx.call_id
        action = Action(
            tool=tool.spec.name,
            args=deepcopy(dict(args)),
            inbound=call.turn.asked_in.as_accepted,
            session=log.claim.session,
            inbound_id=log.claim.inbound_id,
            turn_id=log.claim.turn_id,
            call_id=call_id,
            moves_money=tool.transactional,
            quote=quote,
            sources=sources,
            definition=definition_of(tool),
        )
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


async def _quote(tool: Tool, args: Mapping[str, Any], scope: ToolScope) -> Mapping[str, Any] | None:
    if tool.quote is None:
        return None
    try:
        async with asyncio.timeout(QUOTE_SECONDS):
            return await tool.quote(deepcopy(dict(args)), scope)
    except TimeoutError as error:
        raise ToolTimeout(f"{tool.spec.name} got no price within {QUOTE_SECONDS:g} s; nobody was asked") from error


def _is_that(approved: Approval, call_id: str, tool: Tool, args: Mapping[str, Any]) -> bool:
    """Whether this is exactly the approved action: if a layer has changed anything since, it is asked for again."""
    actual = action_hash(tool.spec.name, args, definition_of(tool))
    return call_id == approved_call_id(approved) and actual == approved.hash


def approved_call_id(approved: Approval) -> str:
    return f"{APPROVED}{approved.id}"
