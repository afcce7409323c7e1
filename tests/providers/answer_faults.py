"""What the answer itself does: how its events are written, what stands in them, what it asks for."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain

from tests.providers.fault import EXTRA, FOR_GOOD, Fault, Spoil, always, byte_by_byte
from tests.providers.faulty_server import Play
from tests.providers.protocols import Call, Reason, Said, Wire

# ── how it is written ───────────────────────────────────────────────────────────────────────────────────────


def _written(change: Callable[[bytes], bytes]) -> Spoil:
    return lambda wire, said: Play([change(each) for each in wire.parts(said).events])


def _before_each(event: Callable[[Wire], bytes]) -> Spoil:
    return lambda wire, said: Play([event(wire) + each for each in wire.parts(said).events])


def _split(wire: Wire, said: Said) -> Play:
    return Play(byte_by_byte(b"".join(wire.parts(said).events)))


def _together(wire: Wire, said: Said) -> Play:
    return Play(wire.parts(said).events, hurry=True)


def _in_lines(event: bytes) -> bytes:
    return event.replace(b', "', b',\ndata:"')


def _mixed_ends(event: bytes) -> bytes:
    return event.replace(b"\n", b"\r\n", 1).replace(b"\n\n", b"\r\r\n")


def forms() -> Iterator[Fault]:
    yield Fault("unknown events", _before_each(lambda wire: wire.unknown()), "taken")
    yield Fault("comments", _before_each(lambda _: b": ping\n\n:\n\n"), "taken")
    yield Fault("events without data", _before_each(lambda _: b"event: ping\n\nid: 7\nretry: 10\n\n"), "taken")
    yield Fault("CR/LF", _written(lambda event: event.replace(b"\n", b"\r\n")), "taken")
    yield Fault("CR", _written(lambda event: event.replace(b"\n", b"\r")), "taken")
    yield Fault("CR and LF mixed", _written(_mixed_ends), "taken")
    yield Fault("data in many lines", _written(_in_lines), "taken")
    yield Fault("no space after the colon", _written(lambda event: event.replace(b"data: ", b"data:")), "taken")
    yield Fault("ids and other fields", _written(lambda event: b"id: 1\nfoo: bar\nretry: 5\n" + event), "taken")
    yield Fault("a byte order mark", _marked, "taken")
    yield Fault("every byte by itself", _split, "taken")
    yield Fault("all at once", _together, "taken")
    yield Fault("escaped characters", _escaped, "taken")
    yield Fault("an event of 10 MB", _large(10_000_000))
    yield Fault("an event of 10 MB for good", _large(10_000_000), "failed", FOR_GOOD)
    yield Fault("an event of 5 MB", _large(5_000_000), "taken")
    yield Fault("a line of 10 MB without end", _endless)
    yield Fault("in one piece", _in_one_piece(_message), "taken", only="anthropic")
    yield Fault("in one piece", _in_one_piece(_completion), "taken", only="openai")
    yield Fault("half of one piece", _in_one_piece(_message, share=0.5), "failed", FOR_GOOD, only="anthropic")
    yield Fault("half of one piece", _in_one_piece(_completion, share=0.5), "failed", FOR_GOOD, only="openai")


def _in_one_piece(write: Callable[[Said], object], share: float = 1.0) -> Spoil:
    """As a server answers that does not stream, or a proxy that gathers what it should pass on."""

    def spoil(wire: Wire, said: Said) -> Play:
        body = json.dumps(write(said), ensure_ascii=False).encode()
        return Play([body[: int(len(body) * share)]], headers={"content-type": "application/json"})

    return spoil


def _message(said: Said) -> object:
    calls = [
        {"type": "tool_use", "id": each.id, "name": each.name, "input": json.loads(each.args)} for each in said.calls
    ]
    content = [{"type": "text", "text": said.text}, *calls]
    reason = "tool_use" if calls else "end_turn"
    return {
        "type": "message",
        "content": content,
        "stop_reason": reason,
        "usage": {"input_tokens": 9, "output_tokens": 3},
    }


def _completion(said: Said) -> object:
    calls = [{"id": each.id, "function": {"name": each.name, "arguments": each.args}} for each in said.calls]
    message = {"role": "assistant", "content": said.text, "tool_calls": calls}
    return {"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}]}


def _endless(wire: Wire, said: Said) -> Play:
    return Play([b"data: " + b"x" * 10_000_000], end="silence")


def _marked(wire: Wire, said: Said) -> Play:
    return Play([b"\xef\xbb\xbf", *wire.parts(said).events])


def _escaped(wire: Wire, said: Said) -> Play:
    def escape(event: bytes) -> bytes:
        return "".join(each if each.isascii() else json.dumps(each)[1:-1] for each in event.decode()).encode()

    return Play([escape(each) for each in wire.parts(said).events])


def _large(size: int) -> Spoil:
    return _then(lambda wire: wire.unknown(f', "more": "{"x" * size}"'))


def _then(event: Callable[[Wire], bytes], *, after: bool = False) -> Spoil:
    """The answer with this event behind the first words, or behind everything."""

    def play(wire: Wire, said: Said) -> Play:
        events = wire.parts(said).events
        place = len(events) if after else 2
        return Play([*events[:place], event(wire), *events[place:]])

    return play


# ── what is written ─────────────────────────────────────────────────────────────────────────────────────────


def contents() -> Iterator[Fault]:
    yield Fault("no final event", lambda wire, said: Play(wire.parts(said).events[:-1]), "taken")
    yield Fault("no final event, cut", _unfinished, "taken", only="openai")
    yield Fault("no final event, cut", _unfinished, only="anthropic")
    yield Fault("cut behind the end", lambda wire, said: Play(wire.parts(said).events, end="cut"), "taken")
    yield Fault("two final events", lambda wire, said: _twice(wire, said, 1), "taken")
    yield Fault("two endings", lambda wire, said: _twice(wire, said, 2), "taken")
    yield Fault("words behind the end", _then(lambda wire: wire.say("더 있습니다"), after=True), "taken")
    yield Fault("an error behind the end", _then(lambda wire: wire.error("overloaded_error"), after=True), "taken")
    yield Fault("no opening", lambda wire, said: Play(wire.parts(said).events[1:]), "taken")
    yield Fault("two openings", lambda wire, said: Play([*wire.parts(said).opening, *wire.parts(said).events]), "taken")
    yield Fault("duplicate keys", _then(lambda wire: wire.unknown(', "sky": "red", "sky": 7')), "taken")
    yield Fault("known keys twice", _written(_with_keys_before), "taken")
    yield Fault("tokens that are NaN", _written(lambda event: event.replace(_TOKENS, b'_tokens": NaN')), "taken")
    yield Fault("tokens below zero", _written(lambda event: event.replace(_TOKENS, b'_tokens": -99999')), "taken")
    yield Fault("tokens with a point", _written(lambda event: event.replace(_TOKENS, b'_tokens": 20.0')), "taken")
    yield Fault("NaN", _then(lambda wire: wire.unknown(', "sky": NaN, "sea": -Infinity')), "taken")
    yield Fault("half a character", _then(lambda wire: wire.unknown(', "sky": "\\ud83d"')), "taken")
    yield Fault("thinking", _then(lambda wire: wire.think("흠, ")), "taken")
    yield Fault("cut while thinking", _thinking)
    yield Fault("no JSON", _then(lambda _: b"data: {sky: blue}\n\n"))
    yield Fault("JSON of another kind", _then(lambda _: b"data: [7]\n\n"))
    yield Fault("bytes that are no text", _then(lambda wire: wire.say("@").replace(b"@", b"\xff\xfe")))
    yield Fault("bytes that are no text, unread", _then(lambda _: b'data: {"sky": "\xff\xfe"}\n\n'), "taken")
    yield Fault("no JSON for good", always(Play([b"data: nonsense\n\n"])), "failed", FOR_GOOD)
    yield Fault("nested deep", _then(lambda wire: wire.unknown(', "sky": ' + "[" * 50_000 + "]" * 50_000)))


_TOKENS = b'_tokens": 20'


def _with_keys_before(event: bytes) -> bytes:
    return event.replace(b"data: {", b'data: {"type": "x", "choices": [], "index": 7, "usage": null, ')


def _unfinished(wire: Wire, said: Said) -> Play:
    return Play(wire.parts(said).events[:-1], end="cut")


def _twice(wire: Wire, said: Said, events: int) -> Play:
    answer = wire.parts(said).events
    return Play([*answer, *answer[-events:]])


def _thinking(wire: Wire, said: Said) -> Play:
    return Play([*wire.parts(said).opening, wire.think("흠, 어디 보자")], end="cut")


# ── what it asks for ────────────────────────────────────────────────────────────────────────────────────────


def _asking(*calls: Call, reason: Reason | None = None) -> Spoil:
    return lambda wire, said: Play(wire.parts(replace(said, calls=calls), reason).events)


def _extra(**fields: str) -> Call:
    return replace(EXTRA, **fields)


RAN = (("look", "extra"),)
RAN_TWICE = (("look", "extra"), ("look", "other"))
OTHER = _extra(id="call_other", args='{"text": "other"}')


def _order(text: str) -> Call:
    return _extra(name="order", args=f'{{"text": "{text}"}}')


def _in_turns(wire: Wire, said: Said) -> Play:
    parts = wire.parts(replace(said, calls=(EXTRA, OTHER)))
    mixed = chain.from_iterable(zip(*parts.calls, strict=True))
    return Play([*parts.opening, *parts.text, *mixed, *parts.ending])


def _nothing(wire: Wire, reason: Reason, *events: bytes) -> Play:
    parts = wire.parts(Said(), reason)
    return Play([*parts.opening, *events, *parts.ending])


def calls() -> Iterator[Fault]:
    def told(name: str, *calls: Call, runs: tuple[tuple[str, str], ...] = (), reason: Reason | None = None) -> Fault:
        return Fault(name, _asking(*calls, reason=reason), "told", runs=runs)

    yield told("an unknown tool", _extra(name="no_such_tool"))
    yield told("a tool of an illegal name", _extra(name="no such tool! 🙂"))
    yield told("a tool of a long name", _extra(name="n" * 300))
    yield told("a tool without a name", _extra(name=""))
    yield told("a call", EXTRA, runs=RAN)
    yield told("two calls", EXTRA, OTHER, runs=RAN_TWICE)
    yield told("an id twice in an answer", EXTRA, replace(OTHER, id=EXTRA.id), runs=RAN_TWICE)
    yield told("an id of an earlier call", _extra(id="call_1"), runs=RAN)
    yield told("a call without an id", _extra(id=""), runs=RAN)
    yield told("a call with an illegal id", _extra(id="functions.look:0 🙂"), runs=RAN)
    yield told("a call with a long id", _extra(id="i" * 200), runs=RAN)
    yield told("arguments twice", _extra(args='{"text": "x", "text": "extra"}'), runs=RAN)
    yield told("arguments with NaN", _extra(args='{"text": NaN}'))
    yield told("arguments nested deep", _extra(args='{"text": ' + "[" * 50_000 + "]" * 50_000 + "}"))
    yield told("arguments that are a list", _extra(args='["extra"]'))
    yield told("arguments of a wrong type", _extra(args='{"text": {"text": "extra"}}'))
    yield told("arguments nobody knows", _extra(args='{"texts": "extra"}'))
    yield told("arguments that are cut", _extra(args='{"text": "ext'))
    yield told("arguments that go on", _extra(args='{"text": "extra"}{"text": "extra"}'))
    yield told("a call cut by the limit", _extra(args='{"text": "ext'), reason="max_tokens")
    yield told("a call cut by the limit at once", _extra(args=""), reason="max_tokens")
    yield told("an order cut by the limit", _extra(name="order", args='{"text": "ext'), reason="max_tokens")
    yield told("an order with the id of an earlier one", _extra(name="order", id="call_2"), runs=(("order", "extra"),))
    yield told("two orders of one id", _order("extra"), _order("other"), runs=(("order", "extra"), ("order", "other")))
    yield Fault("calls in turns", _in_turns, "told", runs=RAN_TWICE)
    yield told("a call with the reason of a text", EXTRA, runs=RAN, reason="end")
    yield Fault("tool_use without a call", _asking(reason="tool_use"), "ended")
    yield Fault("tool_use without a call or a word", lambda wire, _: _nothing(wire, "tool_use"), "wordless")
    yield Fault("nothing at all", lambda wire, _: _nothing(wire, "end"), "wordless")
    yield Fault("thinking and nothing else", lambda wire, _: _nothing(wire, "end", wire.think("흠")), "wordless")
    yield Fault("words cut by the limit", _asking(reason="max_tokens"), "cut")
    yield Fault("a refusal to answer", _asking(reason="refusal"), "ended")
