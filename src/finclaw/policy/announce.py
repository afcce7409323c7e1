"""Events about a judgement: one for each, another for a deny, and a line in the log for sensitive data."""

import logging

from finclaw.kernel.event import Emit, PolicyDenied, PolicyJudged
from finclaw.kernel.scope import Ids
from finclaw.policy.verdict import Judgement, PolicyContext

log = logging.getLogger(__name__)


def announce(judgement: Judgement, ctx: PolicyContext, call_id: str, emit: Emit, ids: Ids) -> None:
    verdict, stage, reason = judgement.verdict, judgement.deciding_stage, judgement.reason
    warnings = [word.warning for word in judgement.stages if word.warning and verdict != "deny"]
    emit(
        PolicyJudged(
            call_id=call_id,
            tool=ctx.tool.name,
            verdict=verdict,
            stage=stage,
            reason=reason,
            sensitive=bool(warnings),
            **ids,
        )
    )
    if verdict == "deny":
        emit(PolicyDenied(call_id=call_id, tool=ctx.tool.name, reason=reason, **ids))
    for warning in warnings:
        log.warning("%s: for %s on %s, %s by %s (%s)", warning, ctx.user, ctx.channel, verdict, stage, reason)
