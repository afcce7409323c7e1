"""A reader of answers: events become chunks. What this version does not know is passed over."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

import msgspec
from msgspec import Raw, Struct

from finclaw.errors import (
    AuthFailed,
    BadRequest,
    ContextTooLong,
    NotFound,
    Overloaded,
    ProviderError,
    ProviderTimeout,
    QuotaExceeded,
    RateLimited,
    ServerFailed,
    StreamCut,
)
from finclaw.kernel.chunk import (
    Chunk,
    Done,
    StopReason,
    TextDelta,
    ThinkingDelta,
    ToolInputDelta,
    ToolUseEnd,
    ToolUseStart,
    Usage,
    UsageReport,
    read_token_counts,
)
from finclaw.providers.http.failure import Kinds, complaint_of, read_complaint, stream_error
from finclaw.providers.http.sse import Event, LenientJson, decode_all, join_text_deltas

KINDS: Final[Kinds] = {
    "account_deactivated": AuthFailed,
    "authentication_error": AuthFailed,
    "billing_hard_limit_reached": QuotaExceeded,
    "billing_not_active": QuotaExceeded,
    "context_length_exceeded": ContextTooLong,
    "engine_overloaded_error": Overloaded,  # Moonshot, with the status of a rate limit
    "exceed_context_size_error": ContextTooLong,  # llama.cpp
    "exceeded_current_quota_error": QuotaExceeded,  # Moonshot
    "input_tokens": ContextTooLong,  # vLLM: the parameter it complains of, beside a type that says nothing
    "insufficient_quota": QuotaExceeded,
    "invalid_api_key": AuthFailed,
    "model_not_found": NotFound,
    "overloaded_error": Overloaded,
    "permission_error": AuthFailed,
    "rate_limit_error": RateLimited,
    "rate_limit_exceeded": RateLimited,
    "request_too_large": ContextTooLong,
    "service_unavailable": Overloaded,
    "string_above_max_length": ContextTooLong,
    "timeout": ProviderTimeout,
}

IN_STREAM: Final[Kinds] = {**KINDS, "invalid_request_error": BadRequest}
"""That type goes with a 401 as well as a 400: it only counts where there is no status."""

BY_FINISH: Final[Mapping[str, type[ProviderError]]] = {
    "abort": StreamCut,  # vLLM, when its side gave up
    "error": ServerFailed,  # OpenRouter, when the server behind it failed
    "insufficient_system_resource": Overloaded,  # DeepSeek
}
"""Reasons to stop that are no end of an answer."""

# This API knows no blocks: thinking, words and calls come as fields of one message, in this order.
_THINKING: Final = 0
_TEXT: Final = 1
_FIRST_CALL: Final = 2

_STOPS: Final[dict[str, StopReason]] = {
    "content_filter": "refusal",
    "function_call": "tool_use",
    "length": "max_tokens",
    "stop": "end",
    "tool_calls": "tool_use",
}

_LONGEST: Final = 256  # characters of an id or a name, which a server may repeat

_encode: Final = msgspec.json.Encoder().encode


class FunctionDelta(Struct):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None  # some servers send the object itself


_UNNAMED: Final = FunctionDelta()


class ToolCallDelta(Struct):
    index: int | None = None
    id: str | None = None
    function: FunctionDelta | None = None


class _Part(Struct, gc=False):
    text: str = ""


class _Delta(Struct, gc=False):
    content: str | list[_Part] | None = None
    tool_calls: list[ToolCallDelta] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None


class _Choice(Struct, gc=False):
    index: int | None = 0
    delta: _Delta | None = None
    finish_reason: str | None = None


class _Event(Struct, gc=False):
    choices: list[_Choice] | None = None
    usage: Any = None  # read by hand: figures that make no sense must not cost the answer
    error: Any = None


_decode: Final = msgspec.json.Decoder(_Event).decode
# A count may come as `12.0`.
_decode_lax: Final = msgspec.json.Decoder(_Event, strict=False).decode


class OpenAIAnswerReader:
    """A reader of one answer's events. `ended` is True once the answer is whole and `Done` has been given."""

    def __init__(self, name: str) -> None:
        self.ended = False
        self._name = name
        self._lenient = LenientJson()
        self._calls = ToolCallAssembler()
        self._tag = ThinkTag(_THINKING, _TEXT)
        self._usage = Usage()
        self._finish: str | None = None
        self._refused = False
        self._answered = False

    @property
    def finished(self) -> bool:
        """The model has stopped. The usage may still come, and the mark of the end; neither must."""
        return self._finish is not None

    def read_all(self, events: Sequence[Event]) -> Iterable[Chunk]:
        """The chunks that these events are, neighbouring words in one. What stands before an error is told before."""
        if len(events) == 1:
            return self.read(*events[0])
        return self._read_several(events)

    def _read_several(self, events: Sequence[Event]) -> Iterator[Chunk]:
        last = len(events)
        if events and events[-1][1].startswith(b"[DONE]"):
            last -= 1
        if not any(name for name, _ in events) and (decoded := decode_all(_decode, events[:last])) is not None:
            yield from self._read_decoded(decoded)
            events = events[last:]
        yield from join_text_deltas(chunk for name, data in events for chunk in self.read(name, data))

    def _read_decoded(self, events: Sequence[_Event]) -> Iterator[Chunk]:
        words: list[str] = []
        for event in events:
            if said := _only_words(event):
                words.append(said)
                self._answered = True
                continue
            if words:
                yield from self._text_chunks("".join(words))
                words = []
            yield from self._chunks(event)
        if words:
            yield from self._text_chunks("".join(words))

    def read(self, event_name: bytes, data: bytes) -> Sequence[Chunk]:
        """The chunks that this event is. Raises ProviderError for an error in the stream, StreamCut for nonsense."""
        if self.ended:
            return ()
        if data.startswith(b"[DONE]"):
            return self._end()
        if event_name == b"error":
            raise stream_error(self._name, read_complaint(data), IN_STREAM)
        try:
            event = _decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            event = self._lenient.decode(_decode_lax, data, self._name)
        return self._chunks(event)

    def _chunks(self, event: _Event) -> Sequence[Chunk]:
        if event.error:
            raise stream_error(self._name, complaint_of(event.error), IN_STREAM)
        chunks: list[Chunk] = []
        for choice in event.choices or ():
            if not choice.index:  # we never ask for a second answer
                self._read_choice(choice, chunks)
        if event.usage is not None:
            self._count(event.usage, chunks)
        return chunks

    def close(self) -> Sequence[Chunk]:
        """Nothing more will come. Raises StreamCut unless the model had stopped."""
        if self.ended:
            return ()
        if not self.finished:
            raise StreamCut(f"{self._name}: the stream ended before the answer did")
        return self._end()

    def _read_choice(self, choice: _Choice, chunks: list[Chunk]) -> None:
        self._answered = True
        delta = choice.delta
        if delta is not None:
            if thinking := delta.reasoning_content or delta.reasoning:
                chunks.append(ThinkingDelta(thinking, _THINKING))
            if content := delta.content:
                words = content if isinstance(content, str) else "".join(part.text for part in content)
                chunks += self._text_chunks(words)
            if delta.tool_calls:
                for piece in delta.tool_calls:
                    chunks += self._calls.feed(piece)
            if delta.refusal:
                self._refused = True
                chunks.append(TextDelta(delta.refusal, _TEXT))
        if reason := choice.finish_reason:
            if reason in BY_FINISH:
                raise BY_FINISH[reason](f"{self._name} stopped its answer with {reason!r}")
            self._finish = reason

    def _text_chunks(self, words: str) -> Sequence[Chunk]:
        if self._tag.passed:
            return (TextDelta(words, _TEXT),)
        return self._tag.feed(words)

    def _count(self, usage: object, chunks: list[Chunk]) -> None:
        """Each report tells totals, and what the cache gave is part of its prompt."""
        counts = read_token_counts(usage)
        details: Mapping[str, int] = {}
        if counts:
            details = read_token_counts(cast("dict[str, object]", usage).get("prompt_tokens_details"))
        read = details.get("cached_tokens") or counts.get("prompt_cache_hit_tokens", 0)
        written = details.get("cache_write_tokens", 0)
        told = Usage(
            input=max(0, counts.get("prompt_tokens", 0) - read - written),
            output=counts.get("completion_tokens", 0),
            cache_read=read,
            cache_write=written,
        )
        if told != self._usage:  # some servers count along in every event
            self._usage = told
            chunks.append(UsageReport(told))

    def _end(self) -> list[Chunk]:
        if not self._answered:
            raise StreamCut(f"{self._name}: the stream ended without an answer")
        stop = _STOPS.get(self._finish or "", "end")
        chunks: list[Chunk] = [*self._tag.close()]
        chunks += self._calls.close(cut=stop in ("max_tokens", "refusal"), sure=self.finished)
        if self._refused and stop == "end":
            stop = "refusal"
        if stop in ("end", "tool_use"):  # servers mix these two up
            stop = "tool_use" if self._calls else "end"
        self.ended = True
        return [*chunks, Done(stop)]


