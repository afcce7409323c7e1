"""The Anthropic provider: a request goes out as joined bytes, the answer comes back event by event."""

from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Final

from finclaw.clock import SystemClock
from finclaw.kernel.chunk import Chunk, ModelRequest
from finclaw.kernel.port import Clock
from finclaw.providers.anthropic.answer import AnthropicAnswerReader
from finclaw.providers.anthropic.failure import KINDS
from finclaw.providers.anthropic.message import render_image
from finclaw.providers.anthropic.non_streaming import events_of_non_streaming
from finclaw.providers.anthropic.request import AnthropicRequestWriter
from finclaw.providers.http.address import endpoint_url
from finclaw.providers.http.image_join import ReadBlob, join_images
from finclaw.providers.http.non_streaming import is_non_streaming, non_streaming_error, read_body, read_non_streaming
from finclaw.providers.http.pool import LazyHttpPool
from finclaw.providers.http.prefix_cache import Part
from finclaw.providers.http.sse import EventReader
from finclaw.providers.http.timeouts import FIRST_BYTE_S, IDLE_S
from finclaw.redaction import Secret

LARGEST_IMAGE: Final = 5 * 1_048_576
"""Bytes of base64 that the API takes."""
API: Final = "https://api.anthropic.com"


class AnthropicProvider:
    """A client of the Messages API behind the Provider port.

    `first_byte` bounds, in seconds, the wait until an answer begins, `idle` each silence in it. `kept_bytes` bounds
    the memory for messages that were sent before and may be sent again. `caching` marks what the API may keep of a
    request; turn it off for a server that does not know the marks. `key` is None for a server that asks for none.
    `read_blob` finds the images.
    """

    def __init__(  # noqa: PLR0913  each is a choice of the settings
        self,
        base_url: str,
        key: Secret | None,
        *,
        name: str = "anthropic",
        clock: Clock | None = None,
        first_byte: float = FIRST_BYTE_S,
        idle: float = IDLE_S,
        kept_bytes: int = 32_000_000,
        caching: bool = True,
        read_blob: ReadBlob | None = None,
    ) -> None:
        self._name = name
        self._key = key
        self._read_blob = read_blob
        self._requests = AnthropicRequestWriter(kept_bytes, caching=caching)
        self._pool = LazyHttpPool(
            endpoint_url(base_url, "/messages", version="/v1"),
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
        sent = 0

        def write() -> Sequence[Part]:
            nonlocal sent
            written, sent = self._requests.parts(request), self._requests.sent
            return join_images(written, self._read_blob, render_image, LARGEST_IMAGE)

        response = await self._pool.post(write)
        try:
            on_signature = partial(self._requests.signatures.remember, before=sent) if sent else None
            events, answer = EventReader(), AnthropicAnswerReader(self._name, on_signature)
            data = await response.read()
            if is_non_streaming(data):
                body = await read_body(response, data)
                chunks = read_non_streaming(events_of_non_streaming(body), answer.read)
                if not chunks:
                    raise non_streaming_error(self._name, response.content_type, body, KINDS)
                for chunk in chunks:
                    yield chunk
                return
            while data:
                for chunk in answer.read_all(events.feed(data)):
                    yield chunk
                data = b"" if answer.ended else await response.read()
            for chunk in answer.close():
                yield chunk
            await response.drain()
        finally:
            response.release()

    def evict(self) -> None:
        """Forget every kept byte; the next requests are written anew."""
        self._requests.evict()

    async def close(self) -> None:
        await self._pool.close()

    def _headers(self) -> dict[str, str]:
        key = {} if self._key is None else {"x-api-key": self._key.reveal()}
        return {"anthropic-version": "2023-06-01", **key}
