"""What the server and the line do: refusals, errors in the stream, broken connections, silence."""

import gzip
import json
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Literal

from tests.providers.fault import FOR_GOOD, Fault, Spoil, always, byte_by_byte, with_call
from tests.providers.faulty_server import Play
from tests.providers.overflows import OVERFLOWS, Overflow
from tests.providers.protocols import Parts, Said, Wire

# ── refusals ────────────────────────────────────────────────────────────────────────────────────────────────


def _refusal(status: int, kind: str = "some_error", **headers: str) -> Spoil:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda wire, _: Play([wire.complaint(kind)], status=status, headers=named)


def _overflow(overflow: Overflow) -> Fault:
    """For good: what can be shortened is, and asked once more."""
    body = overflow.body if isinstance(overflow.body, str) else json.dumps(overflow.body)
    play = always(Play([body.encode()], status=overflow.status))
    return Fault(f"too long, says {overflow.server}", play, "failed", FOR_GOOD, only=overflow.wire)


def refusals() -> Iterator[Fault]:
    yield Fault("429", _refusal(429))
    yield Fault("429, come back in 7 s", _refusal(429, retry_after="7"), waits=7)
    yield Fault("429, come back in 250 ms", _refusal(429, retry_after_ms="250"))
    yield Fault("429, come back at a time", _refusal(429, retry_after="Mon, 06 Jan 2025 09:00:30 GMT"), waits=20)
    yield Fault("429, come back at once", _refusal(429, retry_after="0"), waits=1)
    no_date = (f"Mon, 06 Jan {'9' * 20} 09:00:00 GMT", f"Mon, 06 Jan 2025 09:00:00 +{'9' * 20}")
    yield Fault("429, come back in the past", _refusal(429, retry_after="Thu, 01 Jan 1970 00:00:00 GMT"), waits=1)
    yield Fault("429, come back in a year that is none", _refusal(429, retry_after=no_date[0]), waits=1)
    yield Fault("429, come back at an hour that is nowhere", _refusal(429, retry_after=no_date[1]), waits=1)
    for absurd in ("-5", "soon", "NaN", "inf", "", "9" * 400, "Mon, 99 Foo 2025 99:99:99 GMT"):
        yield Fault(f"429, come back {absurd[:9]!r}", _refusal(429, retry_after=absurd), waits=1)
    yield Fault("429, come back next month", _refusal(429, retry_after="2592000"), "failed")
    yield Fault("429, come back in the year 9999", _refusal(429, retry_after="1e300"), "failed")
    yield Fault("429 twice", _refusal(429), times=2)
    yield Fault("429 for good", _refusal(429), "failed", FOR_GOOD)
    yield Fault("503, come back in 7 s", _refusal(503, retry_after="7"), waits=7)
    for status in (408, 500, 502, 503, 504, 524, 529):
        yield Fault(f"{status}", _refusal(status))
    for status in (500, 529):
        yield Fault(f"{status} for good", _refusal(status), "failed", FOR_GOOD)
    for status in (400, 401, 402, 403, 404, 307):
        yield Fault(f"{status}", _refusal(status), "failed")  # once: whoever asked again would be answered
    yield Fault("413 for good", _refusal(413), "failed", FOR_GOOD)
    yield from map(_overflow, OVERFLOWS)
    yield Fault("529 of a type", _refusal(529, "overloaded_error"))
    yield Fault("400 in no words", always(Play(status=400)), "failed")
    yield Fault("502 with a page", always(Play([b"<html>Bad gateway</html>"], status=502)))
    yield Fault("500 that is cut", always(Play([b'{"error'], status=500, end="cut")))
    yield Fault("500 that never ends", always(Play([b'{"error'], status=500, end="silence")))
    yield Fault("500 nested deep", always(Play([b'{"error":' + b"[" * 60_000], status=500)))
    yield Fault("500 byte by byte", always(Play([b" "] * 60, status=500, pause=1.0)))
    yield Fault("500 of a megabyte", always(Play([b"x" * 1_000_000], status=500)))
    yield Fault("an error as a success", lambda wire, _: Play([wire.complaint("overloaded_error")]))
    yield Fault("a page", always(Play([b"<html>Welcome</html>"])))
    yield Fault("a page for good", always(Play([b"<html>Welcome</html>"])), "failed", FOR_GOOD)
    yield Fault("JSON in one piece", always(Play([b'{"choices": [], "type": "message"}'])), "failed")
    yield Fault("an empty success", always(Play()))