def _only_words(event: _Event) -> str:
    """As nearly all events are: a piece of the first answer's text and nothing else. Empty for any other."""
    if event.error or event.usage is not None or not event.choices or len(event.choices) > 1:
        return ""
    choice = event.choices[0]
    delta = choice.delta
    if delta is None or choice.index or choice.finish_reason or delta.tool_calls or delta.refusal:
        return ""
    if delta.reasoning_content or delta.reasoning or not isinstance(delta.content, str):
        return ""
    return delta.content


# ── thinking among the words ────────────────────────────────────────────────────────────────────────────────
# A server that was not told how its model marks thoughts passes `<think>` on. Only what stands first is looked at;
# behind the thoughts, or where there are none, words are words.

_BEGIN: Final = "<think>"
_END: Final = "</think>"
_MOST_SPACE: Final = 1_000  # characters before it: nobody waits for a tag behind more


class ThinkTag:
    """Parses `<think>` at the beginning of an answer. Once `passed`, it need not be asked any more."""

    def __init__(self, thinking: int, text: int) -> None:
        self.passed = False
        self._thinking = thinking
        self._text = text
        self._held = ""
        self._read: Callable[[], Sequence[Chunk]] = self._before

    def feed(self, words: str) -> Sequence[Chunk]:
        self._held += words
        return self._read()

    def close(self) -> Sequence[Chunk]:
        """What was held back because a tag might have come of it, and none did."""
        within = self._read == self._within
        held = self._held
        self._held = ""
        self.passed = True
        if within or not held:
            return self._thinking_chunks(held)
        return (TextDelta(held, self._text),)

    def _before(self) -> Sequence[Chunk]:
        opening = self._held.lstrip()
        if opening.startswith(_BEGIN):
            self._held = opening.removeprefix(_BEGIN)
            self._read = self._within
            return self._within()
        undecided = _BEGIN.startswith(opening) and len(self._held) < _MOST_SPACE
        if undecided:
            return ()
        return self.close()

    def _within(self) -> Sequence[Chunk]:
        thought, end, answer = self._held.partition(_END)
        if end:
            self._held = answer
            self._read = self._behind
            return (*self._thinking_chunks(thought), *self._behind())
        # Its last characters may be the first of the closing tag.
        unsure = next((size for size in range(len(_END) - 1, 0, -1) if thought.endswith(_END[:size])), 0)
        sure = len(thought) - unsure
        self._held = thought[sure:]
        return self._thinking_chunks(thought[:sure])

    def _behind(self) -> Sequence[Chunk]:
        """The empty lines between thoughts and answer belong to neither."""
        self._held = self._held.lstrip()
        return self.close() if self._held else ()

    def _thinking_chunks(self, words: str) -> Sequence[Chunk]:
        return (ThinkingDelta(words, self._thinking),) if words else ()


