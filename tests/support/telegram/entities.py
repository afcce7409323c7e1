"""A parser of Telegram's HTML, which refuses what Telegram refuses, in its words."""

import re
from html import unescape
from typing import Any, Final

from tests.support.telegram.rules import bad_request, utf16_length

_KINDS: Final = {
    "b": "bold",
    "strong": "bold",
    "i": "italic",
    "em": "italic",
    "u": "underline",
    "ins": "underline",
    "s": "strikethrough",
    "strike": "strikethrough",
    "del": "strikethrough",
    "tg-spoiler": "spoiler",
    "span": "spoiler",
    "a": "text_link",
    "code": "code",
    "pre": "pre",
    "blockquote": "blockquote",
}
_TAG: Final = re.compile(r"<(?P<end>/?)(?P<name>[A-Za-z][A-Za-z0-9-]*)(?P<rest>[^<>]*)>")
_ATTRIBUTE: Final = re.compile(
    r"""\s*(?P<name>[a-z-]+)(?:\s*=\s*(?:"(?P<a>[^"]*)"|'(?P<b>[^']*)'|(?P<c>[^\s"'>]+)))?"""
)
_MENTION: Final = re.compile(r"(?<![\w/])@[A-Za-z][A-Za-z0-9_]{3,31}")
_COMMAND: Final = re.compile(r"(?:(?<=\s)|^)/[A-Za-z0-9_]{1,64}(?:@[A-Za-z][A-Za-z0-9_]{3,31})?")

Entity = dict[str, Any]


def parse_html(source: str) -> tuple[str, list[Entity]]:
    """The words that people see, and where in them the entities are. Raises ApiRefusal."""
    text, entities = "", list[Entity]()
    opened: list[tuple[str, Entity]] = []
    at = 0
    while at < len(source):
        here = source.find("<", at)
        text += unescape_known(source[at:] if here < 0 else source[at:here])
        if here < 0:
            break
        tag, offset = _TAG.match(source, here), len(source[:here].encode())
        if tag is None:
            raise _cannot_parse(f'Unsupported start tag "" at byte offset {offset}')
        name = tag["name"].lower()
        if tag["end"]:
            _close(name, opened, text, entities, offset)
        elif name not in _KINDS:
            raise _cannot_parse(f'Unsupported start tag "{name}" at byte offset {offset}')
        else:
            opened.append(
                (name, {"type": _KINDS[name], "offset": utf16_length(text), **_attributes(name, tag["rest"])})
            )
        at = tag.end()
    if opened:
        name, _ = opened[-1]
        raise _cannot_parse(f'Can\'t find end tag corresponding to start tag "{name}"')
    return _trim(text, [each for each in entities if each["length"]])


def find_entities(text: str) -> list[Entity]:
    """What Telegram itself finds in what people write: mentions of users and commands."""
    found = [("mention", each) for each in _MENTION.finditer(text)]
    found += [("bot_command", each) for each in _COMMAND.finditer(text)]
    return [
        {"type": kind, "offset": utf16_length(text[: each.start()]), "length": utf16_length(each.group())}
        for kind, each in sorted(found, key=lambda pair: pair[1].start())
    ]


def unescape_known(text: str) -> str:
    """Only the four entities by name that Telegram knows, and numbers."""
    return re.sub(r"&(?:lt|gt|amp|quot|#\d{1,6}|#x[0-9a-fA-F]{1,6});", lambda found: unescape(found[0]), text)


def _close(name: str, opened: list[tuple[str, Entity]], text: str, entities: list[Entity], offset: int) -> None:
    if not opened:
        raise _cannot_parse(f"Unexpected end tag at byte offset {offset}")
    expected, entity = opened.pop()
    if expected != name:
        raise _cannot_parse(f'Unmatched end tag at byte offset {offset}, expected "</{expected}>", found "</{name}>"')
    entity["length"] = utf16_length(text) - entity["offset"]
    entities.append(entity)


def _attributes(name: str, rest: str) -> Entity:
    found = {each["name"]: unescape(each["a"] or each["b"] or each["c"] or "") for each in _ATTRIBUTE.finditer(rest)}
    if name == "a":
        return {"url": found.get("href", "")}
    if name == "span" and found.get("class") != "tg-spoiler":
        raise _cannot_parse('Tag "span" must have class "tg-spoiler"')
    language = found.get("class", "")
    return {"language": language.removeprefix("language-")} if language.startswith("language-") else {}


def _trim(text: str, entities: list[Entity]) -> tuple[str, list[Entity]]:
    """White space at both ends is not shown."""
    trimmed = text.strip()
    lead, end = utf16_length(text[: len(text) - len(text.lstrip())]), utf16_length(trimmed)
    for entity in entities:
        start = max(0, entity["offset"] - lead)
        stop = min(end, entity["offset"] - lead + entity["length"])
        entity["offset"], entity["length"] = start, stop - start
    return trimmed, sorted((each for each in entities if each["length"] > 0), key=lambda each: each["offset"])


def _cannot_parse(why: str) -> Exception:
    return bad_request(f"can't parse entities: {why}")
