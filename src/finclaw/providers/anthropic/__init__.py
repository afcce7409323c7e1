"""Models behind the Anthropic Messages API, streamed."""