# ── answers that were not streamed ──────────────────────────────────────────────────────────────────────────
# Such an answer is one event with all of it: its message has the fields of a delta.


class _WholeChoice(Struct):
    message: Raw
    finish_reason: str
    index: int | None = 0


class _WholeAnswer(Struct):
    choices: list[_WholeChoice]
    usage: Raw = Raw(b"null")
    error: Any = None


_decode_whole: Final = msgspec.json.Decoder(_WholeAnswer).decode


def events_of_non_streaming(body: bytes) -> list[Event]:
    """Empty for what is no answer, or does not say why it stopped: nobody knows whether that was all of it."""
    try:
        answer = _decode_whole(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
    if answer.error or not answer.choices:
        return []
    choices = [
        {"index": each.index, "delta": each.message, "finish_reason": each.finish_reason} for each in answer.choices
    ]
    return [(b"", _encode({"choices": choices, "usage": answer.usage})), (b"", b"[DONE]")]


class _Call:
    """A call is told of with the first piece of its arguments: by then its name is whole."""

    def __init__(self, block: int) -> None:
        self.block = block
        self.id = ""
        self.name = ""
        self.told = False
        self.looks_whole = False  # its arguments so far end like an object
        self._held: list[str] = []  # arguments that came before the name

    def feed(self, id: str, name: str, arguments: str) -> list[Chunk]:
        if not self.told:
            self._learn(id, name, alone=not (name or arguments))
        if not arguments:
            return []
        self.looks_whole = arguments.rstrip().endswith("}")
        if self.told:
            return [ToolInputDelta(arguments, self.block)]
        self._held.append(arguments)
        if not self.name:
            return []
        return self.tell()

    def tell(self) -> list[Chunk]:
        """The start of the call and what was held back, if that has not been told."""
        if self.told or not (self.name or self._held):
            return []
        self.told = True
        start = ToolUseStart(self.id, self.name, self.block)
        if not self._held:
            return [start]
        return [start, ToolInputDelta("".join(self._held), self.block)]

    def _learn(self, id: str, name: str, *, alone: bool) -> None:
        """What comes again is known already, what differs is the next part; an id is only split when sent alone."""
        if id and (not self.id or (alone and id != self.id)):
            self.id = (self.id + id)[:_LONGEST]
        if name != self.name:
            self.name = (self.name + name)[:_LONGEST]


class ToolCallAssembler:
    """The calls of one answer. Their blocks are numbered in the order in which they began."""

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._by_id: dict[str, _Call] = {}

    def __bool__(self) -> bool:
        return any(call.told for call in self._calls)

    def feed(self, piece: ToolCallDelta) -> list[Chunk]:
        function = piece.function or _UNNAMED
        name = function.name or ""
        arguments = _text(function.arguments)
        call = self._find(piece, name, arguments) or self._begin(piece)
        return call.feed(piece.id or "", name, arguments)

    def close(self, *, cut: bool, sure: bool) -> list[Chunk]:
        """No call is ended when the answer was `cut`; if it may not be whole, only those that look whole are."""
        chunks: list[Chunk] = []
        for call in self._calls:
            chunks += call.tell()
            if call.told and not cut and (sure or call.looks_whole):
                chunks.append(ToolUseEnd(call.block))
        return chunks

    def _find(self, piece: ToolCallDelta, name: str, arguments: str) -> _Call | None:
        """The call that this piece goes on with; None when it begins another."""
        if piece.index is not None:
            known = self._by_index.get(piece.index)
        else:
            known = self._by_id.get(piece.id or "")
            if known is None and self._calls:
                known = self._calls[-1]
        if known is not None and name and _is_another(known, piece, name, arguments):
            return None
        return known

    def _begin(self, piece: ToolCallDelta) -> _Call:
        place = len(self._calls)
        call = _Call(_FIRST_CALL + place)
        self._calls.append(call)
        self._by_index[place if piece.index is None else piece.index] = call
        if piece.id:
            self._by_id[piece.id] = call
        return call


def _is_another(known: _Call, piece: ToolCallDelta, name: str, arguments: str) -> bool:
    """A name came, though the call at this place may have one: is it told again, or does another call begin?"""
    if piece.id and known.id:
        return piece.id != known.id
    if known.looks_whole and arguments.lstrip().startswith("{"):
        return True
    return piece.index is None and name != known.name


def _text(arguments: str | dict[str, Any] | None) -> str:
    if isinstance(arguments, dict):
        return _encode(arguments).decode()
    return arguments or ""
