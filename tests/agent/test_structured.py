"""Answers that code can read: what is asked, what is sent back once, and what it costs."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from msgspec import Struct
from tests.agent.bench import Bench

from finclaw.agent.model.failover import ModelRoute
from finclaw.agent.model.structured import with_root
from finclaw.errors import BadRequest, ContextTooLong, Overloaded, ProviderError, TurnStopped, UnfitAnswer
from finclaw.kernel.chunk import Model, ModelRequest, Usage
from finclaw.kernel.envelope import TurnOptions
from finclaw.kernel.event import TextStreamed
from finclaw.kernel.port import ToolOutput, ToolScope
from finclaw.testing import ScriptedProvider, call, delay, fails, reply
from finclaw.tools.define import tool

TREND: dict[str, Any] = {
    "type": "object",
    "properties": {"up": {"type": "boolean"}, "by": {"type": "number", "minimum": 0, "default": 0}},
    "required": ["up"],
}


class Asks:
    """A tool that asks, and remembers what came of it."""

    def __init__(self, schema: Mapping[str, Any] = TREND) -> None:
        self.answer: dict[str, Any] | None = None
        self.error: Exception | None = None

        @tool("trend", "Tells the trend.")
        async def trend(args: Struct, scope: ToolScope) -> ToolOutput:
            assert scope.ask is not None
            try:
                self.answer = await scope.ask("Is it up?", schema)
            except Exception as error:
                self.error = error
                raise
            return ToolOutput(f"{self.answer}")

        self.tool = trend


def run(asks: Asks, *answers: Any, **parts: Any) -> tuple[Bench, list[ModelRequest]]:
    bench = Bench(tools=[asks.tool], **parts)
    result = bench.run(reply(call("trend"), usage=Usage(1, 1)), *answers, reply("done", usage=Usage(1, 1)))
    assert result.text == "done"
    assert bench.provider is not None
    return bench, bench.provider.requests[1:-1]


@pytest.mark.spec("X-10")
def test_an_answer_that_fits_comes_back_with_its_defaults() -> None:
    asks = Asks()
    bench, (asked,) = run(asks, reply('{"up": true}', usage=Usage(10, 5)))
    assert asks.answer == {"up": True, "by": 0}
    assert asked.answer_schema is not None
    assert (asked.answer_schema.name, asked.answer_schema.schema) == ("trend", TREND)
    assert [each.text for each in asked.messages] == ["Is it up?"]
    assert '"up"' in asked.system
    assert not asked.tools
    assert bench.results[0].content == "{'up': True, 'by': 0}"


@pytest.mark.parametrize(
    ("first", "complaint"),
    [
        ('{"up": "yes", "by": -1}', "- up: "),
        ('{"by": 1}', '"up" is a required property'),
        ("[true]", "it is no JSON object"),
        ("It is up.", "it is not one JSON value"),
        ('{"up": true', "it is not one JSON value"),
        ("", "it is not one JSON value"),
        ("[" * 100_000, "it is not one JSON value"),
        ('{"up": true} and so on', "it is not one JSON value"),
    ],
)
def test_an_answer_that_does_not_fit_is_sent_back_once_with_what_is_wrong(first: str, complaint: str) -> None:
    asks = Asks()
    _, (_, again) = run(asks, first, '{"up": false, "by": 2}')
    assert asks.answer == {"up": False, "by": 2}
    question, said, told = again.messages
    assert (question.text, said.role, told.role) == ("Is it up?", "assistant", "user")
    assert said.text == (first or "[nothing]")
    assert complaint in told.text
    assert again.answer_schema is not None


def test_twice_is_an_error_that_the_model_can_read() -> None:
    asks = Asks()
    bench, requests = run(asks, "no", '{"up": 1}')
    assert len(requests) == 2
    assert isinstance(asks.error, UnfitAnswer)
    (result,) = bench.results
    assert (result.status, result.error and result.error.name) == ("error", "UnfitAnswer")
    assert "- up: 1 is not of type" in result.content


def test_every_answer_is_paid_for() -> None:
    asks = Asks()
    bench = Bench(tools=[asks.tool])
    first, second = reply("no", usage=Usage(10, 5)), reply('{"up": true}', usage=Usage(20, 7))
    result = bench.run(reply(call("trend"), usage=Usage(1, 1)), first, second, reply("done", usage=Usage(1, 1)))
    assert result.usage == Usage(32, 14)
    assert result.steps == 2


def test_nobody_sees_it_being_written() -> None:
    asks = Asks()
    bench, _ = run(asks, '{"up": true}')
    assert bench.log is not None
    assert not any("Is it up?" in each.text or '{"up"' in each.text for each in bench.log.messages)
    assert [each.text for each in bench.events if isinstance(each, TextStreamed)] == ["done"]


def test_a_fence_around_it_does_no_harm() -> None:
    asks = Asks()
    run(asks, '```json\n{"up": true}\n```')
    assert asks.answer == {"up": True, "by": 0}


def test_a_server_that_refuses_the_schema_is_asked_in_words() -> None:
    asks = Asks()
    _, (first, second) = run(asks, fails(BadRequest("response_format is unknown")), '{"up": true}')
    assert asks.answer == {"up": True, "by": 0}
    assert first.answer_schema is not None
    assert second.answer_schema is None
    assert first.messages == second.messages


@pytest.mark.parametrize("error", [ContextTooLong("too long"), BadRequest("no")])
def test_what_is_refused_all_the_same_is_the_tools_failure(error: ProviderError) -> None:
    asks = Asks()
    tries = 1 if isinstance(error, ContextTooLong) else 2
    bench, requests = run(asks, *[fails(error)] * tries)
    assert (len(requests), asks.error) == (tries, error)
    assert bench.results[0].status == "error"


def fallback() -> ModelRoute:
    return ModelRoute(ScriptedProvider('{"up": true}', "done", name="other"), Model("other", "two"))


def test_it_falls_back_like_any_question() -> None:
    asks = Asks()
    bench = Bench(tools=[asks.tool], fallbacks=[fallback()])
    assert bench.run(reply(call("trend")), *[fails(Overloaded("busy"))] * 3).text == "done"
    assert asks.answer == {"up": True, "by": 0}


def test_of_a_picked_model_nobody_else_is_asked() -> None:
    asks = Asks()
    picked = ScriptedProvider(reply(call("trend")), *[fails(Overloaded("busy"))] * 3, "done")
    bench = Bench(tools=[asks.tool], wishes=TurnOptions(model="p"), fallbacks=[fallback()])
    bench.pick = lambda _: [ModelRoute(picked, Model("scripted", "picked"))]
    assert bench.run().text == "done"
    assert isinstance(asks.error, Overloaded)


def test_a_tool_that_was_left_behind_cannot_ask_any_more() -> None:
    scopes: list[ToolScope] = []

    @tool("look", "Looks.")
    async def look(args: Struct, scope: ToolScope) -> ToolOutput:
        scopes.append(scope)
        return ToolOutput("seen")

    bench = Bench(tools=[look])
    bench.run(reply(call("look")), "done", '{"up": true}')
    ask = scopes[0].ask
    assert ask is not None
    with pytest.raises(TurnStopped):
        bench.clock.run(ask("Is it up?", TREND))
    assert bench.provider is not None
    assert len(bench.provider.requests) == 2


def test_a_tool_that_is_out_of_time_has_asked_in_vain() -> None:
    asks = Asks()
    slow = reply('{"up"', delay(100), ": true}", usage=Usage(10, 5))
    bench = Bench(tools=[asks.tool])
    result = bench.run(reply(call("trend"), usage=Usage(1, 1)), slow, reply("done", usage=Usage(1, 1)))
    assert bench.results[0].status == "timeout"
    assert result.text == "done"
    assert bench.provider is not None
    assert bench.provider.abandoned == 1


def test_a_schema_that_is_none_is_its_authors_mistake() -> None:
    asks = Asks({"type": "object", "properties": {"up": {"type": "no such type"}}})
    bench, _ = run(asks, '{"up": true}')
    assert bench.results[0].status == "error"


# ── schemas as generators write them ────────────────────────────────────────────────────────────────────────


class Leg(Struct):
    symbol: str


class Order(Struct):
    legs: list[Leg]


def test_the_root_is_an_object_and_no_reference_to_one() -> None:
    written = with_root(msgspec.json.schema(Order))
    assert (written["type"], "$ref" in written, set(written["$defs"])) == ("object", False, {"Leg", "Order"})
    assert with_root(TREND) == TREND
    asks = Asks(msgspec.json.schema(Order))
    run(asks, '{"legs": [{"symbol": 1}]}', '{"legs": [{"symbol": "A"}]}')
    assert asks.answer == {"legs": [{"symbol": "A"}]}
