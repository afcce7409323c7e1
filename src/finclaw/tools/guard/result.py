"""The guard of a tool's result: normalised, without markup, without secrets, and only then cut.

The order is the point. A number cut first would show its half; a tag inside a number would hide it from the mask.
"""

import asyncio
from dataclasses import dataclass
from typing import Any, Final

from msgspec import Struct

from finclaw.errors import ConfigError
from finclaw.tools.guard.clean import clean
from finclaw.tools.guard.cut import cut
from finclaw.tools.guard.failure import without_traceback
from finclaw.tools.guard.markup import without_markup
from finclaw.tools.guard.redact import Redacted, redact_clean
from finclaw.tools.guard.shapes import compile_shape
from finclaw.tools.guard.value import as_text

OFF_LOOP_ABOVE: Final = 50_000
"""Characters above which a result is guarded in a thread, so that nobody else waits for it."""
MOST_READ: Final = 2_000_000
"""Of a longer text only the beginning is looked at: nobody is shown the rest, and it would take seconds."""
_EDGE: Final = 64
"""Longer than any number: what the end of the reading may have cut in two goes with these last characters."""
_READ_ON: Final = "; call read_result to read them"
_SETTLING: Final = 3


@dataclass(frozen=True, slots=True)
class GuardOptions:
    """What the guard does to a tool's results; a tool may have its own."""

    shown: int = 10_000
    """The most characters the model is given."""
    stored: int = 100_000
    """The most characters kept aside for `read_result` when the model is given less."""
    allow_html: bool = False
    """Leave markup in, for a tool whose markup is wanted."""
    redact_finance: bool = True
    """Hide card, account and personal numbers; keys and passwords are hidden in any case."""
    patterns: tuple[str, ...] = ()
    """More to hide, as plain text with blanks: '#' is a digit, '@' a letter, '?' either, '+' more of them."""

    def __post_init__(self) -> None:
        if not 0 <= self.shown <= self.stored:
            raise ConfigError(f"shown ({self.shown}) must be between 0 and stored ({self.stored})")
        for pattern in self.patterns:
            compile_shape(pattern)


class Guarded(Struct, frozen=True):
    content: str
    """For the model."""
    is_error: bool
    was_truncated: bool
    was_redacted: bool
    original_size: int
    guarded_size: int
    full: str | None = None
    """If the content was cut: all of it, guarded, up to the limit for what is stored."""


DEFAULT: Final = GuardOptions()


def guard(value: Any, options: GuardOptions = DEFAULT, *, is_error: bool = False) -> Guarded:
    """What the model may see of a result. Guarding its content again changes nothing."""
    original = as_text(value)
    text = without_traceback(original) if is_error else original
    safe = _safe(text[:MOST_READ], options)
    whole, was_all_read = safe.text, len(text) <= MOST_READ and "many secrets" not in safe.kinds
    if len(text) > MOST_READ:
        whole = whole[:-_EDGE]
    return Guarded(
        content=(content := _settled(whole, options.shown, _READ_ON, options)),
        is_error=is_error,
        was_truncated=(was_cut := content != whole or not was_all_read),
        was_redacted=bool(safe.kinds),
        original_size=len(original),
        guarded_size=len(content),
        full=_settled(whole, options.stored, "", options) if was_cut else None,
    )


async def guard_off_loop(value: Any, options: GuardOptions = DEFAULT, *, is_error: bool = False) -> Guarded:
    """The same, without keeping the event loop from its other work for long."""
    if isinstance(value, str | bytes | None) and len(value or "") <= OFF_LOOP_ABOVE:
        return guard(value, options, is_error=is_error)
    return await asyncio.to_thread(guard, value, options, is_error=is_error)


def _safe(text: str, options: GuardOptions) -> Redacted:
    text = clean(text)
    if not options.allow_html:
        text = without_markup(text)
    return redact_clean(text, options.redact_finance, [compile_shape(shape) for shape in options.patterns])


def _settled(text: str, limit: int, how_to_read_on: str, options: GuardOptions) -> str:
    """A cut puts words beside each other that were apart; they are looked at until there is nothing more to hide."""
    for _ in range(_SETTLING):
        short = cut(text, limit, how_to_read_on)
        if short == text:
            return text
        text = _safe(short, options).text
        if text == short:
            return text
    return text if len(text) <= limit else text[:limit]
