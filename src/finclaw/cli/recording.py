"""A recorded turn as a model and as tools: they say what they said then, and nothing is asked or run for real."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

import finclaw.errors
from finclaw.agent.budget.call_ledger import usage_of
from finclaw.agent.model.answer import stop_of
from finclaw.agent.turn_state.state import CallState
from finclaw.agent.turn_state.turn_log import TurnLog
from finclaw.agent.window.context_window import ContextGuard
from finclaw.errors import InvalidArguments, ProviderError
from finclaw.kernel import chunk
from finclaw.kernel.chunk import Chunk, Model, ModelRequest, ToolSpec, Usage
from finclaw.kernel.extension import ExtensionApi
from finclaw.kernel.message import (
    SUMMARY,
    Append,
    Block,
    Image,
    Message,
    Patch,
    Replace,
    Text,
    Thinking,
    ToolCall,
    ToolFailure,
    ToolResult,
)
from finclaw.kernel.record import TurnTrace
from finclaw.kernel.scope import Outcome, ToolCallContext, TurnContext, TurnResult
from finclaw.sessions.steering import Steering
from finclaw.testing.clock import FakeClock
from finclaw.tools.arguments import ArgumentCheck
from finclaw.tools.loop_guard import without_warning

NOT_RECORDED: Final = "NotRecorded"


class Recording:
    """A Provider and an Extension in one, from a recorded turn. `given` are the arguments with which each call reached
    its tool."""

    name = "finclaw-replay"

    def __init__(self, story: TurnTrace, clock: FakeClock) -> None:
        self._clock = clock
        self._outcome = story.outcome
        begun = story.record.started_at
        self._summaries = [each for each in story.before if SUMMARY in each.metadata and each.created_at >= begun]
        self._answers = iter([message for message in story.messages if message.source.kind == "assistant"])
        self._joined = _messages_by_answers(story)
        told = (message for message in story.messages if message.source.kind == "tool")
        self._results = {result.call_id: result for message in told for result in message.tool_results}
        self._arguments = ArgumentCheck()
        self._said: Message | None = None
        self.given: dict[str, dict[str, Any]] = {}

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        self._said = answer = next(self._answers, None)
        if answer is None:
            # The model gave no more answers: it failed, or time ran out while it was asked. Else this is something new.
            if ran_out_of_time(self._outcome):
                await asyncio.Event().wait()  # until it does again
            raise _failure(self._outcome) or ProviderError("the record has no further answer of the model")
        for piece in answer_chunks(answer):
            yield piece
        # Layers that look at the time see what they saw; timers, which may have been still, do not notice.
        self._clock.jump(answer.created_at - self._clock.now())
        yield chunk.Done(stop_of(answer))

    async def close(self) -> None:
        pass

    def guard(self) -> ContextGuard:
        return _AsRecorded()

    def steering(self, log: TurnLog) -> Steering | None:
        return _RecordedSteering(log, self._joined) if self._joined else None

    async def repeat_events(self, ctx: TurnContext) -> TurnResult:
        """What happened to the turn beside its answers and results: layers may tell the person of it."""
        for summary in self._summaries:  # by this turn, though it stands in what was said before
            ctx.emit_message_event(Replace(summary.id, summary))
        result = await ctx.next()
        answers = [each for each in ctx.conversation.next_messages if each.source.kind == "assistant"]
        if answers and self._said is not None and "instead_of" in self._said.metadata:
            names = {name: self._said.metadata[name] for name in ("model", "instead_of")}
            ctx.emit_message_event(Patch(answers[-1].id, names))
        return result

    def register(self, api: ExtensionApi) -> None:
        api.pipeline.register("turn", self.repeat_events)

    async def answer_call(self, call: CallState) -> ToolResult | None:
        """The recorded result, in the core's place behind every layer; None for a tool that was not offered."""
        self.given[call.ctx.call_id] = dict(call.ctx.args)
        if call.ctx.tool_name not in call.turn.offered:
            return None
        return self._misuse(call.ctx) or await self._result(call.ctx)

    async def _result(self, call: ToolCallContext) -> ToolResult:
        recorded = self._results.get(call.call_id)
        if recorded is None:
            words = f"the record has no result for this call of {call.tool_name}"
            failure = ToolFailure(NOT_RECORDED, words)
            return ToolResult(call.call_id, call.tool_name, words, status="error", error=failure)
        await self._clock.sleep(recorded.ms / 1000)
        said = without_warning(call.tool_name, recorded.content)  # the guard warns again by itself
        return replace(recorded, content=said)

    def _misuse(self, call: ToolCallContext) -> ToolResult | None:
        """The tool may want other arguments than it did then."""
        spec = next((spec for spec in call.step.tool_catalog if spec.name == call.tool_name), None)
        try:
            if spec is not None and (checked := self._arguments.check(spec, call.args)).changes:
                self.given[call.call_id] = checked.args
        except InvalidArguments as error:
            failure = ToolFailure(type(error).__name__, str(error), code=error.code)
            return ToolResult(call.call_id, call.tool_name, str(error), "invalid", error=failure)
        return None


