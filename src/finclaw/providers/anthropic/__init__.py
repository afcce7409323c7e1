"""Models behind the Anthropic Messages API, streamed."""

from finclaw.providers.anthropic.provider import AnthropicProvider

__all__ = ["AnthropicProvider"]
