"""Models behind the Anthropic Messages API, streamed. First form: no retries and no cache marks."""

from finclaw.providers.anthropic.provider import AnthropicProvider

__all__ = ["AnthropicProvider"]