def _messages_by_answers(story: TurnTrace) -> dict[int, list[Message]]:
    """Messages that joined the turn, by the number of answers that the model had given before."""
    joined: dict[int, list[Message]] = {}
    answers = 0
    for message in story.messages[1:]:
        answers += message.source.kind == "assistant"
        if message.source.kind == "user":
            joined.setdefault(answers, []).append(message)
    return joined


class _RecordedSteering:
    """The messages that joined a turn, each at the step at which it did. What they kept from running is recorded."""

    def __init__(self, log: TurnLog, joined: dict[int, list[Message]]) -> None:
        self._log = log
        self._joined = joined
        for message in joined.get(0, ()):  # those that the turn began with
            log.push(Append(message))

    def is_asked_for(self) -> bool:
        return False

    async def take(self, answers: int) -> None:
        for message in self._joined.get(answers, ()):
            self._log.push(Append(message))


class _AsRecorded(ContextGuard):
    """Compacts nothing: what the record holds is what compaction left of it, and the sizes in it were told before.
    Condensed once more it would be another conversation, and the summariser's answers are nowhere."""

    def __init__(self) -> None:  # pyright: ignore[reportMissingSuperCall]  nothing is measured here
        pass

    async def fit(self, model: Model, max_tokens: int, system: str, tools: Sequence[ToolSpec]) -> int:
        return min(max_tokens, model.max_output)

    async def shrink_after_refusal(self, model: Model, max_tokens: int) -> bool:
        return False

    def note_usage(self, usage: Usage, answer: Message) -> None:
        pass


def ran_out_of_time(outcome: Outcome | None) -> bool:
    """By the pipeline's deadline, or because the watchdog saw nothing of it for too long."""
    return outcome is not None and outcome.reason.startswith(("timeout after ", "no sign of life "))


def _failure(outcome: Outcome | None) -> ProviderError | None:
    """The model's failure, made again from the words in which it was recorded."""
    if outcome is None:
        return None
    name, _, text = outcome.reason.partition(": ")
    kind: object = getattr(finclaw.errors, name, None)
    if not (isinstance(kind, type) and issubclass(kind, ProviderError)):
        return None
    beside = ""
    if text.endswith(")"):
        text, _, beside = text.removesuffix(")").rpartition(" (")
    failure = kind(text)
    failure.beside = beside
    return failure


def answer_chunks(answer: Message) -> Iterator[Chunk]:
    """A recorded answer as it came, all but its end: the model's own words, in their own pieces."""
    lengths = iter(msgspec.convert(answer.metadata.get("chunks", ()), tuple[int, ...]))
    for index, block in enumerate(own_blocks(answer)):
        match block:
            case Text(text):
                yield from (chunk.TextDelta(piece, index) for piece in _pieces(text, lengths))
            case Thinking(text, signature, redacted):
                yield chunk.ThinkingDelta(text, index, signature, redacted)
            case ToolCall():
                yield from _call_chunks(block, index)
            case Image() | ToolResult():
                pass  # no model says one
    yield chunk.UsageReport(usage_of(answer))


def own_blocks(answer: Message) -> Iterator[Block]:
    """What the model itself wrote, where the person saw something else."""
    own: str | int | None = answer.metadata.get("model_text")
    for block in answer.blocks:
        if isinstance(block, Text) and isinstance(own, int):
            yield Text(block.text[:own])
        elif isinstance(block, Text) and isinstance(own, str):
            yield Text(own)
        else:
            yield block


def _pieces(text: str, lengths: Iterator[int]) -> Iterator[str]:
    while text:
        length = next(lengths, len(text))
        yield text[:length]
        text = text[length:]


def _call_chunks(call: ToolCall, index: int) -> Iterator[Chunk]:
    """A call that could not be read is not ended, so that it cannot be read again."""
    yield chunk.ToolUseStart(call.id, call.name, index)
    if call.bad_args is not None:
        yield chunk.ToolInputDelta(call.bad_args, index)
        return
    yield chunk.ToolInputDelta(msgspec.json.encode(call.args).decode(), index)
    yield chunk.ToolUseEnd(index)
