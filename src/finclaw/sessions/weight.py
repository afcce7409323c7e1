"""Memory estimates of messages, near enough to keep a limit by: what is long is measured, the rest reckoned."""

from sys import getsizeof
from typing import Any, Final, cast

import msgspec

from finclaw.kernel.message import Block, Image, Message, Text, Thinking, ToolCall, ToolResult
from finclaw.transcript.history import Page

A_MESSAGE: Final = 400
"""Bytes of one that says nothing: its id, time and source."""
A_BLOCK: Final = 100
A_FACT: Final = 600
OF_JSON: Final = 2
"""Times as long as it is written, about, are objects in memory."""

_encode: Final = msgspec.json.Encoder().encode


def weigh(message: Message) -> int:
    """In bytes. A text knows its own size, so that nothing long is walked, copied or written for it."""
    total = A_MESSAGE if not message.metadata else A_MESSAGE + _json_weight(message.metadata)
    for block in message.blocks:
        total += getsizeof(block.text) if type(block) is Text else A_BLOCK + _of(block)
    return total


def weigh_page(page: Page) -> int:
    """In bytes: what is written, or about what it became."""
    return page.size * OF_JSON if page.is_open else page.size


def _of(block: Block) -> int:
    match block:
        case ToolResult():
            failure = 0 if block.error is None else getsizeof(block.error.message)
            return getsizeof(block.content) + A_FACT * len(block.facts) + failure
        case ToolCall():
            return _json_weight(block.args) + (0 if block.bad_args is None else getsizeof(block.bad_args))
        case Thinking():
            return getsizeof(block.text) + getsizeof(block.signature)
        case Image():
            return len(block.data)
        case Text(text):
            return getsizeof(text)


def _json_weight(value: Any) -> int:
    """Of what JSON can hold."""
    try:
        return OF_JSON * len(_encode(value))
    except (TypeError, ValueError, RecursionError):  # as a layer or a model may have it: half characters, far too deep
        return _walked_weight(value)


def _walked_weight(value: Any) -> int:
    total, left = 0, [value]
    while left:
        each = left.pop()
        total += getsizeof(each)
        if isinstance(each, dict):
            left.extend(cast("dict[str, Any]", each).values())
        elif isinstance(each, list | tuple):
            left.extend(cast("list[Any]", each))
    return total
