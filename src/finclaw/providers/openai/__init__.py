"""Models behind OpenAI's chat completions, streamed: OpenAI itself, and every server that speaks as it does."""
