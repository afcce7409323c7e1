"""Messages as Anthropic's API takes them, in bytes, and the thoughts that may go back to it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

import msgspec

from finclaw.kernel.chunk import ModelRequest, ThinkingOff
from finclaw.kernel.envelope import THOUGHTS
from finclaw.kernel.message import Block, Image, Message, Text, Thinking, ToolCall, ToolResult
from finclaw.providers.http.image_join import PICTURES, mark_image
from finclaw.text import fix_surrogates
from finclaw.transcript.request_sanitizer import UNSEEN, legal_name

SAID_NOTHING: Final = "[The tool failed without a word]"  # the API refuses an empty error

_encode: Final = msgspec.json.Encoder().encode


def write_blocks(message: Message, *, seeing: bool = True, provider: str = "", thinking: bool = True) -> bytes:
    """Its blocks without brackets, or nothing. Thoughts go back to the `provider` that signed them, if `thinking`."""
    blocks = message.blocks
    if len(blocks) == 1 and type(text := blocks[0]) is Text:  # nearly all of them
        if not text.text or text.text.isspace():
            return b""
        return b'{"type":"text","text":' + _encode_any(text.text) + b"}"
    if message.role == "assistant":
        return _encode_any(tuple(_assistant_blocks(blocks, own=thinking and _is_own(message, provider))))[1:-1]
    return _encode_any(tuple(_user_blocks(blocks, seeing=seeing)))[1:-1]


def _is_own(message: Message, provider: str) -> bool:
    """Another API's signature is a forgery to this one. Of a message that does not say who wrote it, we believe it."""
    model = message.metadata.get("model")
    return not provider or not isinstance(model, str) or model.partition("/")[0] == provider


def _encode_any(value: Any) -> bytes:
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return _encode(_without_surrogates(value))


def _without_surrogates(value: Any) -> Any:
    """The same without half characters, which no request may hold."""
    match value:
        case str():
            return fix_surrogates(value)
        case dict():
            return {_without_surrogates(key): _without_surrogates(each) for key, each in value.items()}  # pyright: ignore[reportUnknownVariableType]
        case list() | tuple():
            return [_without_surrogates(each) for each in value]  # pyright: ignore[reportUnknownVariableType]
        case _:
            return value


def _assistant_blocks(blocks: Sequence[Block], *, own: bool) -> Iterator[dict[str, Any]]:
    """What the assistant said, thought and asked for. No message may end in thinking."""
    end = len(blocks)
    while end and not _counts(blocks[end - 1]):
        end -= 1
    for block in blocks[:end]:
        if isinstance(block, Thinking):
            if not own or not block.signature:  # the API refuses what it has not signed
                continue
            if block.redacted:
                yield {"type": "redacted_thinking", "data": block.signature}
            else:
                yield {"type": "thinking", "thinking": block.text, "signature": block.signature}
        elif isinstance(block, ToolCall):
            # History keeps the name of a tool that never was; the API wants a legal one.
            yield {"type": "tool_use", "id": block.id, "name": legal_name(block.name), "input": _call_input(block)}
        elif isinstance(block, Text) and block.text.strip():
            yield {"type": "text", "text": block.text}


def _counts(block: Block) -> bool:
    return isinstance(block, ToolCall) or (isinstance(block, Text) and bool(block.text.strip()))


def _user_blocks(blocks: Sequence[Block], *, seeing: bool) -> Iterator[dict[str, Any] | msgspec.Raw]:
    """Results first, as the API wants them. Words of the system are data here and gain no authority."""
    yield from (_result_block(block) for block in blocks if isinstance(block, ToolResult))
    for block in blocks:
        if isinstance(block, Text) and block.text.strip():
            yield {"type": "text", "text": block.text}
        elif isinstance(block, Image):
            yield _image_block(block) if seeing else {"type": "text", "text": UNSEEN}


def _call_input(call: ToolCall) -> msgspec.Raw:
    try:
        return msgspec.Raw(_encode_any(call.args))
    except RecursionError:  # nested so deep that it could be read but cannot be written
        return msgspec.Raw(b"{}")


