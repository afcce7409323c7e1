"""The agent loop, on one screen: steps until the model asks for no more tools, then the answer."""

import asyncio
from functools import partial

from msgspec.structs import replace

from finclaw.agent.approved_actions import ApprovedActions
from finclaw.agent.model.answer_message import without_calls
from finclaw.agent.model.call import ModelCall
from finclaw.agent.step import Step
from finclaw.agent.tool_results import answer_open_calls
from finclaw.agent.turn_state.state import TurnState
from finclaw.ids import new_id
from finclaw.kernel.event import ExecutionCompleted, ExecutionStarted, StepStarted, StreamDone, StreamFailed
from finclaw.kernel.message import Append, Message, Source, Text
from finclaw.kernel.middleware import Ring
from finclaw.kernel.port import Clock
from finclaw.kernel.scope import StepContext, StepResult, TurnContext, TurnResult, TurnStatus
from finclaw.redaction.redact import describe_error


class TurnLoop:
    """The loop that runs turns inside their rings.

    The state of each is handed from function to function; layers never see it.
    """

    def __init__(
        self,
        turn_ring: Ring[TurnContext, TurnResult],
        step_ring: Ring[StepContext, StepResult],
        step: Step,
        approved: ApprovedActions,
        model_call: ModelCall,
        clock: Clock,
    ) -> None:
        self._turn_ring = turn_ring
        self._step_ring = step_ring
        self._step = step
        self._approved = approved
        self._model_call = model_call
        self._clock = clock

    async def run(self, turn: TurnState) -> TurnResult:
        """See one input through to its answer. Whatever happens, the start that observers saw gets its end."""
        log, emit, ids = turn.log, turn.ctx.emit, turn.ctx.ids
        started = self._clock.monotonic()
        emit(ExecutionStarted(resumed=log.claim.resumed, **ids))
        status: TurnStatus = "failed"
        try:
            answer = await self._turn_ring(turn.ctx, partial(self._run_steps, turn))
            answer_open_calls(log, self._clock.now())
            status = answer.status if turn.entered else "short_circuited"
            text = answer.text
            questions = await self._approved.questions(turn)
            turn.side_calls.close()
            asked = [each.card for each in questions]
            if asked:  # no layer has a word in what a person is asked
                status, text = "waiting_for_human", "\n\n".join(asked)
            result = log.build_result(status, text, answer.metadata, self._ms_since(started), asked)
            if questions:
                result = replace(result, buttons=self._approved.buttons(questions))
            turn.state.move("failed" if status == "failed" else "done")
            return result
        except asyncio.CancelledError:
            status = "aborted"
            turn.state.move("aborted")
            raise
        except Exception as error:
            turn.state.move("failed")
            emit(StreamFailed(error=describe_error(error), **ids))
            raise
        finally:
            turn.side_calls.close()
            log.close_to_layers()
            emit(StreamDone(status=status, **ids))
            ms = self._ms_since(started)
            emit(ExecutionCompleted(status=status, steps=len(log.answers), duration_ms=ms, usage=log.usage(), **ids))

    async def _run_steps(self, turn: TurnState, ctx: TurnContext) -> TurnResult:
        """The core of the turn ring."""
        turn.entered = True
        await self._approved.run(turn, _step_context(ctx, 0))
        if turn.log.waits:
            return TurnResult(status="waiting_for_human", text="")
        turn.unseen = turn.log.unseen()
        first = turn.log.finished_steps()
        for index in range(first, turn.max_steps):
            if index > first and turn.log.steering is not None:
                await turn.log.steering.take(len(turn.log.answers))
            ctx.emit(StepStarted(step=index, **ctx.ids))
            step = await self._step_ring(_step_context(ctx, index), partial(self._step, turn))
            if step.status == "failed":
                return TurnResult(status="failed", text=step.message.text)
            if turn.log.waits:
                return TurnResult(status="waiting_for_human", text="")
            if not step.has_tool_calls and not step.again:
                return TurnResult(status="completed", text=step.message.text)
            if not step.has_tool_calls:
                turn.log.push(Append(self._why_again(step.again, index)))
        ctx.emit(StepStarted(step=turn.max_steps, **ctx.ids))
        closing = without_calls(await self._model_call(turn, (), turn.max_steps))
        turn.log.push(Append(closing))
        return TurnResult(status="max_steps", text=closing.text)

    def _why_again(self, why: str, index: int) -> Message:
        """What the model has to know for another try; without it the request would end with its own last words."""
        return Message(new_id(), "system", (Text(why),), Source("system"), self._clock.now(), passing=f"again {index}")

    def _ms_since(self, moment: float) -> float:
        return round((self._clock.monotonic() - moment) * 1_000_000) / 1_000


def _step_context(turn: TurnContext, index: int) -> StepContext:
    return StepContext(
        ids=turn.ids,
        emit=turn.emit,
        metadata=turn.metadata.new_child(),
        turn=turn,
        index=index,
        tool_catalog=turn.tool_catalog,
    )