# ── errors in the stream ────────────────────────────────────────────────────────────────────────────────────


def _error(kind: str | None, where: Literal["first", "mid text", "after"]) -> Spoil:
    def play(wire: Wire, said: Said) -> Play:
        parts = wire.parts(with_call(said))
        before = {
            "first": [*parts.opening],
            "mid text": [*parts.opening, *parts.text[:1]],
            "after": [*parts.opening, *parts.text, *parts.calls[0]],
        }
        return Play([*before[where], wire.error(kind)])

    return play


def errors() -> Iterator[Fault]:
    yield Fault("overloaded at first", _error("overloaded_error", "first"))
    yield Fault("overloaded mid text", _error("overloaded_error", "mid text"))
    yield Fault("overloaded after the tool JSON", _error("overloaded_error", "after"))
    yield Fault("overloaded mid text for good", _error("overloaded_error", "mid text"), "failed", FOR_GOOD)
    yield Fault("limited mid text", _error("rate_limit_error", "mid text"))
    yield Fault("an error nobody knows", _error("out_of_tea", "mid text"))
    yield Fault("an error without words", _error(None, "mid text"))
    yield Fault("a bad request in the stream", _error("invalid_request_error", "first"), "failed")
    yield Fault("a bad key in the stream", _error("authentication_error", "mid text"), "failed")


# ── the line ────────────────────────────────────────────────────────────────────────────────────────────────


def _half(event: bytes) -> bytes:
    return event[: len(event) // 2]


def _inside_a_character(event: bytes) -> bytes:
    return event[: next(at for at, byte in enumerate(event) if byte > 127) + 1] if not event.isascii() else event[:-3]


_PLACES: dict[str, Callable[[Parts], list[bytes]]] = {
    "after the headers": lambda parts: [],
    "after the opening": lambda parts: [*parts.opening],
    "mid text": lambda parts: [*parts.opening, *parts.text[:1], *(_half(each) for each in parts.text[1:2])],
    "in a character": lambda parts: [*parts.opening, *map(_inside_a_character, parts.text[:1])],
    "after the text": lambda parts: [*parts.opening, *parts.text],
    "mid tool JSON": lambda parts: [*parts.opening, *parts.text, *parts.calls[0][:2], _half(parts.calls[0][2])],
    "after the tool JSON": lambda parts: [*parts.opening, *parts.text, *parts.calls[0]],
}


def _up_to(place: str, end: Literal["whole", "cut", "reset", "silence"]) -> Spoil:
    return lambda wire, said: Play(_PLACES[place](wire.parts(with_call(said))), end=end)


def _raw(*pieces: bytes, end: Literal["cut", "reset", "silence"] = "cut") -> Spoil:
    return always(Play(pieces, end=end, raw=True))


def _http(head: bytes, end: Literal["cut", "silence"] = "cut") -> Spoil:
    """The whole answer as it is, behind a head of one's own."""
    return lambda wire, said: Play([head + b"\r\n\r\n" + b"".join(wire.parts(said).events)], end=end, raw=True)


def _with_headers(**headers: str) -> Spoil:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda wire, said: Play(wire.parts(said).events, headers=named)


def _compressed(wire: Wire, said: Said) -> Play:
    return Play([gzip.compress(b"".join(wire.parts(said).events))], headers={"content-encoding": "gzip"})


def _two_responses(wire: Wire, said: Said) -> Play:
    answer = b"".join(wire.parts(Said("아무도 묻지 않았습니다.")).events)
    extra = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(answer), answer)
    mine = b"".join(wire.parts(said).events)
    return Play([b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(mine), mine), extra], raw=True, end="whole")


def _bad_length(wire: Wire, said: Said) -> Play:
    parts = wire.parts(said)
    begun = b"".join((*parts.opening, *parts.text[:1]))
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    return Play([head + b"%x\r\n%b\r\nzz\r\n" % (len(begun), begun)], end="cut", raw=True)


