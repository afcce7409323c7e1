"""What is told outside of a conversation: to people, to observers, to the journal and the log. Without secrets."""

from finclaw.tools.guard.redact import redact


def without_secrets(text: str) -> str:
    """The very same text where it holds none."""
    safe = redact(text)
    return safe.text if safe.kinds else text


def reason_of(error: BaseException) -> str:
    """The kind of error and its own words: a server likes to repeat the key that it refused."""
    return without_secrets(f"{type(error).__name__}: {error}")
