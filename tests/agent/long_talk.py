"""A conversation near the end of a small window, and a model that condenses it."""

from collections.abc import Sequence

from tests.support.api_rules import violations

from finclaw.agent.window.compaction.summary import BEGIN
from finclaw.errors import ContextTooLong, Overloaded
from finclaw.kernel.chunk import Model, ModelRequest
from finclaw.kernel.message import Message, Source, Text
from finclaw.testing import Reply, fails, reply
from finclaw.testing.clock import EPOCH
from finclaw.transcript.request_sanitizer import sanitize_request

SMALL = Model("scripted", "small", window=8_000, max_output=1_000)


def talked(count: int) -> list[Message]:
    """A long talk: about 75 tokens a message."""
    words = "The order 4711 of 10 AAPL at 187.20 USD was placed on 2025-01-03 and is still open. " * 2
    return [
        Message(f"b{n}", "user" if n % 2 == 0 else "assistant", (Text(f"{n}: {words}"),), Source("user"), EPOCH)
        for n in range(count)
    ]


class Mind:
    """Answers, and condenses when it is asked to. It keeps what it was asked."""

    def __init__(self, *, condenses: bool = True, takes: int | None = None) -> None:
        self.asked: list[ModelRequest] = []
        self.condensed = 0
        self._condenses = condenses
        self._takes = takes

    def __call__(self, request: ModelRequest) -> Reply:
        if BEGIN in request.messages[-1].text:
            self.condensed += 1
            return reply("They spoke about order 4711.") if self._condenses else fails(Overloaded("x"))
        self.asked.append(request)
        if self._takes is not None and len(request.messages) > self._takes:
            return fails(ContextTooLong("too long"))
        return reply("done")


def assert_whole(messages: Sequence[Message]) -> None:
    for rules in ("anthropic", "openai"):
        assert violations(sanitize_request(messages), rules) == ()
