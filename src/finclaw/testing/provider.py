"""A scripted model: it says exactly what the test wrote down, piece by piece, faults included.

    provider = ScriptedProvider(
        reply(call("market__quote", {"symbol": "AAPL"}, deltas=3)),
        reply(say("AAPL is at 187.20", chunks=4), hold(released), say(" USD")),
        reply(say("half an ans", chunks=2), fault="cut"),
        fails(RateLimited("slow down", retry_after=2)),
    )

A script is a row of replies, or one function from the request to its reply.
"""

import json
from asyncio import Event
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

from finclaw.errors import ProviderError
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
from finclaw.kernel.port import Clock

SOME_USAGE = Usage(input=100, output=20)


@dataclass(frozen=True, slots=True)
class Say:
    text: str
    chunks: int = 1
    thinking: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    name: str
    raw: str
    deltas: int = 1
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Delay:
    seconds: float


@dataclass(frozen=True, slots=True)
class Hold:
    event: Event


delay = Delay
hold = Hold
"""Say nothing more until the test sets the event."""
Piece = Say | Call | Delay | Hold
Fault = ProviderError | Literal["cut"]


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer of the model. `after` counts chunks until the fault; without it the fault replaces the end."""

    pieces: tuple[Piece, ...] = ()
    usage: Usage | None = SOME_USAGE
    stop: StopReason | None = None
    fault: Fault | None = None
    after: int | None = None
    pace: float = 0.0


def say(text: str, *, chunks: int = 1) -> Say:
    return Say(text, chunks)


def think(text: str, *, chunks: int = 1) -> Say:
    return Say(text, chunks, thinking=True)


def call(
    name: str,
    args: Mapping[str, Any] | None = None,
    *,
    deltas: int = 1,
    raw: str | None = None,
    id: str | None = None,
) -> Call:
    """Ask for a tool. `raw` is sent as the input instead of `args`, as broken as the test wants it."""
    written = json.dumps(dict(args or {}), ensure_ascii=False) if raw is None else raw
    return Call(name, written, deltas, id)


def reply(
    *pieces: Piece | str,
    usage: Usage | None = SOME_USAGE,
    stop: StopReason | None = None,
    fault: Fault | None = None,
    after: int | None = None,
    pace: float = 0.0,
) -> Reply:
    """Pieces in order; two calls side by side are parallel calls. `pace` waits that long before each chunk."""
    spoken = tuple(Say(piece) if isinstance(piece, str) else piece for piece in pieces)
    return Reply(spoken, usage, stop, fault, after, pace)


def fails(error: ProviderError) -> Reply:
    """An error before the first chunk."""
    return Reply(fault=error, after=0)


Line = Reply | Piece | str
Script = Callable[[ModelRequest], Line]


class ScriptedProvider:
    """A Provider that follows a script. `requests` holds what was asked; `abandoned` counts unfinished streams."""

    def __init__(self, *script: Line | Script, name: str = "scripted", clock: Clock | None = None) -> None:
        self._next = _reader(script)
        self._clock = clock
        self._name = name
        self.requests: list[ModelRequest] = []
        self.abandoned = 0
        self.streaming = 0
        self.closed = False

    @property
    def name(self) -> str:
        return self._name

    def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        self.requests.append(request)
        line = self._next(request)
        return self._play(line if isinstance(line, Reply) else reply(line), len(self.requests))

    async def close(self) -> None:
        self.closed = True

    async def _play(self, line: Reply, number: int) -> AsyncIterator[Chunk]:
        self.streaming += 1
        complete = False
        try:
            given = 0
            for each in _performance(line, number):
                if line.fault is not None and given == line.after:
                    break
                if isinstance(each, Delay | Hold):
                    await self._wait(each)
                    continue
                if line.pace:
                    await self._wait(Delay(line.pace))
                yield each
                given += 1
            complete = True
            if isinstance(line.fault, ProviderError):
                raise line.fault
        finally:
            self.streaming -= 1
            self.abandoned += not complete

    async def _wait(self, piece: Delay | Hold) -> None:
        if isinstance(piece, Hold):
            await piece.event.wait()
        elif self._clock is None:
            raise AssertionError("this script has delays: give the ScriptedProvider a clock")
        else:
            await self._clock.sleep(piece.seconds)


def _reader(script: Sequence[Line | Script]) -> Script:
    if len(script) == 1 and callable(script[0]):
        return script[0]
    lines = iter([_not_a_function(line) for line in script])
    told = len(script)

    def next_line(request: ModelRequest) -> Line:
        for line in lines:
            return line
        asked = _describe_request(request)
        raise AssertionError(f"the script of {told} replies has run out; the model was asked: {asked}")

    return next_line


def _not_a_function(line: Line | Script) -> Line:
    if callable(line):
        raise TypeError("a script is either one function or a row of replies")
    return line


def _describe_request(request: ModelRequest) -> str:
    last = request.messages[-1] if request.messages else None
    said = f"{last.role} {last.text or last.tool_results!r}" if last else "nothing"
    tools = ", ".join(tool.name for tool in request.tools) or "none"
    return f"{said} ({len(request.messages)} messages, tools: {tools})"


def _performance(line: Reply, number: int) -> Iterator[Chunk | Delay | Hold]:
    index = 0
    for piece in line.pieces:
        if isinstance(piece, Delay | Hold):
            yield piece
            continue
        named = piece if isinstance(piece, Say) or piece.id else replace(piece, id=f"call_{number}_{index}")
        yield from _chunks(named, index)
        index += 1
    if line.fault is not None and line.after is None:
        return
    if line.usage is not None:
        yield UsageReport(line.usage)
    calls_tool = any(isinstance(piece, Call) for piece in line.pieces)
    yield Done(line.stop or ("tool_use" if calls_tool else "end"))


def _chunks(piece: Say | Call, index: int) -> Iterator[Chunk]:
    if isinstance(piece, Say):
        delta = ThinkingDelta if piece.thinking else TextDelta
        yield from (delta(part, index) for part in split(piece.text, piece.chunks))
        return
    yield ToolUseStart(piece.id or "", piece.name, index)
    yield from (ToolInputDelta(part, index) for part in split(piece.raw, piece.deltas))
    yield ToolUseEnd(index)


def split(text: str, parts: int) -> list[str]:
    """Nearly equal parts, none empty, so at most one for each character."""
    count = max(1, min(parts, len(text)))
    size, more = divmod(len(text), count)
    cuts = [at * size + min(at, more) for at in range(count + 1)]
    return [text[start:end] for start, end in pairwise(cuts)]
