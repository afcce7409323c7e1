"""The part of a provider that all APIs share: a request goes out as joined bytes, the answer comes back event by event.

A response may be no stream in spite of its success: an error with the wrong status, a page, or a whole answer.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import ClassVar, Final, Protocol

from finclaw.clock import SystemClock
from finclaw.errors import NoStream, ProviderError, ProviderTimeout, StreamCut, Unreachable
from finclaw.kernel.chunk import Chunk, ModelRequest
from finclaw.kernel.port import Clock
from finclaw.providers.http.failure import Complaint, Kinds, read_complaint, stream_error
from finclaw.providers.http.pool import HttpPool
from finclaw.providers.http.prefix_cache import Part
from finclaw.providers.http.response import HttpResponse
from finclaw.providers.http.sse import Event, EventReader

LONGEST_PAGE: Final = 65_536
LONGEST_ANSWER: Final = 16_000_000
AFTER_FINISH_SECONDS: Final = 5.0  # for a model that has stopped to tell its usage

_PAGE: Final = b"<"
_NO_EVENT: Final = (b"{", b"[", _PAGE)
"""How JSON and pages begin. What a server says about the type of its answer is not always so."""
_NON_STREAMING_TYPE: Final = "message"  # as Anthropic's API calls a whole answer


class AnswerReader(Protocol):
    ended: bool  # the answer is whole, and `Done` has been given

    @property
    def finished(self) -> bool:
        """The model has stopped, and the end of the stream need not come any more."""
        ...

    def read(self, name: bytes, data: bytes, /) -> Sequence[Chunk]: ...
    def read_all(self, events: Sequence[Event], /) -> Iterable[Chunk]: ...
    def close(self) -> Sequence[Chunk]: ...


class RequestWriter(Protocol):
    def evict(self) -> None: ...


class ApiProvider(ABC):
    """A client of one API behind the Provider port.

    `in_stream` are the kinds of errors that come with a success. `read_whole` gives an answer that was not streamed as
    events. `first_byte` bounds the seconds until an answer begins, `idle` each silence in it.
    """

    kinds: ClassVar[Kinds]
    in_stream: ClassVar[Kinds]

    def __init__(
        self,
        url: str,
        headers: Callable[[], Mapping[str, str]],
        requests: RequestWriter,
        read_whole: Callable[[bytes], list[Event]],
        *,
        name: str,
        clock: Clock | None,
        first_byte: float,
        idle: float,
    ) -> None:
        self.name: Final = name
        self._url = url
        self._headers = headers
        self._requests = requests
        self._read_whole = read_whole
        self._clock = clock or SystemClock()
        self._first_byte = first_byte
        self._idle = idle
        self._pool: HttpPool | None = None

    @abstractmethod
    def write(self, request: ModelRequest) -> tuple[Sequence[Part], AnswerReader]:
        """Return the request's body, and who reads the answer to it."""

    def evict(self) -> None:
        """Forget every kept byte; the next requests are written anew."""
        self._requests.evict()

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        answers: list[AnswerReader] = []

        def write() -> Sequence[Part]:
            parts, answer = self.write(request)
            answers.append(answer)
            return parts

        response = await self._open_pool().post(write, first_byte=self._first_byte, idle=self._idle)
        try:
            answer = answers[-1]
            events = EventReader()
            reading = _Reading(response, answer)
            data = await reading.next()
            if data.lstrip()[:1] in _NO_EVENT:
                body = await _read_body(response, data)
                chunks = _read_events(self._read_whole(body), answer)
                if not chunks:
                    raise _non_streaming_error(self.name, response.content_type, body, self.in_stream)
                for chunk in chunks:
                    yield chunk
                return
            while data:
                for chunk in answer.read_all(events.feed(data)):
                    yield chunk
                data = await reading.next()
            if answer.ended:
                await response.drain()
            for chunk in answer.close():
                yield chunk
        finally:
            response.release()

    def _open_pool(self) -> HttpPool:
        """Made with the first request: before that there may be no event loop, and no key should be revealed."""
        if self._pool is None:
            self._pool = HttpPool(self._url, self._headers(), name=self.name, kinds=self.kinds, clock=self._clock)
        return self._pool

    async def close(self) -> None:
        """Close the connections. A later request opens a new pool."""
        if self._pool is not None:
            pool = self._pool
            self._pool = None
            await pool.close()


class _Reading:
    """The reads of one answer, which is whole once the model has stopped: more bytes need not come then."""

    def __init__(self, response: HttpResponse, answer: AnswerReader) -> None:
        self._response = response
        self._answer = answer
        self._end_by: float | None = None

    async def next(self) -> bytes:
        """Empty at the end. Raises StreamCut or ProviderTimeout while the model is still speaking."""
        if self._answer.ended:
            return b""
        if not self._answer.finished:
            return await self._response.read()
        if self._end_by is None:
            self._end_by = asyncio.get_running_loop().time() + AFTER_FINISH_SECONDS
        try:
            async with asyncio.timeout_at(self._end_by):
                return await self._response.read()
        except (StreamCut, ProviderTimeout, TimeoutError):
            return b""


# ── responses that are no stream ────────────────────────────────────────────────────────────────────────────


async def _read_body(reply: HttpResponse, said: bytes) -> bytes:
    """The whole body, whatever it is, up to a limit. Raises StreamCut or ProviderTimeout."""
    longest = LONGEST_PAGE if said.lstrip().startswith(_PAGE) else LONGEST_ANSWER
    pieces = [said]
    size = len(said)
    while size < longest and (data := await reply.read()):
        pieces.append(data)
        size += len(data)
    return b"".join(pieces)


def _read_events(events: Iterable[Event], answer: AnswerReader) -> list[Chunk]:
    """None where they cannot be read after all."""
    try:
        return [chunk for name, data in events for chunk in answer.read(name, data)]
    except StreamCut:
        return []


def _non_streaming_error(name: str, content_type: str, said: bytes, kinds: Kinds) -> ProviderError:
    """Some gateways send an error with the status of a success; a wrong address may answer with anything.

    A page is a proxy's that wants a login, or somebody's who is at work there: the server behind it was not reached,
    and may be the next time. JSON that is neither an error nor a whole answer will be none the next time either.
    """
    complaint = read_complaint(said)
    if complaint != Complaint(complaint.type) or complaint.type not in (None, _NON_STREAMING_TYPE):
        return stream_error(name, complaint, kinds)
    kind = Unreachable if said.lstrip().startswith(_PAGE) else NoStream
    return kind(
        f"{name} answered with {content_type} and not with a stream of events, so another kind of server may be "
        f"there; check `base_url` and `kind` under `providers.{name}`, and that a proxy passes streams on"
    )
