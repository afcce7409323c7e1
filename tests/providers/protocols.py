"""What a model says, as both protocols write it, and what their servers would refuse."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from tests.providers import anthropic_streams as anthropic
from tests.providers import openai_streams as openai

from finclaw.kernel.port import Clock, Provider
from finclaw.providers.anthropic.provider import AnthropicProvider
from finclaw.providers.openai.provider import OpenAIProvider
from finclaw.redaction import Secret

Reason = Literal["end", "tool_use", "max_tokens", "refusal"]
Json = dict[str, Any]


@dataclass(frozen=True)
class Call:
    id: str
    name: str
    args: str
    """As JSON, or as what should have been JSON."""


@dataclass(frozen=True)
class Said:
    """One answer of the model."""

    text: str = ""
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True)
class Parts:
    """The events of one answer, in order."""

    opening: Sequence[bytes]
    text: Sequence[bytes]
    calls: Sequence[Sequence[bytes]]
    """For each call its start, its arguments in two pieces, and its end where the protocol has one."""
    ending: Sequence[bytes]
    """Why it stopped, and the mark of the end."""

    @property
    def events(self) -> list[bytes]:
        return [*self.opening, *self.text, *(event for call in self.calls for event in call), *self.ending]


class Wire(Protocol):
    """A protocol, from the server's side."""

    name: Literal["anthropic", "openai"]

    def provider(self, url: str, clock: Clock) -> Provider: ...
    def parts(self, said: Said, reason: Reason | None = None) -> Parts: ...
    def say(self, text: str) -> bytes: ...
    def think(self, text: str) -> bytes: ...
    def unknown(self, more: str = "") -> bytes: ...
    def error(self, kind: str | None) -> bytes: ...
    def complaint(self, kind: str) -> bytes: ...
    def conversation(self, body: Json) -> Sequence[Json]: ...
    def words(self, message: Json) -> str: ...
    def refuses(self, body: Json) -> Iterator[str]: ...


