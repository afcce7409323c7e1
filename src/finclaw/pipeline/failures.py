"""Failures of a message in the pipeline: each becomes an outcome, and a notice that says what to do about it."""

import logging

from msgspec.structs import replace

from finclaw.agent.model.failover import reason_with_hint
from finclaw.agent.tool_results import find_unknown_calls
from finclaw.delivery.notice import Notice, describe_unknown_calls, error_notice, limit_notice, notice
from finclaw.errors import BudgetExceeded, ModelUnknown, ProviderError, Superseded, ToolLoop, TurnStopped
from finclaw.kernel.envelope import Outbound
from finclaw.kernel.scope import Outcome
from finclaw.pipeline.journal import Halt
from finclaw.pipeline.message_run import MessageRun
from finclaw.redaction.redact import describe_error
from finclaw.sessions.waiting import INTERRUPTED

log = logging.getLogger(__name__)


def end_by_error(run: MessageRun, error: Exception, timeout_ms: int) -> Outcome:
    if isinstance(error, Halt):
        return run.end_by_halt(error)
    which: Notice = "failed"
    reason, about = describe_error(error), ""
    match error:
        case Superseded():
            which, reason = "reset", str(error)
        case TurnStopped():
            which, reason = _name_stop(run, str(error)), str(error)
        case ToolLoop():
            which, reason = "loop", str(error)
        case ModelUnknown():
            which, about = "model_unknown", error.model
            log.warning("a model was chosen that cannot be asked: %s", error)
        case BudgetExceeded():
            which = limit_notice(error.limit)
            run.unaffordable = run.log is not None and not run.log.paid_calls()
            log.warning("a model was not asked: %s", error)
        case ProviderError():
            which, reason = error_notice(error), reason_with_hint(error)
            log.error("the model did not answer: %s", reason)
        case TimeoutError() if run.deadline.expired:
            which, reason = "timeout", f"timeout after {timeout_ms} ms, by pipeline.timeout_ms"
            log.warning("a message took too long: %s", reason)
        case _:
            log.error("a message failed in the pipeline", exc_info=error)
    return end_with_notice(run, which, reason, about)


def _name_stop(run: MessageRun, reason: str) -> Notice:
    if reason.startswith(INTERRUPTED):
        return "interrupted"
    return "stopped" if run.stoppable.by_person else "stalled"


def end_by_leaked_cancellation(run: MessageRun) -> Outcome:
    """Somebody let their own cancellation out. Nobody wants us to stop, so it is a failure like any other."""
    log.exception("a message failed: a cancellation leaked out of a layer, a provider or a command")
    return end_with_notice(run, "failed", "CancelledError: not asked for by the gateway")


def end_with_notice(run: MessageRun, which: Notice, reason: str, about: str = "") -> Outcome:
    outcome = "stopped" if which in ("reset", "stopped", "stalled", "interrupted") else "failed"
    is_told = outcome == "stopped" and run.stoppable.is_told
    run.reply = None if is_told else _with_unknown_calls(run, notice(which, run.inbound, about))
    spent = None if run.log is None else run.log.build_result("failed", "")
    return run.end_with(outcome, reason, reply=None if run.reply is None else run.reply.text, result=spent)


def last_notice(run: MessageRun, which: Notice) -> Outbound | None:
    """What the sender of a message that is given up is told; None: somebody else tells them that it was stopped."""
    mark = run.accepted.stop
    told = _with_unknown_calls(run, notice(which, run.inbound))
    is_told = mark is not None and mark.told and (run.log is None or not find_unknown_calls(run.log))
    return None if is_told else told


def _with_unknown_calls(run: MessageRun, told: Outbound) -> Outbound:
    """With the tools that move money and were cut off: nobody else will say that they may have done so."""
    names = () if run.log is None else find_unknown_calls(run.log)
    if not names:
        return told
    return replace(told, text=f"{told.text}\n{describe_unknown_calls(names, run.inbound.reply_language)}")
