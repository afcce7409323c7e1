"""Requests as bytes. A message is written once and kept; a request is the kept bytes, joined."""

from typing import Any, Final

import msgspec

from finclaw.kernel.chunk import ModelRequest
from finclaw.kernel.message import Block, Message, Text, Thinking, ToolCall, ToolResult

_encode: Final = msgspec.json.Encoder().encode

_Kept = tuple[tuple[Block, ...], bytes]


class RequestWriter:
    """Keeps the bytes of messages in two generations, so that a hit costs one look and no bookkeeping.

    When the young one is full it becomes the old one, and what nobody asked for meanwhile is gone. A message is
    known by its id and the identity of its blocks: one that was replaced under its id is written anew.
    """

    def __init__(self, limit: int) -> None:
        self._half = limit // 2
        self._size = 0
        self._young: dict[str, _Kept] = {}
        self._old: dict[str, _Kept] = {}
        self._head_of: tuple[object, ...] = ()
        self._head = b""

    def write(self, request: ModelRequest) -> bytes:
        young = self._young
        written: list[bytes] = []
        for message in request.messages:
            kept = young.get(message.id)
            if kept is None or kept[0] is not message.blocks:
                kept = self._keep(message)
            written.append(kept[1])
        # Every message brings its own comma; the first one's is cut off.
        return b"".join((self._opening(request), b"".join(written)[1:], b"]}"))

    def evict(self) -> None:
        self._young, self._old, self._size = {}, {}, 0

    def _keep(self, message: Message) -> _Kept:
        kept = self._old.get(message.id)
        if kept is None or kept[0] is not message.blocks:
            kept = (message.blocks, write_message(message))
        self._size += len(kept[1])
        self._young[message.id] = kept
        if self._size > self._half:
            self._old, self._young, self._size = self._young, {}, 0
        return kept

    def _opening(self, request: ModelRequest) -> bytes:
        """All that stands before the messages. It seldom changes, so the last one is kept."""
        key = (
            request.model.name,
            request.max_tokens,
            request.temperature,
            request.stop_sequences,
            request.system,
            request.tools,
        )
        if key != self._head_of:
            self._head_of, self._head = key, _write_opening(request)
        return self._head


def _write_opening(request: ModelRequest) -> bytes:
    fields: dict[str, Any] = {"model": request.model.name, "max_tokens": request.max_tokens, "stream": True}
    if request.temperature is not None:
        fields["temperature"] = request.temperature
    if request.stop_sequences:
        fields["stop_sequences"] = request.stop_sequences
    if request.tools:
        fields["tools"] = request.tools
    if request.system:
        fields["system"] = request.system
    return _encode(fields)[:-1] + b',"messages":['


def write_message(message: Message) -> bytes:
    """The message as the API wants it, a comma before it; nothing at all when nothing in it can be sent."""
    # Tool results and words of the system reach this API as the user's.
    opening = b',{"role":"assistant","content":' if message.role == "assistant" else b',{"role":"user","content":'
    blocks = message.blocks
    if len(blocks) == 1 and type(text := blocks[0]) is Text:  # nearly all of them
        return opening + _encode(text.text) + b"}" if text.text and not text.text.isspace() else b""
    content = [written for block in blocks if (written := _block(block)) is not None]
    return opening + _encode(content) + b"}" if content else b""


def _block(block: Block) -> dict[str, Any] | None:
    match block:
        case Text(text):  # the API refuses empty ones
            return {"type": "text", "text": text} if text.strip() else None
        case Thinking(text, signature):  # and unsigned ones
            return {"type": "thinking", "thinking": text, "signature": signature} if signature else None
        case ToolCall():
            return {"type": "tool_use", "id": block.id, "name": block.name, "input": block.args}
        case ToolResult():
            result: dict[str, Any] = {"type": "tool_result", "tool_use_id": block.call_id, "content": block.content}
            return {**result, "is_error": True} if block.is_error else result
