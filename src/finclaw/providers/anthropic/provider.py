"""The provider itself: a request goes out as joined bytes, the answer comes back event by event."""

from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Final

from finclaw.kernel.chunk import Chunk, ModelRequest
from finclaw.kernel.clock import SystemClock
from finclaw.kernel.port import Clock
from finclaw.providers.anthropic.answer import AnswerReader
from finclaw.providers.anthropic.failure import KINDS
from finclaw.providers.anthropic.request import RequestWriter
from finclaw.providers.anthropic.whole import events_of_whole
from finclaw.providers.patience import FIRST_BYTE_S, IDLE_S
from finclaw.providers.wire.address import endpoint
from finclaw.providers.wire.lazy_line import LazyLine
from finclaw.providers.wire.no_stream import is_no_stream, no_stream, read_page, read_whole
from finclaw.providers.wire.sse import EventReader
from finclaw.providers.wire.trunk import Part
from finclaw.redaction import Secret

API: Final = "https://api.anthropic.com"


class AnthropicProvider:
    """The Provider port.

    `first_byte` bounds, in seconds, the wait until an answer begins, `idle` each silence in it. `kept_bytes` bounds
    the memory for messages that were sent before and may be sent again. `caching` marks what the API may keep of a
    request; turn it off for a server that does not know the marks. `key` is None for a server that asks for none.
    """

    def __init__(
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
    ) -> None:
        self._name = name
        self._key = key
        self._requests = RequestWriter(kept_bytes, caching=caching)
        self._line = LazyLine(
            endpoint(base_url, "/messages", version="/v1"),
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
            return written

        reply = await self._line.post(write)
        try:
            signed = partial(self._requests.bonds.tie, before=sent) if sent else None
            events, answer = EventReader(), AnswerReader(self._name, signed)
            data = await reply.read()
            if is_no_stream(data):
                page = await read_page(reply, data)
                whole = read_whole(events_of_whole(page), answer.read)
                if not whole:
                    raise no_stream(self._name, reply.content_type, page, KINDS)
                for chunk in whole:
                    yield chunk
                return
            while data:
                for chunk in answer.read_all(events.feed(data)):
                    yield chunk
                data = b"" if answer.ended else await reply.read()
            for chunk in answer.close():
                yield chunk
            await reply.read_out()
        finally:
            reply.release()

    def evict(self) -> None:
        """Forget every kept byte; the next requests are written anew."""
        self._requests.evict()

    async def close(self) -> None:
        await self._line.close()

    def _headers(self) -> dict[str, str]:
        key = {} if self._key is None else {"x-api-key": self._key.reveal()}
        return {"anthropic-version": "2023-06-01", **key}
