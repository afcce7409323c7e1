"""The rules of the models' APIs for messages, as a check of its own: it shares no code with what repairs or sends them.

The rules are those that Anthropic's messages and OpenAI's chat completions enforce with a 400. Our messages of the
roles tool and system reach Anthropic as the user's; OpenAI gets each tool result as a tool message, and no thinking.
"""

import re
from collections.abc import Generator, Sequence
from typing import Final, Literal

from msgspec import Struct

from finclaw.kernel.message import Block, Image, Message, Text, Thinking, ToolCall, ToolResult

Rules = Literal["anthropic", "openai"]

_LEGAL_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_LEGAL_ID: Final = re.compile(r"[a-zA-Z0-9_-]+")
_OPENAI_ID: Final = re.compile(r"(?s).{1,40}")


class Violation(Struct, frozen=True):
    """A rule that a message breaks."""

    message_id: str
    text: str


def violations(messages: Sequence[Message], rules: Rules) -> tuple[Violation, ...]:
    """Everything for which the API would refuse a request with these messages; empty when it would take them."""
    if not messages:
        return (Violation("", "a request needs at least one message"),)
    return tuple(_anthropic(messages) if rules == "anthropic" else _openai(messages))


# ── Anthropic ───────────────────────────────────────────────────────────────────────────────────────────────


class _Side(Struct):
    """Neighbours of one role, which the API reads as one message."""

    is_assistant: bool
    messages: list[Message]

    def calls(self) -> list[str]:
        return [call.id for message in self.messages for call in message.tool_calls]


def _anthropic(messages: Sequence[Message]) -> Generator[Violation]:
    sides = _sides(messages)
    if sides[0].is_assistant:
        yield Violation(messages[0].id, "the first message must be the user's")
    for side in sides:
        for message in side.messages:
            yield from _anthropic_blocks(message, side.is_assistant)
    yield from _repeated_ids(messages)
    open_calls: list[str] = []
    for side in sides:
        yield from _anthropic_answers(side, open_calls)
        open_calls = side.calls() if side.is_assistant else []
    for call_id in open_calls:
        yield Violation(messages[-1].id, f"call {call_id!r} has no result behind it")
    yield from _trailing_space(messages[-1])


def _sides(messages: Sequence[Message]) -> list[_Side]:
    sides: list[_Side] = []
    for message in messages:
        is_assistant = message.role == "assistant"
        if not sides or sides[-1].is_assistant != is_assistant:
            sides.append(_Side(is_assistant, []))
        sides[-1].messages.append(message)
    return sides


def _anthropic_blocks(message: Message, is_assistant: bool) -> Generator[Violation]:
    if not message.blocks:
        yield Violation(message.id, "it has no content")
    elif isinstance(message.blocks[-1], Thinking):
        yield Violation(message.id, "thinking at the end of a message")
    for block in message.blocks:
        fault = _anthropic_fault(block, is_assistant)
        if fault:
            yield Violation(message.id, fault)
        if isinstance(block, ToolCall):
            yield from _illegal(message, block, _LEGAL_ID)


def _anthropic_fault(block: Block, is_assistant: bool) -> str:
    match block:
        case Text(text):
            return "" if text.strip() else "a text without a visible character"
        case Image():
            return "an image of the assistant's" if is_assistant else ""
        case Thinking():
            return "" if is_assistant and block.signature else "thinking that is unsigned or not the assistant's"
        case ToolCall():
            return "" if is_assistant else "a tool call that is not the assistant's"
        case ToolResult():
            return "a tool result of the assistant's" if is_assistant else ""


def _illegal(message: Message, call: ToolCall, legal_id: re.Pattern[str]) -> Generator[Violation]:
    if not legal_id.fullmatch(call.id):
        yield Violation(message.id, f"the call id {call.id!r} is not legal")
    if not _LEGAL_NAME.fullmatch(call.name):
        yield Violation(message.id, f"the tool name {call.name!r} is not legal")


def _repeated_ids(messages: Sequence[Message]) -> Generator[Violation]:
    seen: set[str] = set()
    for message in messages:
        for call in message.tool_calls:
            if call.id in seen:
                yield Violation(message.id, f"the call id {call.id!r} is used twice")
            seen.add(call.id)


def _anthropic_answers(side: _Side, open_calls: list[str]) -> Generator[Violation]:
    """Results come first on the user's side, one for each call of the assistant's side right before, and no other."""
    unanswered = set(open_calls)
    something_else = False
    for message in side.messages:
        for block in message.blocks:
            if not isinstance(block, ToolResult):
                something_else = True
            elif block.call_id not in unanswered:
                yield Violation(message.id, f"a result of {block.call_id!r}, which waits for none")
            else:
                unanswered.discard(block.call_id)
                if something_else:
                    yield Violation(message.id, f"the result of {block.call_id!r} does not come first")
    for call_id in sorted(unanswered):
        yield Violation(side.messages[0].id, f"call {call_id!r} has no result behind it")


def _trailing_space(last: Message) -> Generator[Violation]:
    final = last.blocks[-1] if last.blocks else None
    if last.role == "assistant" and isinstance(final, Text) and final.text != final.text.rstrip():
        yield Violation(last.id, "the assistant's last words end in white space")


# ── OpenAI ──────────────────────────────────────────────────────────────────────────────────────────────────


def _openai(messages: Sequence[Message]) -> Generator[Violation]:
    unanswered: list[str] = []
    for message in messages:
        if message.role == "tool":
            yield from _openai_results(message, unanswered)
            continue
        for call_id in unanswered:
            yield Violation(message.id, f"call {call_id!r} has no result before this message")
        unanswered = []
        if message.role == "assistant":
            yield from _openai_assistant(message)
            unanswered = [call.id for call in message.tool_calls]
        else:
            yield from _openai_words(message)
    for call_id in unanswered:
        yield Violation(messages[-1].id, f"call {call_id!r} has no result")


def _openai_results(message: Message, unanswered: list[str]) -> Generator[Violation]:
    if not message.tool_results or len(message.tool_results) != len(message.blocks):
        yield Violation(message.id, "a tool message is results and nothing else")
    for result in message.tool_results:
        if result.call_id in unanswered:
            unanswered.remove(result.call_id)
        else:
            yield Violation(message.id, f"a result of {result.call_id!r}, which waits for none")


def _openai_assistant(message: Message) -> Generator[Violation]:
    ids = [call.id for call in message.tool_calls]
    if message.tool_results:
        yield Violation(message.id, "a tool result of the assistant's")
    if any(isinstance(block, Image) for block in message.blocks):
        yield Violation(message.id, "an image of the assistant's")
    if not ids and not any(isinstance(block, Text) for block in message.blocks):
        yield Violation(message.id, "it has neither content nor calls")
    if len(set(ids)) != len(ids):
        yield Violation(message.id, "two calls have one id")
    for call in message.tool_calls:
        yield from _illegal(message, call, _OPENAI_ID)


def _openai_words(message: Message) -> Generator[Violation]:
    if message.tool_calls or message.tool_results:
        yield Violation(message.id, f"a tool call or result of the {message.role}'s")
    if not any(isinstance(block, Text | Image) for block in message.blocks):
        yield Violation(message.id, "it has no content")