def broken_lines() -> Iterator[Fault]:
    yield Fault("cut before the first byte", _raw())
    yield Fault("reset before the first byte", _raw(end="reset"))
    yield Fault("cut in the status", _raw(b"HTTP/1.1 20"))
    yield Fault("another protocol", _raw(b"SSH-2.0-OpenSSH_9.6\r\n"))
    yield Fault("cut before the first byte for good", _raw(), "failed", FOR_GOOD)
    yield Fault("a chunk of no length", _bad_length)
    yield Fault("a response shorter than it says", _http(b"HTTP/1.1 200 OK\r\ncontent-length: 99999"), "taken")
    yield Fault("a response longer than it says", _http(b"HTTP/1.1 200 OK\r\ncontent-length: 40"))
    yield Fault("a response without a length", _http(b"HTTP/1.0 200 OK"), "taken")
    yield Fault("a hint before the response", _http(b"HTTP/1.1 103 Hint\r\n\r\nHTTP/1.1 200 OK"), "taken")
    yield Fault("a header of 100 kB", _http(b"HTTP/1.1 200 OK\r\nx: " + b"x" * 100_000))
    yield Fault("a header that is none", _http(b"HTTP/1.1 200 OK\r\n\x00\x01: 7"))
    yield Fault("a response nobody asked for", _two_responses, "taken")
    yield Fault(
        "the line closed after the answer", lambda wire, said: Play(wire.parts(said).events, end="closed"), "taken"
    )
    yield Fault("compressed", _compressed, "taken")
    yield Fault("compressed, it says", _with_headers(content_encoding="gzip"))
    yield Fault("of another type", _with_headers(content_type="text/html; charset=nonsense"), "taken")
    for place in _PLACES:
        yield Fault(f"cut {place}", _up_to(place, "cut"))
        yield Fault(f"ended {place}", _up_to(place, "whole"))
    yield Fault("reset mid text", _up_to("mid text", "reset"))
    yield Fault("cut mid text twice", _up_to("mid text", "cut"), times=2)
    yield Fault("cut mid text for good", _up_to("mid text", "cut"), "failed", FOR_GOOD)
    cut = _up_to("mid text", "cut")
    yield Fault("503, then cut mid text", _refusal(503), more=(cut,))
    yield Fault("cut mid text, then 503", cut, more=(_refusal(503),))
    yield Fault("cut mid text, then silence", cut, more=(_up_to("mid tool JSON", "silence"),))
    yield Fault("cut mid text, then 400", cut, "failed", more=(_refusal(400),) * FOR_GOOD)
    yield Fault("cut mid text, then overloaded", cut, "failed", more=(_error("overloaded_error", "first"),) * FOR_GOOD)
    yield Fault("cut mid tool JSON for good", _up_to("mid tool JSON", "cut"), "failed", FOR_GOOD)


# ── silence ─────────────────────────────────────────────────────────────────────────────────────────────────


def _slowly(pieces: Callable[[bytes], Sequence[bytes]]) -> Spoil:
    return lambda wire, said: Play([*chain.from_iterable(pieces(each) for each in wire.parts(said).events)], pause=20.0)


def _held(events: int | None) -> Spoil:
    return lambda wire, said: Play(wire.parts(said).events[:events], end="silence")


def silences() -> Iterator[Fault]:
    yield Fault("silence before the headers", _raw(end="silence"))
    for place in ("after the headers", "mid text", "mid tool JSON", "after the tool JSON"):
        yield Fault(f"silence {place}", _up_to(place, "silence"))
    yield Fault("silence after the headers for good", _up_to("after the headers", "silence"), "failed", FOR_GOOD)
    yield Fault("silence mid text for good", _up_to("mid text", "silence"), "failed", FOR_GOOD)
    yield Fault("the line held after the end", _held(None), "taken")
    yield Fault("the line held without a final event", _held(-1), "taken", only="openai")
    yield Fault("the line held without a final event", _held(-1), only="anthropic")
    yield Fault("a byte every 20 s", _slowly(byte_by_byte), "failed")
    yield Fault("an event every 20 s", _slowly(lambda event: [event]), "taken")
    yield Fault("a comment every 20 s", always(Play([b": wait\n\n"] * 99, pause=20.0)), "failed")
