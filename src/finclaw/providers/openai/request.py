"""Requests of chat completions in bytes: a long conversation's cached beginning, and the messages behind it."""

from base64 import b64encode
from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec.structs import replace

from finclaw.kernel.chunk import Model, ModelRequest, ToolSpec
from finclaw.kernel.envelope import ThinkingLevel
from finclaw.kernel.message import Block, Image, Message, Text, ToolCall, ToolResult
from finclaw.providers.http.image_join import PICTURES, mark_image
from finclaw.providers.http.prefix_cache import Part, RequestPrefix, RequestPrefixCache
from finclaw.transcript.history import plain_texts, with_more
from finclaw.transcript.request_sanitizer import UNSEEN, legal_name

OutputLimit = Literal["max_tokens", "max_completion_tokens"]
"""OpenAI's newer models refuse the first; most compatible servers know no other."""

FAILED: Final = "[this tool call failed] "  # this API has no flag for it

_USER: Final = b',{"role":"user","content":'
_ASSISTANT: Final = b',{"role":"assistant","content":'
_ASSISTANT_ROLE: Final = b"assistant"

_encode: Final = msgspec.json.Encoder().encode


class OpenAIRequestWriter:
    """An encoder of requests. `kept_bytes` bounds the kept beginnings of conversations."""

    def __init__(self, kept_bytes: int, output_limit: OutputLimit) -> None:
        self._prefixes: Final = RequestPrefixCache(kept_bytes)
        self._output_limit: Final[OutputLimit] = output_limit
        self._last_head: ModelRequest | None = None
        self._last_opening = b""

    def write(self, request: ModelRequest) -> bytes:
        return b"".join(self.parts(request))

    def parts(self, request: ModelRequest) -> Sequence[Part]:
        """The request in a few pieces: what a long conversation begins with is not copied for each of them."""
        messages = request.messages
        seeing = request.model.features.images
        prefix = self._prefixes.find(messages, seeing)
        if more := self._prefixes.messages_to_add(messages, prefix):
            joined = bytearray(prefix.joined)
            write_messages(more, seeing, joined)
            prefix = self._prefixes.store(RequestPrefix(with_more(prefix.messages, more), joined), seeing)
        behind = messages[len(prefix.messages) :]
        written: list[Part] = [prefix.joined, *[write_message(message, seeing) for message in behind]]
        if not request.system:
            _cut_first_comma(written)
        return self._opening(request), written[0], b"".join((*written[1:], b"]}"))

    def evict(self) -> None:
        self._prefixes.clear()

    def _opening(self, request: ModelRequest) -> bytes:
        """All that stands before the history. It seldom changes, so the last one is kept."""
        head = replace(request, messages=())
        if head != self._last_head:
            self._last_head = head
            self._last_opening = _write_opening(request, self._output_limit)
        return self._last_opening


def _cut_first_comma(written: list[Part]) -> None:
    """Every message brings its own; where no system message stands before them, the first has one too many."""
    for place, message in enumerate(written):
        if message:
            written[place] = memoryview(message)[1:]
            return


