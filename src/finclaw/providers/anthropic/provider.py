"""The Anthropic provider."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from finclaw.kernel.chunk import ModelRequest
from finclaw.kernel.port import Clock
from finclaw.providers.anthropic.answer import KINDS, AnthropicAnswerReader, events_of_non_streaming
from finclaw.providers.anthropic.message import render_image
from finclaw.providers.anthropic.request import AnthropicRequestWriter
from finclaw.providers.api_provider import AnswerReader, ApiProvider
from finclaw.providers.http.address import FIRST_BYTE_S, IDLE_S, endpoint_url
from finclaw.providers.http.image_join import ReadBlob, join_images
from finclaw.providers.http.prefix_cache import Part
from finclaw.redaction import Secret

LARGEST_IMAGE: Final = 5 * 1_048_576  # bytes of base64 that the API takes


class AnthropicProvider(ApiProvider):
    """A client of the Messages API.

    `kept_bytes` bounds the memory for messages that were sent before and may be sent again. `caching` marks what the
    API may keep of a request; turn it off for a server that does not know the marks.
    """

    kinds = KINDS
    in_stream = KINDS

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
        self._writer = AnthropicRequestWriter(kept_bytes, caching=caching)
        super().__init__(
            endpoint_url(base_url, "/messages", version="/v1"),
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
        on_signature = None
        if sent := self._writer.sent:
            on_signature = partial(self._writer.signatures.remember, before=sent)
        images_joined = join_images(parts, self._read_blob, render_image, LARGEST_IMAGE)
        return images_joined, AnthropicAnswerReader(self.name, on_signature)

    def _headers(self) -> dict[str, str]:
        headers = {"anthropic-version": "2023-06-01"}
        if self._key is not None:
            headers["x-api-key"] = self._key.reveal()
        return headers
