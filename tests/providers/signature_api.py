"""A server whose thoughts are tied to all that stood before them, by the rules that the Messages API documents.

It remembers of each thought the tools, the prompt and the messages before it, without thoughts and marks, and which
thought came last before it. A thought that comes back behind anything else is refused; one of another model is passed
over. ThinkingField may be left out, but not in between.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from aiohttp import web
from tests.providers.anthropic_streams import begin, block, call, delta, end, given, say, stop

Json = dict[str, Any]
THOUGHTS = ("thinking", "redacted_thinking")


class Bond(NamedTuple):
    model: str
    before: str
    former: str | None


@dataclass
class BoundApi:
    bonds: dict[str, Bond] = field(default_factory=dict[str, Bond])
    refused: list[str] = field(default_factory=list[str])
    bodies: list[Json] = field(default_factory=list[Json])
    replayed: list[list[str]] = field(default_factory=list[list[str]])
    """The signatures that came back in each request."""
    strange: list[str] = field(default_factory=list[str])
    """Those of another model that came to one which looks at prefixes: no error, but nothing is known of it."""
    redacted: bool = False
    tool: str = "market__quote"
    """What it calls."""
    down: Callable[[Json], bool] = lambda said: False
    """Whether this request is not answered."""
    refuses: Callable[[Json], bool] = lambda said: False
    """Whether this request is refused for some other reason."""
    distrusts: Callable[[Json], bool] = lambda said: False
    """Whether every thought in this request is refused, whatever stood before it."""
    older: frozenset[str] = frozenset(("claude-opus-5",))
    """Models that look at no prefix."""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        said = json.loads(await request.read())
        if self.down(said):
            return _error(429, "rate_limit_error", "Too many", **{"retry-after": "600"})
        signatures, complaint = self._read(said)
        complaint = "No." if self.refuses(said) else complaint
        self.bodies.append(said)
        self.replayed.append(signatures)
        if complaint:
            self.refused.append(complaint)
            return _error(400, "invalid_request_error", complaint)
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        await response.write(self._spoken(said, signatures[-1] if signatures else None))
        return response

    def _read(self, said: Json) -> tuple[list[str], str]:
        """The thoughts that this model can read, and what is wrong with the first that is not as it was."""
        read: list[str] = []
        for place, message in enumerate(said["messages"]):
            for at, each in enumerate(message["content"]):
                if each["type"] not in THOUGHTS:
                    continue
                signature = each.get("signature") or each["data"]
                bond = self.bonds[signature]
                if bond.model != said["model"]:
                    self.strange += [signature] if said["model"] not in self.older else []
                    continue
                before = prefix(said, [*said["messages"][:place], {**message, "content": message["content"][:at]}])
                is_other = bond.before != before or (bool(read) and bond.former != read[-1])
                if self.distrusts(said) or (is_other and said["model"] not in self.older):
                    return read, f"messages.{place}.content.{at}: The block is bound to a different conversation."
                read.append(signature)
        return read, ""

    def _spoken(self, said: Json, former: str | None) -> bytes:
        """It thinks and calls until three results are there, and then it thinks and tells."""
        name = f"signature-{len(self.bonds)}"
        self.bonds[name] = Bond(said["model"], prefix(said, said["messages"]), former)
        results = [each for each in said["messages"][-1]["content"] if each["type"] == "tool_result"]
        done = not said.get("tools") or (results and "last" in results[-1]["content"])
        speech = block(1, type="text", text="") + say("so", 1) + stop(1)
        if not done:
            speech += call(2, f"call-{len(self.bonds)}", self.tool) + given(f'{{"text":"{name}"}}', 2) + stop(2)
        used = len(json.dumps(said, ensure_ascii=False)) // 2
        return begin(input_tokens=used) + self._thought(name) + speech + end("end_turn" if done else "tool_use")

    def _thought(self, name: str) -> bytes:
        if self.redacted:
            return block(0, type="redacted_thinking", data=name) + stop(0)
        signed = delta(0, type="signature_delta", signature=name)
        return block(0, type="thinking", thinking="", signature="") + signed + stop(0)


def prefix(said: Json, messages: list[Json]) -> str:
    kept = [{**each, "content": [_plain(part) for part in each["content"]]} for each in messages]
    for each in kept:
        each["content"] = [part for part in each["content"] if part["type"] not in THOUGHTS]
    shown = [_plain(each) for each in (*said.get("tools", ()), *said.get("system", ()))]
    return json.dumps([shown, [each for each in kept if each["content"]]], sort_keys=True)


def _plain(part: Json) -> Json:
    return {key: value for key, value in part.items() if key != "cache_control"}


def _error(status: int, kind: str, message: str, **headers: str) -> web.Response:
    said = {"type": "error", "error": {"type": kind, "message": message}}
    return web.json_response(said, status=status, headers=headers)
