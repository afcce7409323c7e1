"""Courtesy to hosts: few requests to one at a time, and none for a body that has not changed."""

import asyncio
import re
from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from msgspec.structs import replace

from finclaw.fetch.location import Location
from finclaw.kernel.fetch import FetchReply, FetchRequest

_AT_ONCE: Final = 4
_KEPT_BYTES: Final = 8_000_000
_KEPT_REPLY: Final = 1_000_000  # bytes of one reply: a longer one is asked for anew
_KEPT_REPLIES: Final = 500
_KEPT_HEADERS: Final = ("etag", "last-modified")

_VALIDATOR: Final = re.compile(r"[\x20-\x7e]{1,256}")
"""What a stranger has written and is sent back to them."""

_Key = tuple[str, tuple[tuple[str, str], ...]]


class HostSlots:
    """A limit on the requests to one host that run at a time. A host nobody asks holds nothing here."""

    def __init__(self, at_once: int = _AT_ONCE) -> None:
        self._at_once = at_once
        self._slots: dict[tuple[str, str, int], tuple[asyncio.Semaphore, int]] = {}

    @asynccontextmanager
    async def of(self, location: Location) -> AsyncGenerator[None]:
        host = location.origin
        slot, users = self._slots.get(host) or (asyncio.Semaphore(self._at_once), 0)
        self._slots[host] = slot, users + 1
        try:
            async with slot:
                yield
        finally:
            slot, users = self._slots.pop(host)
            if users > 1:
                self._slots[host] = slot, users - 1


class ReplyCache:
    """Replies that their server can confirm, the least recently used forgotten first. Nothing is given unconfirmed."""

    def __init__(self, most_bytes: int = _KEPT_BYTES, most_replies: int = _KEPT_REPLIES) -> None:
        self._most_bytes = most_bytes
        self._most_replies = most_replies
        self._replies: OrderedDict[_Key, FetchReply] = OrderedDict()
        self._bytes = 0

    def find(self, location: Location, request: FetchRequest) -> FetchReply | None:
        key = _key(location, request)
        reply = self._replies.get(key)
        if reply is None or request.method != "GET" or request.body or len(reply.body) > request.limits.body:
            return None
        self._replies.move_to_end(key)
        return reply

    def keep(self, location: Location, request: FetchRequest, reply: FetchReply) -> None:
        if request.method != "GET" or request.body or reply.status != 200:
            return
        key = _key(location, request)
        self._forget(key)
        is_confirmable = validators(reply) and "no-store" not in reply.headers.get("cache-control", "").lower()
        if not is_confirmable or reply.truncated or len(reply.body) > _KEPT_REPLY:
            return
        headers = {name: reply.headers[name] for name in _KEPT_HEADERS if name in reply.headers}
        self._replies[key] = reply = replace(reply, headers=headers)
        self._bytes += _size(key, reply)
        while self._bytes > self._most_bytes or len(self._replies) > self._most_replies:
            self._forget(next(iter(self._replies)))

    def _forget(self, key: _Key) -> None:
        reply = self._replies.pop(key, None)
        if reply is not None:
            self._bytes -= _size(key, reply)


def _size(key: _Key, reply: FetchReply) -> int:
    address, asked = key
    texts = (
        address,
        reply.url,
        reply.media_type,
        *(text for pair in (*asked, *reply.headers.items()) for text in pair),
    )
    return len(reply.body) + sum(map(len, texts))


def validators(reply: FetchReply | None) -> dict[str, str]:
    """Headers that ask whether a cached reply still holds. Empty when its server gave nothing to ask by."""
    if reply is None:
        return {}
    asked = {
        "If-None-Match": reply.headers.get("etag", ""),
        "If-Modified-Since": reply.headers.get("last-modified", ""),
    }
    return {name: value for name, value in asked.items() if _VALIDATOR.fullmatch(value)}


def _key(location: Location, request: FetchRequest) -> _Key:
    wanted = ("accept", ", ".join(request.accept))
    return str(location), (wanted, *sorted((name.lower(), value) for name, value in request.headers.items()))
