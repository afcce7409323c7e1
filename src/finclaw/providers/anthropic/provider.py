"""The provider itself: a request goes out as joined bytes, the answer comes back event by event."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final

from finclaw.errors import StreamCut
from finclaw.kernel.chunk import Chunk, ModelRequest
from finclaw.kernel.secret import Secret
from finclaw.providers.anthropic.answer import AnswerReader
from finclaw.providers.anthropic.request import RequestWriter
from finclaw.providers.anthropic.sse import EventReader

if TYPE_CHECKING:
    from finclaw.providers.anthropic.line import Line

API: Final = "https://api.anthropic.com"


class AnthropicProvider:
    """The Provider port. `kept_bytes` bounds the memory for messages that were sent before and may be sent again."""

    def __init__(
        self,
        base_url: str,
        key: Secret,
        *,
        name: str = "anthropic",
        kept_bytes: int = 32_000_000,
    ) -> None:
        self._base_url = base_url
        self._key = key
        self._name = name
        self._requests = RequestWriter(kept_bytes)
        self._open: Line | None = None

    @property
    def name(self) -> str:
        return self._name

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        line = self._line()
        events, answer = EventReader(), AnswerReader()
        response = await line.post(self._requests.write(request))
        try:
            while not answer.ended and (data := await line.read(response)):
                for payload in events.feed(data):
                    chunk = answer.read(payload)
                    if chunk is not None:
                        yield chunk
            if not answer.ended:
                raise StreamCut(f"{self._name}: the stream ended before the answer did")
            await line.read_out(response)
        finally:
            response.release()

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
            from finclaw.providers.anthropic.line import Line  # noqa: PLC0415

            self._open = Line(self._base_url, self._key, self._name)
        return self._open
