"""A refusal of a question with thoughts in it: asked once more without them, and no more than once."""

from decimal import Decimal
from typing import Any

import pytest
from tests.agent.bench import Bench, other
from tests.agent.talk import message

from finclaw.agent.budget.budget import Budget
from finclaw.agent.budget.settings import BudgetSettings
from finclaw.errors import BadRequest, ContextTooLong, Overloaded, ProviderError, ServerFailed
from finclaw.kernel.chunk import Features, Model, ModelRequest, Price, Usage
from finclaw.kernel.event import ModelFellBack, ModelRetried
from finclaw.kernel.message import Message, Text, Thinking, ToolCall, ToolResult
from finclaw.testing import call, fails, reply, say
from finclaw.transcript.request_sanitizer import without_thinking

HM = Thinking("hm", "signed")


def thoughtful(**options: Any) -> Bench:
    return Bench(base=[message("a", "user", Text("hi")), message("b", "assistant", HM, Text("so"))], **options)


def thoughts(bench: Bench) -> list[int]:
    """How many went along with each question."""
    assert bench.provider is not None
    return [
        sum(isinstance(block, Thinking) for each in request.messages for block in each.blocks)
        for request in bench.provider.requests
    ]


def retried(bench: Bench) -> list[tuple[bool, float]]:
    return [(event.plain, event.wait_s) for event in bench.events if isinstance(event, ModelRetried)]


@pytest.mark.spec("M-42", "RT-02")
def test_it_is_asked_once_more_without_them_and_at_once() -> None:
    bench = thoughtful()
    assert bench.run(fails(BadRequest("x")), "here").text == "here"
    assert thoughts(bench) == [1, 0]
    assert retried(bench) == [(True, 0.0)]
    assert bench.clock.monotonic() == 0


def test_if_that_is_refused_too_the_first_refusal_is_told() -> None:
    bench = thoughtful()
    bench.fallbacks = [other(bench.clock, "never asked")]
    with pytest.raises(BadRequest, match="the first"):
        bench.run(fails(BadRequest("the first")), fails(BadRequest("the second")), "never asked")
    assert thoughts(bench) == [1, 0]
    assert not [event for event in bench.events if isinstance(event, ModelFellBack)]


def test_the_rest_of_the_turn_is_asked_so_and_no_other_refusal_is_tried_again() -> None:
    bench = thoughtful()
    script = (fails(BadRequest("x")), reply(call("nowhere")), fails(BadRequest("another")), "never asked")
    with pytest.raises(BadRequest, match="another"):
        bench.run(*script)
    assert thoughts(bench) == [1, 0, 0]
    assert len(retried(bench)) == 1


def test_what_passes_is_still_tried_again_and_elsewhere() -> None:
    bench = thoughtful()
    bench.fallbacks = [other(bench.clock, "from two")]
    result = bench.run(fails(BadRequest("x")), *[fails(ServerFailed("x"))] * 3)
    assert result.text == "from two"
    assert thoughts(bench) == [1, 0, 0, 0]
    assert [plain for plain, _ in retried(bench)] == [True, False, False]
    bench = thoughtful()
    assert bench.run(fails(Overloaded("x")), fails(BadRequest("x")), fails(Overloaded("x")), "here").text == "here"
    assert thoughts(bench) == [1, 1, 0, 0]


def test_a_refusal_in_the_midst_of_an_answer_repeats_nothing() -> None:
    bench = thoughtful()
    result = bench.run(reply(say("one "), fault=BadRequest("x")), "two")
    assert result.text == "one two"
    assert thoughts(bench) == [1, 0]


@pytest.mark.parametrize("error", [ContextTooLong("x"), BadRequest("x")])
def test_nothing_is_tried_where_it_would_be_the_same_question(error: ProviderError) -> None:
    bench = Bench() if type(error) is BadRequest else thoughtful()
    with pytest.raises(type(error)):
        bench.run(fails(error), fails(error), fails(error), fails(error), "never asked")
    assert retried(bench) == []


def test_it_cools_nobody_down() -> None:
    bench = thoughtful()
    bench.fallbacks = [other(bench.clock, "never asked")]
    result = bench.run(fails(BadRequest("x")), reply(call("nowhere")), "done")
    assert (result.text, result.steps) == ("done", 2)
    assert {each.metadata["model"] for each in result.messages if "usage" in each.metadata} == {"scripted/one"}


@pytest.mark.spec("DX-47")
def test_one_reservation_at_a_time_and_one_bill() -> None:
    """Two of these questions at once would be more than may be spent."""
    price = Price(Decimal(1), Decimal(10))
    bench = thoughtful(model=Model("scripted", "one", price=price))
    house = Budget(BudgetSettings(turn_usd=Decimal("0.05")), bench.clock)
    bench.budget = house
    result = bench.run(fails(BadRequest("x")), reply("here", usage=Usage(1_000, 100)))
    assert result.text == "here"
    assert result.messages[-1].metadata["usage"] == [1_000, 100, 0, 0]
    assert Decimal(result.messages[-1].metadata["cost"]) == Decimal("0.002")


# ── what goes along ─────────────────────────────────────────────────────────────────────────────────────────

BOUND = Model("scripted", "one", features=Features(thinking=True, bound_thinking=True))
FREE = Model("scripted", "one")
CALLED = (HM, ToolCall("c", "look"))
TOLD = message("t", "tool", ToolResult("c", "look", "190"))
NOTE = message("n", "system", Text("it is noon"), passing="moment")


@pytest.mark.parametrize(
    ("model", "messages", "carries"),
    [
        (FREE, [message("b", "assistant", HM, Text("so")), message("a", "user", Text("and?"))], True),
        (BOUND, [message("b", "assistant", HM, Text("so")), message("a", "user", Text("and?"))], False),
        (BOUND, [message("a", "user", Text("go")), NOTE, message("b", "assistant", *CALLED), TOLD], True),
        (BOUND, [message("a", "user", Text("go")), message("b", "assistant", *CALLED), NOTE, TOLD], True),
        (FREE, [message("b", "assistant", HM, Text("so"), model="other/one")], False),
        (FREE, [message("b", "assistant", Thinking("not signed"), Text("so"))], False),
        (FREE, [message("a", "user", Text("go"))], False),
        (FREE, [], False),
    ],
)
def test_who_has_thoughts_to_leave_out(model: Model, messages: list[Message], carries: bool) -> None:
    asked = ModelRequest(model=model, system="", messages=tuple(messages))
    plain = without_thinking(asked)
    assert (plain is not None) == carries
    if plain is not None:
        assert [each.id for each in plain.messages] == [each.id for each in messages]
        assert not any(isinstance(block, Thinking) for each in plain.messages for block in each.blocks)
        untouched = [each for each in messages if each.role != "assistant"]
        assert all(any(kept is each for kept in plain.messages) for each in untouched)
