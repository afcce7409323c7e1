"""Fences around other people's words inside our own: where they begin and end stays plain, whatever they say."""

import re
from typing import Any, Final

import msgspec

_LONGEST: Final = 400
"""Characters of one quoted value."""


def fence_text(name: str, text: str) -> str:
    """Between tags of this name. What looks like such a tag inside no longer is one.

    Signs and invisible characters inside a tag do not hide it: a model would read over them.
    """
    words = r"\W{0,8}".join(map(re.escape, name.split("-")))
    tame = re.sub(rf"<(?=\W{{0,8}}{words})", "&lt;", text.strip(), flags=re.IGNORECASE)
    return f"<{name}>\n{tame}\n</{name}>"


def quote_value(value: Any, longest: int = _LONGEST) -> str:
    """As JSON on one line, with its keys in order."""
    try:
        written = msgspec.json.encode(value, enc_hook=str, order="sorted").decode()
    except (TypeError, ValueError, RecursionError):  # half a character, a key that is a list, a list in itself
        written = '"?"'
    return written if len(written) <= longest else f"{written[:longest]}…"
