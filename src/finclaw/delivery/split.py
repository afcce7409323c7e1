"""Long texts in parts, cut where a reader would: between paragraphs, lines, sentences, words."""

from typing import Final

_BREAKS: Final = ("\n\n", "\n", ". ", "다. ", " ")


def split_text(text: str, limit: int) -> tuple[str, ...]:
    """Parts no longer than `limit`; nothing but white space at the cuts is left out."""
    if limit < 1:
        raise ValueError(f"a part must hold at least one character, not {limit}")
    parts: list[str] = []
    rest = text.strip()
    while len(rest) > limit:
        cut = _cut(rest, limit)
        parts.append(rest[:cut].rstrip())
        rest = rest[cut:].lstrip()
    return tuple(part for part in (*parts, rest) if part)


def _cut(text: str, limit: int) -> int:
    for mark in _BREAKS:
        found = text.rfind(mark, 1, limit - len(mark) + 1)
        if found > limit // 2:
            return found + len(mark)
    return limit