def _thirds(text: str) -> list[str]:
    size = max(1, -(-len(text) // 3))
    return [text[at : at + size] for at in range(0, len(text), size)]


def _halves(text: str) -> tuple[str, str]:
    return text[: len(text) // 2], text[len(text) // 2 :]


def _reason(said: Said) -> Reason:
    return "tool_use" if said.calls else "end"


def _without_name(event: bytes) -> bytes:
    return event.partition(b"data: ")[2].strip()


class Anthropic:
    name: Literal["anthropic", "openai"] = "anthropic"

    def provider(self, url: str, clock: Clock) -> Provider:
        return AnthropicProvider(url, Secret("key"), clock=clock)

    def parts(self, said: Said, reason: Reason | None = None) -> Parts:
        why = {"end": "end_turn"}.get(reason or _reason(said), reason or _reason(said))
        text = [anthropic.say(piece) for piece in _thirds(said.text)]
        if text:
            text = [anthropic.block(0, type="text", text="") + text[0], *text[1:-1], text[-1] + anthropic.stop(0)]
        calls = [self._call(place, call) for place, call in enumerate(said.calls, start=1)]
        return Parts([anthropic.begin()], text, calls, [anthropic.why(why), anthropic.event("message_stop")])

    @staticmethod
    def _call(place: int, call: Call) -> list[bytes]:
        first, second = _halves(call.args)
        given = [anthropic.given(first, place), anthropic.given(second, place)]
        return [anthropic.call(place, call.id, call.name), *given, anthropic.stop(place)]

    def say(self, text: str) -> bytes:
        return anthropic.say(text)

    def think(self, text: str) -> bytes:
        return anthropic.block(7, type="thinking", thinking=text, signature="")

    def unknown(self, more: str = "") -> bytes:
        return f'event: weather\ndata: {{"type": "weather", "sky": "blue"{more}}}\n\n'.encode()

    def error(self, kind: str | None) -> bytes:
        return anthropic.event("error", error={"type": kind, "message": "words for people"} if kind else {})

    def complaint(self, kind: str) -> bytes:
        return _without_name(self.error(kind))

    def conversation(self, body: Json) -> Sequence[Json]:
        return body["messages"]

    def words(self, message: Json) -> str:
        return "".join(block["text"] for block in message["content"] if block["type"] == "text")

    def refuses(self, body: Json) -> Iterator[str]:
        messages: list[Json] = body["messages"]
        if [each["role"] for each in messages] != [("user", "assistant")[at % 2] for at in range(len(messages))]:
            yield f"the roles are {[each['role'] for each in messages]}"
        seen: set[str] = set()
        waiting: list[str] = []
        for message in messages:
            blocks: list[Json] = message["content"]
            answered = [block["tool_use_id"] for block in blocks[: len(waiting)] if block["type"] == "tool_result"]
            results = [block for block in blocks if block["type"] == "tool_result"]
            if sorted(answered) != sorted(waiting) or len(results) != len(waiting):
                yield f"{waiting} wait for a result, and {answered} get one"
            waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
            if not blocks or any(block["type"] == "text" and not block["text"].strip() for block in blocks):
                yield "a message or a text is empty"
            if seen & {*waiting} or len({*waiting}) < len(waiting):
                yield f"{waiting} are not all new ids"
            seen.update(waiting)
        if waiting:
            yield f"{waiting} have no result"


class OpenAI:
    name: Literal["anthropic", "openai"] = "openai"

    def provider(self, url: str, clock: Clock) -> Provider:
        return OpenAIProvider(f"{url}/v1", Secret("key"), clock=clock)

    def parts(self, said: Said, reason: Reason | None = None) -> Parts:
        whys = {"end": "stop", "tool_use": "tool_calls", "max_tokens": "length", "refusal": "content_filter"}
        opening = openai.event(openai.choice(role="assistant", content=""))
        text = [openai.say(piece) for piece in _thirds(said.text)]
        calls = [self._call(place, call) for place, call in enumerate(said.calls)]
        why = openai.finish(whys[reason or _reason(said)])
        return Parts([opening], text, calls, [why + openai.usage(9, 20), openai.DONE])

    @staticmethod
    def _call(place: int, call: Call) -> list[bytes]:
        first, second = _halves(call.args)
        start = openai.call(place, id=call.id, name=call.name, args="")
        return [openai.ask(start), *(openai.ask(openai.call(place, args=each)) for each in (first, second))]

    def say(self, text: str) -> bytes:
        return openai.say(text)

    def think(self, text: str) -> bytes:
        return openai.event(openai.choice(reasoning_content=text))

    def unknown(self, more: str = "") -> bytes:
        return f'event: weather\ndata: {{"object": "weather", "sky": "blue"{more}}}\n\n'.encode()

    def error(self, kind: str | None) -> bytes:
        return openai.data({"error": {"type": kind, "code": None, "message": "words for people"}})

    def complaint(self, kind: str) -> bytes:
        return _without_name(self.error(kind))

    def conversation(self, body: Json) -> Sequence[Json]:
        return [message for message in body["messages"] if message["role"] != "system"]

    def words(self, message: Json) -> str:
        return message["content"] or ""

    def refuses(self, body: Json) -> Iterator[str]:
        waiting: list[str] = []
        for message in self.conversation(body):
            if message["role"] == "tool":
                if message["tool_call_id"] not in waiting:
                    yield f"a result of {message['tool_call_id']}, which waits for none"
                waiting = [each for each in waiting if each != message["tool_call_id"]]
                continue
            if waiting:
                yield f"{waiting} have no result"
            calls: list[Json] = message.get("tool_calls", [])
            waiting = [call["id"] for call in calls]
            if len({*waiting}) < len(waiting):
                yield f"{waiting} are not all different"
            if not all(isinstance(json.loads(call["function"]["arguments"]), dict) for call in calls):
                yield "arguments that are no object"
            if not calls and not self.words(message).strip():
                yield "a message is empty"
        if waiting:
            yield f"{waiting} have no result"


WIRES: Sequence[Wire] = (Anthropic(), OpenAI())
