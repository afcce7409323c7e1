"""Text that can be stored and sent, and no longer than it may be: the guard's first and smallest form."""

from finclaw.kernel.text import fix_surrogates

NO_RESULT = "[No result returned]"
TRUNCATED = "\n[truncated]"

_CONTROL = {code: None for code in range(0x20) if chr(code) not in "\t\n\r"}


def guard_result(text: str | None, limit: int = 100_000) -> str:
    """Text that can be stored and sent, at most `limit` characters long. Guarding it again changes nothing."""
    if text is None:
        return NO_RESULT[:limit]
    clean = fix_surrogates(text.translate(_CONTROL))
    if len(clean) <= limit:
        return clean
    return (clean[: max(0, limit - len(TRUNCATED))] + TRUNCATED)[:limit]
