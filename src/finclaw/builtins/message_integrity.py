"""Integrity of requests and answers: no request that a model's API would refuse, and no answer that is none.

Before a model call the conversation is made whole: each call with its result, words in it, a user first. What other
layers or an old file have broken is mended through events and told to observers. After it, an answer without words
and calls, a call that was announced and never came, and a call written as text are asked for again, a few times.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Annotated, Final

from msgspec import Meta, Struct
from msgspec.structs import replace

from finclaw.kernel.event import SessionRepaired
from finclaw.kernel.extension import ExtensionApi
from finclaw.kernel.message import Append, Message, MessageEvent, Remove, Replace, Source, Text, Truncate
from finclaw.kernel.scope import ConversationView, StepContext, StepResult
from finclaw.transcript.integrity import mend
from finclaw.transcript.request_sanitizer import OPENING

_UNUSABLE: Final = "Your last answer could not be used:"
_CALL_AS_TEXT: Final = re.compile(r"<(?:tool_call|function_calls|invoke\b|function=)|\[TOOL_CALLS\]")


class IntegritySettings(Struct, frozen=True, forbid_unknown_fields=True):
    tries: Annotated[int, Meta(ge=0)] = 2
    """How often in one turn the model is asked again for an answer that is none."""


class MessageIntegrity:
    name = "message-integrity"

    def __init__(self, settings: IntegritySettings | None = None) -> None:
        self._settings = settings or IntegritySettings()

    def register(self, api: ExtensionApi) -> None:
        self._logger = api.logger
        # Far in, so that it sees the conversation as the other layers leave it.
        api.pipeline.register("step", self.step, priority=100)

    async def step(self, ctx: StepContext) -> StepResult:
        if not _only_runs_tools(ctx.conversation):
            self._mend(ctx)
        return self._judge(ctx, await ctx.next())

    def _mend(self, ctx: StepContext) -> None:
        messages = ctx.conversation.next_messages
        whole, findings = made_whole(messages)
        if not findings:
            return
        for event in changes(messages, whole):
            ctx.emit_message_event(event)
        ctx.emit(SessionRepaired(findings=tuple(findings), **ctx.ids))
        self._logger.warning("the conversation was mended before a model call", extra={"findings": findings})

    def _judge(self, ctx: StepContext, result: StepResult) -> StepResult:
        why = _fault(result)
        if not why:
            return result
        if _tries(ctx.conversation) >= self._settings.tries:
            self._logger.warning("the model's answer was let through although %s", why)
            return result
        ctx.emit_message_event(Remove(result.message.id))
        return replace(result, again=f"{_UNUSABLE} {why}. Please answer.")


# ── before ──────────────────────────────────────────────────────────────────────────────────────────────────


def made_whole(messages: Sequence[Message]) -> tuple[tuple[Message, ...], list[str]]:
    """The messages as an API takes them, and what had to be done. Names, ids and thinking are the provider's matter."""
    worded = [_without_calls(each) for each in messages]
    mended = mend(worded)
    findings = [f"{each.kind}: {each.text}" for each in mended.findings]
    if worded != list(messages):
        findings.append("a passing message may hold words only")
    whole = [
        message
        for message in mended.messages
        if any(not isinstance(block, Text) or block.text.strip() for block in message.blocks)
    ]
    if len(whole) < len(mended.messages):
        findings.append(f"{len(mended.messages) - len(whole)} messages without content were removed")
    if whole and whole[0].role == "assistant":
        findings.append("the assistant spoke first")
        first = whole[0]
        whole.insert(0, Message(f"{first.id}~opening", "user", (Text(OPENING),), Source("system"), first.created_at))
    return tuple(whole), findings


def changes(old: Sequence[Message], new: Sequence[Message]) -> Iterable[MessageEvent]:
    """Events that make the new messages of the old: single ones where the order allows it, else all from there on."""
    if len({each.id for each in old}) < len(old):  # one of two that share an id cannot be aimed at
        yield Truncate(0)
        yield from (Append(each) for each in new if not each.passing)
        return
    same = len(list(takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False))))
    old = old[same:]
    new = new[same:]
    kept = {each.id: each for each in new}
    stays = [each for each in old if each.id in kept and kept[each.id].role == each.role]
    if [each.id for each in stays] != [each.id for each in new[: len(stays)]]:
        stays = []
    staying = {each.id for each in stays}
    yield from (Remove(each.id) for each in old if each.id not in staying)
    yield from (Replace(each.id, kept[each.id]) for each in stays if kept[each.id] != each)
    yield from (Append(each) for each in new[len(stays) :])


def _without_calls(message: Message) -> Message:
    """The fold would remove a passing call, but not its result."""
    if not message.passing:
        return message
    return replace(message, blocks=tuple(block for block in message.blocks if isinstance(block, Text)))


def _only_runs_tools(conversation: ConversationView) -> bool:
    """A step that takes up what a crash left open asks no model: the results of the last calls are still to come."""
    appended = [event.message for event in conversation.events if isinstance(event, Append)]
    asked = next((each for each in reversed(appended) if each.source.kind == "assistant"), None)
    if asked is None:
        return False
    answered = {one.call_id for each in appended if each.source.kind == "tool" for one in each.tool_results}
    return any(call.id not in answered for call in asked.tool_calls)


# ── after ───────────────────────────────────────────────────────────────────────────────────────────────────


def _fault(result: StepResult) -> str:
    """Why this is no answer; empty when it is one. A refusal is one, and so is one that was cut for its length."""
    text = result.message.text
    if result.has_tool_calls or result.again or result.status == "failed" or result.stop == "refusal":
        return ""
    if not text.strip():
        return "it was empty"
    if result.stop == "tool_use":
        return "it announced a tool call and made none"
    if _CALL_AS_TEXT.search(text):
        return "it wrote a tool call as text; call tools the way they are offered"
    return ""


def _tries(conversation: ConversationView) -> int:
    """Counted in the log, so that a turn which resumes after a crash does not begin anew."""
    notes = (event.message for event in conversation.events if isinstance(event, Append) and event.message.passing)
    return sum(1 for note in notes if note.text.startswith(_UNUSABLE))


name = MessageIntegrity.name


def register(api: ExtensionApi) -> None:
    MessageIntegrity(api.read_settings(IntegritySettings)).register(api)