def _result_block(result: ToolResult) -> dict[str, Any]:
    written: dict[str, Any] = {"type": "tool_result", "tool_use_id": result.call_id, "content": result.content}
    if result.is_error:
        written["is_error"] = True
        if not result.content.strip():
            written["content"] = SAID_NOTHING
    return written


def _image_block(image: Image) -> dict[str, Any] | msgspec.Raw:
    if image.media_type not in PICTURES:
        return {"type": "text", "text": f"[An image of the type {image.media_type}, which cannot be shown]"}
    if image.blob:
        return mark_image(image)
    return {"type": "image", "source": {"type": "base64", "media_type": image.media_type, "data": image.data}}


def render_image(media_type: bytes, content: bytes) -> bytes:
    return b'{"type":"image","source":{"type":"base64","media_type":"%b","data":"%b"}' % (media_type, content)


ThinkingField = dict[str, Any]

ADAPTIVE: Final[ThinkingField] = {"type": "adaptive"}
"""The model itself finds out how much; how hard it tries is told by the effort."""
LEAST: Final = 1_024  # the smallest budget, and the least left for the answer

OFF: Final[Mapping[ThinkingOff, ThinkingField]] = {
    "disabled": {"type": "disabled"},
    "between_tools": {"type": "between_tools"},
}
"""For models that think unless they are told not to."""


def thinking_field(request: ModelRequest) -> ThinkingField | None:
    """None: nothing is said about it."""
    features = request.model.features
    level = request.model.thinks_at(request.thinking)
    if level == "off":
        return OFF.get(features.thinking_off) if features.thinking else None
    if features.adaptive_thinking:
        return ADAPTIVE
    budget = min(THOUGHTS[level], request.max_tokens - LEAST)
    if budget < LEAST or _goes_on_without(request.messages, request.model.provider):
        return None
    return {"type": "enabled", "budget_tokens": budget}


def _goes_on_without(messages: Sequence[Message], provider: str) -> bool:
    """Whether calls are being answered that began without a thought: thinking cannot be turned on in their midst."""
    first: Message | None = None
    for is_theirs, side in groupby(reversed(messages), key=lambda message: message.role == "assistant"):
        if is_theirs:
            *_, first = side
        elif not any(message.tool_results for message in side):
            break
    if first is None:
        return False
    opening = next(iter(first.blocks), None)
    return not (isinstance(opening, Thinking) and opening.signature and _is_own(first, provider))


# ── signatures ──────────────────────────────────────────────────────────────────────────────────────────────
# Some models' thoughts are bound to all that stood before them. Their API refuses a thought behind anything but what
# it was thought behind: other tools, another prompt, a note that is gone, a summary. So each signature is remembered
# with a hash of what was sent when it came, and goes back behind nothing else. What came to another process, or by
# another key, is not known here and stays out, as all that is left out may.

MOST_SIGNATURES: Final = 16_384  # a turn needs one for each of its steps


class ThinkingSignatures:
    """A map from a signature to what stood before it. Both are hashes of this process, and of no other."""

    def __init__(self, most: int = MOST_SIGNATURES) -> None:
        self._most = most
        self._before: dict[int, int] = {}

    def remember(self, signature: str, before: int) -> None:
        self._before[hash(signature)] = before
        if len(self._before) > self._most:
            del self._before[next(iter(self._before))]

    def matches(self, message: Message, before: int) -> bool:
        """Whether this stood before its first thought: what follows in a message came with that and goes with it."""
        signature = next((each.signature for each in message.blocks if type(each) is Thinking and each.signature), "")
        return bool(signature) and self._before.get(hash(signature)) == before


def extend_hash(value: int, pieces: Iterable[bytes]) -> int:
    """The hash of these pieces behind the others. The hash of bytes that are cached is computed only once."""
    for piece in pieces:
        if piece:
            value = hash((value, piece))
    return value


def turn_start(messages: Sequence[Message]) -> int:
    """Where the last message stands that neither the model nor a tool wrote, nor anybody for one turn only."""
    for place in range(len(messages) - 1, -1, -1):
        message = messages[place]
        if message.role not in ("assistant", "tool") and not message.passing:
            return place
    return 0
