"""The vendors' own clients ask the same server what we ask, and their events are told in our words."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

import anthropic
import msgspec
import openai

from finclaw.kernel.chunk import (
    Chunk,
    Done,
    ModelRequest,
    StopReason,
    TextDelta,
    ThinkingDelta,
    ToolInputDelta,
    ToolUseEnd,
    ToolUseStart,
    Usage,
    UsageReport,
)
from finclaw.providers.anthropic.request import AnthropicRequestWriter as AnthropicWriter
from finclaw.providers.openai.request import OpenAIRequestWriter as OpenAIWriter

Heard = Callable[[str, ModelRequest], list[Chunk]]

_STOPS: Final[Mapping[str, StopReason]] = {
    "end_turn": "end",
    "stop": "end",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
}
_FIRST_CALL: Final = 2
"""The block at which we put the first call of an API that has no blocks; its thinking is 0, its words are 1."""


def heard(chunks: Sequence[Chunk]) -> list[Chunk]:
    """Character by character, for how many come in one piece is the line's affair; of the usage the last report."""
    kept = [each for chunk in chunks if not isinstance(chunk, UsageReport) for each in _characters(chunk)]
    ends = [each for each in kept if isinstance(each, Done)]
    usage = [each for each in chunks if isinstance(each, UsageReport)]
    return [*(each for each in kept if not isinstance(each, Done)), *usage[-1:], *ends]


def _characters(chunk: Chunk) -> Iterator[Chunk]:
    match chunk:
        case TextDelta(text, index):
            yield from (TextDelta(each, index) for each in text)
        case ToolInputDelta(delta, index):
            yield from (ToolInputDelta(each, index) for each in delta)
        case ThinkingDelta(text, index, signature, redacted):
            yield from (ThinkingDelta(each, index) for each in text)
            if signature:
                yield ThinkingDelta("", index, signature, redacted)
        case _:
            yield chunk


def _stop(reason: str | None) -> StopReason:
    return _STOPS.get(str(reason)) or cast(StopReason, reason)


# ── Anthropic ───────────────────────────────────────────────────────────────────────────────────────────────


def _by_anthropic(url: str, asked: ModelRequest) -> list[Chunk]:
    body: dict[str, Any] = msgspec.json.decode(AnthropicWriter(10_000).write(asked))
    with anthropic.Anthropic(api_key="key", base_url=url, max_retries=0) as client:
        return heard([*_anthropic_chunks(cast(Iterable[Any], client.messages.create(**body)))])


def _anthropic_chunks(events: Iterable[Any]) -> Iterator[Chunk]:
    usage, stop, calls = Usage(), None, set[int]()
    for event in events:
        match event.type:
            case "message_start":
                usage = Usage(event.message.usage.input_tokens, event.message.usage.output_tokens)
            case "content_block_start":
                if event.content_block.type == "tool_use":
                    calls.add(event.index)
                    yield ToolUseStart(event.content_block.id, event.content_block.name, event.index)
                elif event.content_block.type == "redacted_thinking":
                    yield ThinkingDelta("", event.index, event.content_block.data, redacted=True)
            case "content_block_delta":
                yield _anthropic_delta(event.delta, event.index)
            case "content_block_stop" if event.index in calls:
                yield ToolUseEnd(event.index)
            case "message_delta":
                stop = event.delta.stop_reason
                usage = Usage(usage.input, event.usage.output_tokens)
            case _:
                pass
    yield UsageReport(usage)
    yield Done(_stop(stop))


def _anthropic_delta(delta: Any, index: int) -> Chunk:
    match delta.type:
        case "text_delta":
            return TextDelta(delta.text, index)
        case "thinking_delta":
            return ThinkingDelta(delta.thinking, index)
        case "signature_delta":
            return ThinkingDelta("", index, delta.signature)
        case _:
            return ToolInputDelta(delta.partial_json, index)


# ── OpenAI ──────────────────────────────────────────────────────────────────────────────────────────────────


def _by_openai(url: str, asked: ModelRequest) -> list[Chunk]:
    body: dict[str, Any] = msgspec.json.decode(OpenAIWriter(10_000, "max_tokens").write(asked))
    with openai.OpenAI(api_key="key", base_url=f"{url}/v1", max_retries=0) as client:
        return heard([*_openai_chunks(cast(Iterable[Any], client.chat.completions.create(**body)))])


def _openai_chunks(events: Iterable[Any]) -> Iterator[Chunk]:
    usage, stop, calls = Usage(), None, list[int]()
    for event in events:
        if event.usage:
            usage = Usage(event.usage.prompt_tokens, event.usage.completion_tokens)
        for choice in event.choices:
            yield ThinkingDelta(getattr(choice.delta, "reasoning_content", None) or "", 0)
            yield TextDelta(choice.delta.content or "", 1)
            for call in choice.delta.tool_calls or ():
                place = _FIRST_CALL + call.index
                if call.id:
                    calls.append(place)
                    yield ToolUseStart(call.id, call.function.name, place)
                yield ToolInputDelta(call.function.arguments or "", place)
            stop = choice.finish_reason or stop
    yield from () if stop == "length" else (ToolUseEnd(place) for place in calls)
    yield UsageReport(usage)
    yield Done(_stop(stop))


SDKS: Final[Mapping[str, Heard]] = {"anthropic": _by_anthropic, "openai": _by_openai}
