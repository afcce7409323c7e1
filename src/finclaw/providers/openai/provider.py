"""The OpenAI provider."""

from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from finclaw.kernel.chunk import ModelRequest
from finclaw.kernel.port import Clock
from finclaw.providers.api_provider import AnswerReader, ApiProvider
from finclaw.providers.http.address import FIRST_BYTE_S, IDLE_S, endpoint_url
from finclaw.providers.http.image_join import ReadBlob, join_images
from finclaw.providers.http.prefix_cache import Part
from finclaw.providers.openai.answer import IN_STREAM, KINDS, OpenAIAnswerReader, events_of_non_streaming
from finclaw.providers.openai.request import OpenAIRequestWriter, OutputLimit, render_image
from finclaw.redaction import Secret

LARGEST_IMAGE: Final = 20_000_000  # bytes of base64 that the API takes


class OpenAIProvider(ApiProvider):
    """A client of chat completions, for OpenAI and every compatible server.

    `kept_bytes` bounds the memory for messages that were sent before and may be sent again. `output_limit` names the
    field for the longest answer; unless it is given, only OpenAI gets the newer one.
    """

    kinds = KINDS
    in_stream = IN_STREAM

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
        if output_limit is None:
            is_openai = urlsplit(base_url).hostname == "api.openai.com"
            output_limit = "max_completion_tokens" if is_openai else "max_tokens"
        self._writer = OpenAIRequestWriter(kept_bytes, output_limit)
        super().__init__(
            endpoint_url(base_url, "/chat/completions"),
            self._headers,
            self._writer,
            events_of_non_streaming,
            name=name,
            clock=clock,
            first_byte=first_byte,
            idle=idle,
        )
        self._key = key
        self._read_blob = read_blob

    def write(self, request: ModelRequest) -> tuple[Sequence[Part], AnswerReader]:
        parts = self._writer.parts(request)
        return join_images(parts, self._read_blob, render_image, LARGEST_IMAGE), OpenAIAnswerReader(self.name)

    def _headers(self) -> dict[str, str]:
        if self._key and (key := self._key.reveal()):
            return {"authorization": f"Bearer {key}"}
        return {}
