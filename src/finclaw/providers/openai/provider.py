"""The OpenAI provider: a request goes out as joined bytes, the answer comes back event by event."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Final
from urllib.parse import urlsplit

from finclaw.clock import SystemClock
from finclaw.errors import ProviderTimeout, StreamCut
from finclaw.kernel.chunk import Chunk, ModelRequest
from finclaw.kernel.port import Clock
from finclaw.providers.http.address import endpoint_url
from finclaw.providers.http.image_join import ReadBlob, join_images
from finclaw.providers.http.non_streaming import is_non_streaming, non_streaming_error, read_body, read_non_streaming
from finclaw.providers.http.pool import LazyHttpPool
from finclaw.providers.http.prefix_cache import Part
from finclaw.providers.http.response import HttpResponse
from finclaw.providers.http.sse import EventReader
from finclaw.providers.http.timeouts import FIRST_BYTE_S, IDLE_S
from finclaw.providers.openai.answer import OpenAIAnswerReader
from finclaw.providers.openai.failure import IN_STREAM, KINDS
from finclaw.providers.openai.non_streaming import events_of_non_streaming
from finclaw.providers.openai.request import OpenAIRequestWriter, OutputLimit, render_image
from finclaw.redaction import Secret

LARGEST_IMAGE: Final = 20_000_000
"""Bytes of base64 that the API takes."""
API: Final = "https://api.openai.com/v1"
AFTER_FINISH_SECONDS: Final = 5.0
"""How long a model that has stopped is waited for to tell its usage."""


class OpenAIProvider:
    """A client of chat completions behind the Provider port, for OpenAI and every compatible server.

    `first_byte` bounds, in seconds, the wait until an answer begins, `idle` each silence in it. `kept_bytes` bounds
    the memory for messages that were sent before and may be sent again. `output_limit` names the field in which the
    server wants to be told how long an answer may get; unless it is given, only OpenAI gets the newer one. A local
    server needs no key. `read_blob` finds the images.
    """

    def __init__(  # noqa: PLR0913  each is a choice of the settings
        self,
        base_url: str,
        key: Secret | None,
        *,
        name: str = "openai",
        clock: Clock | None = None,
        output_limit: OutputLimit | None = None,
        first_byte: float = FIRST_BYTE_S,
        idle: float = IDLE_S,
        kept_bytes: int = 32_000_000,
        read_blob: ReadBlob | None = None,
    ) -> None:
        self._name = name
        self._key = key
        self._read_blob = read_blob
        self._requests = OpenAIRequestWriter(kept_bytes, output_limit or _limit_of(base_url))
        self._pool = LazyHttpPool(
            endpoint_url(base_url, "/chat/completions"),
            self._headers,
            name=name,
            kinds=KINDS,
            clock=clock or SystemClock(),
            first_byte=first_byte,
            idle=idle,
        )

    @property
    def name(self) -> str:
        return self._name

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        response = await self._pool.post(lambda: self._write(request))
        try:
            events, answer = EventReader(), OpenAIAnswerReader(self._name)
            reading = _Reading(response, answer)
            data = await reading.next()
            if is_non_streaming(data):
                body = await read_body(response, data)
                chunks = read_non_streaming(events_of_non_streaming(body), answer.read)
                if not chunks:
                    raise non_streaming_error(self._name, response.content_type, body, IN_STREAM)
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

    def _write(self, request: ModelRequest) -> Sequence[Part]:
        return join_images(self._requests.parts(request), self._read_blob, render_image, LARGEST_IMAGE)

    def evict(self) -> None:
        """Forget every kept byte; the next requests are written anew."""
        self._requests.evict()

    async def close(self) -> None:
        await self._pool.close()

    def _headers(self) -> dict[str, str]:
        key = self._key.reveal() if self._key else ""
        return {"authorization": f"Bearer {key}"} if key else {}


class _Reading:
    """The reads of one answer, which is whole once the model has stopped: more bytes need not come then."""

    def __init__(self, response: HttpResponse, answer: OpenAIAnswerReader) -> None:
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


def _limit_of(base_url: str) -> OutputLimit:
    return "max_completion_tokens" if urlsplit(base_url).hostname == "api.openai.com" else "max_tokens"