def _write_opening(request: ModelRequest, output_limit: OutputLimit) -> bytes:
    features = request.model.features
    tools = request.tools if features.tools else ()
    fields: dict[str, Any] = {
        "model": request.model.name,
        "max_completion_tokens" if features.max_completion_tokens else output_limit: request.max_tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if request.temperature is not None and features.temperature:
        fields["temperature"] = request.temperature
    fields |= _thinking(request.model, request.thinking, with_tools=bool(tools))
    if request.stop_sequences:
        fields["stop"] = request.stop_sequences
    if tools:
        fields["tools"] = [_tool(spec) for spec in tools]
    if (wanted := request.answer_schema) is not None:
        # Not strict: that takes a part of JSON Schema only. Whoever asked checks the answer anyway.
        schema = {"name": wanted.name, "schema": wanted.schema, "strict": False}
        fields["response_format"] = {"type": "json_schema", "json_schema": schema}
    opening = _encode(fields)[:-1] + b',"messages":['
    if request.system:
        opening += b'{"role":"system","content":' + _encode(request.system) + b"}"
    return opening


def _thinking(model: Model, level: ThinkingLevel, *, with_tools: bool) -> dict[str, Any]:
    """Empty: nothing is said about it, and the model does as it is used to."""
    features = model.features
    level = model.thinks_at(level)
    if not features.thinking:
        return {}
    if with_tools and features.thinks_without_tools:
        return {"reasoning_effort": "none"}
    if level != "off":
        return {"reasoning_effort": level}
    match features.thinking_off:
        case "none":
            return {"reasoning_effort": "none"}
        case "disabled" | "between_tools" as word:  # as DeepSeek, Moonshot and Z.ai have it
            return {"thinking": {"type": word}}
        case "unasked" | "never":
            return {}


def _tool(spec: ToolSpec) -> dict[str, Any]:
    function = {"name": spec.name, "description": spec.description, "parameters": spec.input_schema}
    return {"type": "function", "function": function}


def write_message(message: Message, seeing: bool) -> bytes:
    """The message with a comma before it, or nothing. `seeing`: the model looks at images."""
    if len(message.blocks) == 1 and isinstance(text := message.blocks[0], Text):  # as most are
        if not text.text.strip():
            return b""
        opening = _ASSISTANT if message.role == "assistant" else _USER
        return opening + _encode(text.text) + b"}"
    if message.role == "assistant":
        return _write_assistant(message)
    # Words of the system in the middle of history are data to this API: what they quote must not gain authority.
    results = b"".join(_result(result) for result in message.tool_results)
    content = _content(message.blocks, seeing=seeing)
    if not content:
        return results
    return results + _USER + _encode(content) + b"}"


def write_messages(messages: Sequence[Message], seeing: bool, into: bytearray) -> None:
    for speakers, words, whole in plain_texts(messages):
        for place, (speaker, text) in enumerate(zip(speakers, words, strict=True)):
            # Nearly all of them are nothing but words, and there may be thousands: no call for each.
            if text:
                into += _ASSISTANT if speaker == _ASSISTANT_ROLE else _USER
                into += text
                into += b"}"
            else:
                into += write_message(whole(place), seeing)


def _write_assistant(message: Message) -> bytes:
    """Its words and its calls. Its thinking stays here: no server takes it back."""
    text = _text_of(message.blocks)
    calls = [_call(call) for call in message.tool_calls]
    if calls:
        return b',{"role":"assistant","content":%b,"tool_calls":%b}' % (_encode(text or None), _encode(calls))
    if not text:
        return b""
    return _ASSISTANT + _encode(text) + b"}"


def _call(call: ToolCall) -> dict[str, Any]:
    # History keeps the name of a tool that never was; the API wants a legal one.
    function = {"name": legal_name(call.name), "arguments": _encode(call.args).decode()}
    return {"id": call.id, "type": "function", "function": function}


def _result(result: ToolResult) -> bytes:
    content = FAILED + result.content if result.is_error else result.content
    return b',{"role":"tool","tool_call_id":%b,"content":%b}' % (_encode(result.call_id), _encode(content))


def _content(blocks: tuple[Block, ...], *, seeing: bool) -> str | list[dict[str, Any] | msgspec.Raw]:
    """Plain text wherever it is enough: not every server takes a list."""
    if not seeing:
        blocks = tuple(Text(UNSEEN) if isinstance(block, Image) else block for block in blocks)
    if not any(isinstance(block, Image) for block in blocks):
        return _text_of(blocks)
    return [part for block in blocks if (part := _part(block)) is not None]


def _text_of(blocks: tuple[Block, ...]) -> str:
    return "\n\n".join(block.text for block in blocks if isinstance(block, Text) and block.text.strip())


def render_image(media_type: bytes, content: bytes) -> bytes:
    return b'{"type":"image_url","image_url":{"url":"data:%b;base64,%b"}' % (media_type, content)


def _part(block: Block) -> dict[str, Any] | msgspec.Raw | None:
    match block:
        case Text(text):
            if not text.strip():
                return None
            return {"type": "text", "text": text}
        case Image(media_type, blob=blob) if blob and media_type not in PICTURES:
            return {"type": "text", "text": f"[An image of the type {media_type}, which cannot be shown]"}
        case Image(blob=blob) if blob:
            return mark_image(block)
        case Image(media_type, data):
            return {"type": "image_url", "image_url": {"url": f"data:{media_type};base64,{b64encode(data).decode()}"}}
        case _:
            return None
