"""The provider itself: a request goes out as joined bytes, the answer comes back event by event."""

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from finclaw.errors import ProviderTimeout, StreamCut
from finclaw.kernel.chunk import Chunk, ModelRequest
from finclaw.kernel.clock import SystemClock
from finclaw.kernel.port import Clock
from finclaw.providers.openai.answer import AnswerReader
from finclaw.providers.openai.failure import IN_STREAM, KINDS
from finclaw.providers.openai.request import OutputLimit, RequestWriter
from finclaw.providers.openai.whole import events_of_whole
from finclaw.providers.patience import FIRST_BYTE_S, IDLE_S
from finclaw.providers.wire.address import endpoint
from finclaw.providers.wire.lazy_line import LazyLine
from finclaw.providers.wire.no_stream import is_no_stream, no_stream, read_page, read_whole
from finclaw.providers.wire.sse import EventReader
from finclaw.redaction import Secret

if TYPE_CHECKING:
    from finclaw.providers.wire.reply import Reply

API: Final = "https://api.openai.com/v1"
AFTER_FINISH_SECONDS: Final = 5.0
"""How long a model that has stopped is waited for to tell its usage."""


class OpenAIProvider:
    """The Provider port, for OpenAI and every server that speaks as it does; a local one needs no key.

    `first_byte` bounds, in seconds, the wait until an answer begins, `idle` each silence in it. `kept_bytes` bounds
    the memory for messages that were sent before and may be sent again. `output_limit` names the field in which the
    server wants to be told how long an answer may get; unless it is given, only OpenAI gets the newer one.
    """

    def __init__(
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
    ) -> None:
        self._name = name
        self._key = key
        self._requests = RequestWriter(kept_bytes, output_limit or _limit_of(base_url))
        self._line = LazyLine(
            endpoint(base_url, "/chat/completions"),
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
        reply = await self._line.post(lambda: self._requests.parts(request))
        try:
            events, answer = EventReader(), AnswerReader(self._name)
            reading = _Reading(reply, answer)
            data = await reading.next()
            if is_no_stream(data):
                page = await read_page(reply, data)
                whole = read_whole(events_of_whole(page), answer.read)
                if not whole:
                    raise no_stream(self._name, reply.content_type, page, IN_STREAM)
                for chunk in whole:
                    yield chunk
                return
            while data:
                for chunk in answer.read_all(events.feed(data)):
                    yield chunk
                data = await reading.next()
            if answer.ended:
                await reply.read_out()
            for chunk in answer.close():
                yield chunk
        finally:
            reply.release()

    def evict(self) -> None:
        """Forget every kept byte; the next requests are written anew."""
        self._requests.evict()

    async def close(self) -> None:
        await self._line.close()

    def _headers(self) -> dict[str, str]:
        key = self._key.reveal() if self._key else ""
        return {"authorization": f"Bearer {key}"} if key else {}


class _Reading:
    """Once the model has stopped, more bytes need not come: the answer is whole without them."""

    def __init__(self, reply: "Reply", answer: AnswerReader) -> None:
        self._reply = reply
        self._answer = answer
        self._end_by: float | None = None

    async def next(self) -> bytes:
        """Empty at the end. Raises StreamCut or ProviderTimeout while the model is still speaking."""
        if self._answer.ended:
            return b""
        if not self._answer.finished:
            return await self._reply.read()
        if self._end_by is None:
            self._end_by = asyncio.get_running_loop().time() + AFTER_FINISH_SECONDS
        try:
            async with asyncio.timeout_at(self._end_by):
                return await self._reply.read()
        except (StreamCut, ProviderTimeout, TimeoutError):
            return b""


def _limit_of(base_url: str) -> OutputLimit:
    return "max_completion_tokens" if urlsplit(base_url).hostname == "api.openai.com" else "max_tokens"
