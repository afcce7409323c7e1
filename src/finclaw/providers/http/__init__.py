"""The HTTP client that all model APIs share: connections, server-sent events, errors, caches of encoded requests."""
