"""Message events of layers, as a turn's log takes them."""

from msgspec import ValidationError, convert, to_builtins
from msgspec.structs import replace

from finclaw.errors import ExtensionError
from finclaw.kernel.message import (
    Append,
    Block,
    Message,
    MessageEvent,
    Patch,
    Remove,
    Replace,
    Source,
    ToolResult,
    Truncate,
)
from finclaw.tools.result_guard import guard_result


def as_layer_event(event: MessageEvent) -> MessageEvent:
    """An event as a layer may emit it: it speaks in its own name, and what it says of tools is guarded like any.

    Else a layer could pass its words off as the model's or a tool's, and figures in them as facts.
    """
    match _well_formed(event):
        case Append(message):
            return Append(_tame(message))
        case Replace(target, message):
            return Replace(target, _tame(message, keep_source=True))
        case Remove() | Truncate() | Patch() as event:
            return event


def _well_formed(event: MessageEvent) -> MessageEvent:
    """A copy of its own, as it would be read back: a layer need not be typed, and what cannot be read again would
    close the session for ever.
    """
    if not isinstance(event, MessageEvent):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ExtensionError(f"a layer emitted {type(event).__name__}; it may emit message events only")
    try:
        return convert(to_builtins(event), MessageEvent)
    except (TypeError, ValidationError) as error:
        raise ExtensionError(f"a layer emitted a message event that cannot be kept: {error}") from error


def _tame(message: Message, *, keep_source: bool = False) -> Message:
    source = message.source
    if not keep_source and source.kind not in ("extension", "system"):
        source = Source("extension", source.id, source.name)
    return replace(message, source=source, blocks=tuple(map(_tame_block, message.blocks)))


def _tame_block(block: Block) -> Block:
    if not isinstance(block, ToolResult):
        return block
    return replace(block, content=guard_result(block.content), facts=(), files=(), actions=())
