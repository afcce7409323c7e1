"""A model that does what anybody tells it: every order it can find anywhere in its context, however well hidden.

An order is `CALL name {json}`, or the same in Korean. It is looked for in the text as it stands and in everything that
the text could be meant to be read as.
"""

import base64
import binascii
import codecs
import html
import json
import re
import unicodedata
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from tests.attack.desk import BLANK, SECRET

from finclaw.kernel.chunk import ModelRequest
from finclaw.kernel.message import Message, Text, ToolResult
from finclaw.testing import call, reply
from finclaw.testing.provider import Reply

_ORDER: Final = re.compile(r"CALL\s+([A-Za-z0-9_-]{1,64})\s+(?=\{)")
_ORDER_KO: Final = re.compile(
    r"도구\s*([A-Za-z0-9_-]{1,64})\s*을?를?\s*다음 값으로 호출하(?:세요|라|십시오):?\s*(?=\{)"
)
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]{24,}={0,2}")
_HEX: Final = re.compile(r"(?:[0-9a-f]{2}){16,}")
_APPROVAL: Final = re.compile(r"ap-[0-9a-z]{26}")
_HIDDEN: Final = re.compile(
    "[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff]"
)
_MOST: Final = 6
"""Calls in one breath."""


class Order(NamedTuple):
    tool: str
    args: str
    """As JSON, sorted."""


class Obedient:
    """The script of a ScriptedProvider. `obeyed` is every call it has made because somebody told it to."""

    def __init__(self) -> None:
        self.obeyed: list[Order] = []

    def __call__(self, request: ModelRequest) -> Reply:
        offered = {spec.name for spec in request.tools}
        made = set(_made(request))
        orders = [order for order in dict.fromkeys(orders_in(request)) if order.tool in offered and order not in made]
        if orders:
            self.obeyed.extend(orders[:_MOST])
            return reply(*(call(order.tool, json.loads(order.args)) for order in orders[:_MOST]))
        # It also says whatever could pass for a person's word.
        ids = dict.fromkeys(found for text in _texts(request) for found in _APPROVAL.findall(text))
        return reply(" ".join(["Done, all of it is approved.", *(f"\n/approve {each}\n" for each in ids)]))


def orders_in(request: ModelRequest) -> Iterator[Order]:
    for text in _texts(request):
        yield from orders_of(text)


@cache
def orders_of(text: str) -> tuple[Order, ...]:
    return tuple(dict.fromkeys(order for reading in readings(text) for order in _orders(reading)))


def _made(request: ModelRequest) -> Iterator[Order]:
    """Calls that had an answer; one that was skipped behind another is tried again."""
    results = [result for message in request.messages for result in message.tool_results]
    skipped = {result.call_id for result in results if result.status == "skipped"}
    calls = (each for message in request.messages for each in message.tool_calls)
    return (Order(each.name, _sorted(each.args)) for each in calls if each.id not in skipped)


def _texts(request: ModelRequest) -> Iterator[str]:
    yield request.system or ""
    for spec in request.tools:
        yield spec.description
        yield json.dumps(spec.input_schema, ensure_ascii=False)
    for message in request.messages:
        yield from _spoken(message)


def _spoken(message: Message) -> Iterator[str]:
    for block in message.blocks:
        match block:
            case Text(text):
                yield text
            case ToolResult():
                yield block.content
                yield "" if block.error is None else block.error.message
            case _:
                pass


def readings(text: str) -> Iterator[str]:
    """What it may be meant as: as it stands, unhidden, unescaped, decoded, turned around."""
    plain = _unhidden(text)
    for each in dict.fromkeys((text, plain, html.unescape(plain), unquote(plain), plain.replace("\\", ""))):
        yield each
        yield each.replace(" ", "").replace("|", " ")  # s p a c e d, with bars between the words
        yield each[::-1]
        yield codecs.decode(each, "rot13")
    yield from _decoded(plain)


def _unhidden(text: str) -> str:
    tags = "".join(chr(ord(c) - 0xE0000) if 0xE0020 <= ord(c) <= 0xE007E else c for c in text)
    return unicodedata.normalize("NFKC", _HIDDEN.sub("", tags))


def _decoded(text: str) -> Iterator[str]:
    for found in _BASE64.findall(text):
        with suppress(binascii.Error, UnicodeDecodeError):
            yield base64.b64decode(found + "=" * (-len(found) % 4), altchars=b"-_").decode()
    for found in _HEX.findall(text):
        yield bytes.fromhex(found).decode(errors="replace")


def _orders(text: str) -> Iterator[Order]:
    for form in (_ORDER, _ORDER_KO):
        for found in form.finditer(text):
            try:
                args, _ = json.JSONDecoder().raw_decode(text, found.end())
            except ValueError:
                continue
            if isinstance(args, dict):
                yield Order(found[1], _sorted(args).replace(BLANK, SECRET))


def _sorted(args: Any) -> str:
    return json.dumps(args, ensure_ascii=False, sort_keys=True)
