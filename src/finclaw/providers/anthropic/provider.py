"""The provider itself: a request goes out as joined bytes, the answer comes back event by event."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final

from finclaw.kernel.chunk import Chunk, ModelRequest
from finclaw.kernel.clock import SystemClock
from finclaw.kernel.port import Clock
from finclaw.kernel.secret import Secret
from finclaw.providers.anthropic.answer import AnswerReader
from finclaw.providers.anthropic.failure import KINDS
from finclaw.providers.anthropic.request import RequestWriter
from finclaw.providers.wire.sse import EventReader

if TYPE_CHECKING:
    from finclaw.providers.wire.line import Line

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
        self._url = base_url.rstrip("/") + "/v1/messages"
        self._key = key
        self._name = name
        self._clock = clock or SystemClock()
        self._first_byte = first_byte
        self._idle = idle
        self._requests = RequestWriter(kept_bytes, caching=caching)
        self._open: Line | None = None

    @property
    def name(self) -> str:
        return self._name

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        events, answer = EventReader(), AnswerReader(self._name)
        reply = await self._line().post(self._requests.write(request), first_byte=self._first_byte, idle=self._idle)
        try:
            while not answer.ended and (data := await reply.read()):
                for name, payload in events.feed(data):
                    for chunk in answer.read(name, payload):
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
        if self._open is not None:
            await self._open.close()
            self._open = None

    def _line(self) -> "Line":
        if self._open is None:
            # The HTTP client costs a fifth of a second to import: only whoever speaks pays it.
            from finclaw.providers.wire.line import Line  # noqa: PLC0415

            headers = {"anthropic-version": "2023-06-01", "x-api-key": self._key.reveal()}
            self._open = Line(self._url, headers, name=self._name, kinds=KINDS, clock=self._clock)
        return self._open
