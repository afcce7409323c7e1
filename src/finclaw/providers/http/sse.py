"""A parser of server-sent events. Characters are never looked at, so a read may end in the middle of one."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import isfinite
from typing import Any, Final, TypeVar, cast

import msgspec

from finclaw.errors import ProviderError, StreamCut
from finclaw.kernel.chunk import Chunk, TextDelta
from finclaw.text import fix_surrogates

T = TypeVar("T")

LONGEST_EVENT: Final = 8_000_000  # bytes; a server may never end its event

_MARK: Final = b"\xef\xbb\xbf"  # a stream may begin with the byte order mark

_NAMED: Final = re.compile(rb"^event: (.*)\ndata: (.*)\n\n", re.MULTILINE)
"""An event as Anthropic's server writes it."""
_BARE: Final = re.compile(rb"^data: (.*)\n\n", re.MULTILINE)  # and as OpenAI's

Event = tuple[bytes, bytes]  # its name, often empty, and its data


class EventReader:
    """A parser: bytes in as they come, whole events out. Raises StreamCut for one that is too long to be meant."""

    def __init__(self, longest: int = LONGEST_EVENT) -> None:
        self._longest = longest
        self._waiting: list[bytes] = []  # the pieces of an event that has not ended
        self._size = 0
        self._last = b""  # with the next byte it may be the end of an event
        self._return = False  # whether a line feed belongs to it is not known yet
        self._start: bytes | None = b""  # the first bytes, which may become the mark

    def feed(self, data: bytes) -> list[Event]:
        if self._start is not None:
            data = self._without_mark(self._start + data)
        if self._return or b"\r" in data:
            data = self._plain_ends(data)
        if b"\n\n" not in data and not (self._last == b"\n" and data.startswith(b"\n")):
            if data:
                self._wait_for_more(data)
            return []
        if self._waiting:
            self._waiting.append(data)
            data = b"".join(self._waiting)
        if len(data) <= self._longest and (alike := _all_alike(data)):
            read, rest = alike
        else:
            *events, rest = data.split(b"\n\n")
            if len(data) > self._longest:
                events, rest = self._before_too_long(events, rest)
            read = [each for event in events if (each := _read(event)) is not None]
        self._waiting = [rest] if rest else []
        self._size = len(rest)
        self._last = rest[-1:]
        return read

    def _wait_for_more(self, data: bytes) -> None:
        self._waiting.append(data)
        self._last = data[-1:]
        self._size += len(data)
        if self._size > self._longest:
            raise StreamCut(f"an event of more than {self._longest:,} bytes was given up")

    def _before_too_long(self, events: list[bytes], rest: bytes) -> tuple[list[bytes], bytes]:
        """The events before the first that is too long; that one waits, and the next byte or none gives it up."""
        place = next((at for at, event in enumerate(events) if len(event) > self._longest), None)
        if place is None:
            return events, rest
        if place == 0:
            raise StreamCut(f"an event of more than {self._longest:,} bytes was given up")
        return events[:place], events[place]

    def _without_mark(self, start: bytes) -> bytes:
        if len(start) < len(_MARK) and _MARK.startswith(start):
            self._start = start
            return b""
        self._start = None
        return start.removeprefix(_MARK)

    def _plain_ends(self, data: bytes) -> bytes:
        """All three kinds of line end as line feeds. A carriage return at the end waits for what follows it."""
        if self._return:
            data = b"\r" + data
        self._return = data.endswith(b"\r")
        if self._return:
            data = data[:-1]
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _all_alike(data: bytes) -> tuple[list[Event], bytes] | None:
    """Find events in one go where all are written as usual, which is when no line is left over."""
    end = data.rindex(b"\n\n") + 2
    if data.startswith(b"event: "):
        events = _NAMED.findall(data, 0, end)
        lines = 3
    else:
        events = [(b"", each) for each in _BARE.findall(data, 0, end)]
        lines = 2
    if len(events) * lines != data.count(b"\n", 0, end):
        return None
    return events, data[end:]


def _read(event: bytes) -> Event | None:
    """None for comments and events without any data."""
    name = b""
    data = list[bytes]()
    for line in event.split(b"\n"):
        field, _, value = line.partition(b":")
        if field == b"data":
            data.append(value.removeprefix(b" "))
        elif field == b"event":
            name = value.removeprefix(b" ")
    if not data:
        return None
    return name, b"\n".join(data)


# ── several events at once ──────────────────────────────────────────────────────────────────────────────────
# Those that came in one read are decoded in one go, and their words passed on in one piece: whoever follows an answer
# gains nothing from fifty pieces at once.


def decode_all(decode: Callable[[bytes], T], events: Sequence[Event]) -> list[T] | None:
    """The data of several events; None when they have to be looked at one by one, for one cannot be read as it is."""
    try:
        return [decode(data) for _, data in events]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def join_text_deltas(chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """The same chunks, with neighbouring text of one block joined. What stands before an error comes before it."""
    words: list[str] = []
    index = 0
    try:
        for chunk in chunks:
            if isinstance(chunk, TextDelta) and (not words or chunk.index == index):
                words.append(chunk.text)
                index = chunk.index
                continue
            if words:
                yield TextDelta("".join(words), index)
                words = []
            if isinstance(chunk, TextDelta):
                words = [chunk.text]
                index = chunk.index
            else:
                yield chunk
    except ProviderError:
        if words:
            yield TextDelta("".join(words), index)
        raise
    if words:
        yield TextDelta("".join(words), index)


# ── loose JSON ──────────────────────────────────────────────────────────────────────────────────────────────

_LONGEST_INTEGER = 1_000
_Path = tuple[str | int, ...]


class LenientJson:
    """A parser of the loose events of one answer. It has state: servers may cut a text in the middle of a character."""

    def __init__(self) -> None:
        self._halves: dict[_Path, str] = {}  # of cut characters, by their path

    def to_strict_json(self, data: bytes) -> bytes:
        """Raises ValueError. Half a character at the end of a text waits for its other half in the next loose event."""
        waiting = self._halves
        self._halves = {}
        loose = json.loads(data, parse_constant=lambda _: None, parse_int=_integer)  # NaN and infinities are null
        read = self._join_halves(loose, (), waiting)
        return fix_surrogates(json.dumps(read, ensure_ascii=False)).encode()

    def decode(self, decode: Callable[[bytes], T], data: bytes, name: str) -> T:
        """Raises StreamCut. `name` is the provider's."""
        try:
            return decode(self.to_strict_json(data))
        except (ValueError, RecursionError) as error:  # what msgspec raises is a ValueError, too
            raise StreamCut(f"{name} sent an event that cannot be read: {error}") from error

    def _join_halves(self, value: Any, path: _Path, waiting: dict[_Path, str]) -> Any:
        match value:
            case str(text):
                return self._hold_back_half(waiting.get(path, "") + text, path)
            case dict():
                fields = cast(dict[str, Any], value)
                return {name: self._join_halves(each, (*path, name), waiting) for name, each in fields.items()}
            case list():
                items = cast(list[Any], value)
                return [self._join_halves(each, (*path, place), waiting) for place, each in enumerate(items)]
            case float() if not isfinite(value):  # 1e400
                return None
            case _:
                return value

    def _hold_back_half(self, text: str, path: _Path) -> str:
        if not "\ud800" <= text[-1:] <= "\udbff":
            return text
        self._halves[path] = text[-1]
        return text[:-1]


def _integer(text: str) -> int | None:
    return int(text) if len(text) <= _LONGEST_INTEGER else None
