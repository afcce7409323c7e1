"""The provider itself: a request goes out as joined bytes, the answer comes back event by event."""

from collections.abc import AsyncIterator
from typing import Final

from finclaw.kernel.chunk import Chunk, ModelRequest
from finclaw.kernel.clock import SystemClock
from finclaw.kernel.port import Clock
from finclaw.kernel.secret import Secret
from finclaw.providers.anthropic.answer import AnswerReader
from finclaw.providers.anthropic.failure import KINDS
from finclaw.providers.anthropic.request import RequestWriter
from finclaw.providers.wire.lazy_line import LazyLine
from finclaw.providers.wire.sse import EventReader
from finclaw.providers.wire.together import together

API: Final = "https://api.anthropic.com"


class AnthropicProvider:
    """The Provider port.

    `first_byte` bounds, in seconds, the wait until an answer begins, `idle` each silence in it. `kept_bytes` bounds
    the memory for messages that were sent before and may be sent again. `caching` marks what the API may keep of a
    request; turn it off for a server that does not know the marks.
    """

    def __init__(
        self,
        base_url: str,
        key: Secret,
        *,
        name: str = "anthropic",
        clock: Clock | None = None,
        first_byte: float = 120.0,
        idle: float = 60.0,
        kept_bytes: int = 32_000_000,
        caching: bool = True,
    ) -> None:
        self._name = name
        self._key = key
        self._requests = RequestWriter(kept_bytes, caching=caching)
        self._line = LazyLine(
            base_url.rstrip("/") + "/v1/messages",
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
        events, answer = EventReader(), AnswerReader(self._name)
        reply = await self._line.post(self._requests.write(request))
        try:
            while not answer.ended and (data := await reply.read()):
                come = (chunk for name, payload in events.feed(data) for chunk in answer.read(name, payload))
                for chunk in together(come):
                    yield chunk
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
        return {"anthropic-version": "2023-06-01", "x-api-key": self._key.reveal()}
