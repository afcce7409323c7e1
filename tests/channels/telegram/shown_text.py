"""A message that a person sees on Telegram, written as lines for a golden file."""

from collections.abc import Iterator
from typing import Final

from tests.support.telegram.world import Json, Shown

TAGS: Final = {"bold": "b", "italic": "i", "code": "code", "pre": "pre", "strikethrough": "s", "blockquote": "quote"}


def describe(shown: Shown) -> list[str]:
    """Its file, its words with marks, and its buttons."""
    parts = [f"[{shown.file[0]} {shown.file[1]}]"] if shown.file is not None else []
    parts += [_mark(shown.text, shown.entities)] if shown.text else []
    parts += [" ".join(f"[{button['text']}]" for button in row) for row in shown.buttons]
    return [*parts, f"(topic {shown.thread})"] if shown.thread is not None else parts


def _mark(text: str, entities: list[Json]) -> str:
    """The words with their entities as tags, so that a reader sees what is bold."""
    units = text.encode("utf-16-le")
    marks = sorted(_marks(entities), key=lambda mark: mark[0])
    out, at = "", 0
    for (place, _), tag in marks:
        out += units[2 * at : 2 * place].decode("utf-16-le") + tag
        at = place
    return out + units[2 * at :].decode("utf-16-le")


def _marks(entities: list[Json]) -> Iterator[tuple[tuple[int, int], str]]:
    for each in entities:
        tag = TAGS.get(each["type"], each["type"])
        link = f" {each['url']}" if "url" in each else ""
        end = each["offset"] + each["length"]
        yield (each["offset"], 1_000_000 - each["length"]), f"<{tag}{link}>"
        yield (end, -(1_000_000 - each["length"])), f"</{tag}>"
