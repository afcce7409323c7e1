"""A model that does not answer is asked again, then another one; nothing that may have been seen is said twice."""

from collections.abc import AsyncIterator
from decimal import Decimal

import pytest
from msgspec.structs import replace
from tests.agent.bench import Bench, instead, other, waits

from finclaw.agent.model.failover import ModelRoute
from finclaw.agent.model.retry import GO_ON
from finclaw.errors import (
    AuthFailed,
    BadRequest,
    Overloaded,
    ProviderError,
    ProviderTimeout,
    QuotaExceeded,
    RateLimited,
    ServerFailed,
    StreamCut,
    Unreachable,
)
from finclaw.kernel.chunk import Chunk, Done, Model, ModelRequest, Price, TextDelta, Usage, UsageReport
from finclaw.kernel.event import ModelRetried, TextStreamed
from finclaw.kernel.message import Thinking
from finclaw.testing import Reply, call, delay, fails, reply, say, think

PASSING = [RateLimited, Overloaded, ServerFailed, Unreachable, ProviderTimeout, StreamCut]


@pytest.mark.spec("RT-01", "RT-02", "R-07")
@pytest.mark.parametrize("kind", PASSING)
def test_what_passes_is_tried_again(kind: type[ProviderError]) -> None:
    bench = Bench()
    result = bench.run(fails(kind("x")), fails(kind("x")), "here")
    assert result.text == "here"
    first, second = waits(bench)
    assert 1 <= first <= 2
    assert 2 <= second <= 4


@pytest.mark.spec("RT-02")
@pytest.mark.parametrize("kind", [BadRequest, AuthFailed, QuotaExceeded])
def test_what_does_not_pass_is_not_tried_again(kind: type[ProviderError]) -> None:
    bench = Bench()
    with pytest.raises(kind):
        bench.run(fails(kind("x")), "never asked")
    assert waits(bench) == []


@pytest.mark.spec("RT-01")
def test_three_tries_and_no_more() -> None:
    bench = Bench()
    with pytest.raises(Overloaded):
        bench.run(*[fails(Overloaded("x"))] * 3, "never asked")
    assert len(waits(bench)) == 2


@pytest.mark.spec("RT-01")
@pytest.mark.parametrize(("wish", "waited"), [(7.0, 7.0), (60.0, 60.0), (0.0, None), (-5.0, None)])
def test_retry_after_is_honoured(wish: float, waited: float | None) -> None:
    bench = Bench()
    bench.run(fails(RateLimited("x", retry_after=wish)), "here")
    (wait,) = waits(bench)
    assert wait == waited if waited else 1 <= wait <= 2


@pytest.mark.spec("DX-47")
@pytest.mark.parametrize("wish", [61.0, 86_400.0, 1e12])
def test_nobody_is_waited_for_who_wants_us_back_too_late(wish: float) -> None:
    bench = Bench()
    bench.fallbacks = [other(bench.clock, "from two")]
    assert bench.run(fails(RateLimited("x", retry_after=wish))).text == "from two"
    assert waits(bench) == []


# ── elsewhere ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("RT-06", "R-19")
def test_another_model_answers_and_is_told_once() -> None:
    bench = Bench()
    bench.fallbacks = [other(bench.clock, "from two")]
    result = bench.run(*[fails(ServerFailed("x"))] * 3)
    assert result.text == "from two"
    assert instead(bench) == ["scripted/two"]
    assert result.messages[-1].metadata["model"] == "scripted/two"


def test_each_call_begins_with_the_chosen_model_unless_it_failed_a_moment_ago() -> None:
    """Two calls of one turn: the second does not run into the same wall, and asks the other at once."""
    bench = Bench()
    bench.fallbacks = [other(bench.clock, reply(call("nowhere")), "done")]
    result = bench.run(*[fails(Overloaded("x"))] * 3)
    assert (result.text, result.steps) == ("done", 2)
    assert instead(bench) == ["scripted/two"], "told once"
    assert len(waits(bench)) == 2


@pytest.mark.spec("R-19")
def test_a_model_whose_answers_break_off_again_and_again_is_left_alone_for_a_while() -> None:
    """Three in a row are no accident: the next call does not wait through them once more."""
    bench = Bench()
    bench.fallbacks = [other(bench.clock, reply(call("nowhere")), "done")]
    result = bench.run(*[reply(say("so "), fault="cut")] * 3, "never asked")
    assert (result.text, result.steps, len(waits(bench))) == ("done", 2, 2)
    assert instead(bench) == ["scripted/two"]


def test_one_answer_that_breaks_off_is_held_against_nobody() -> None:
    bench = Bench()
    bench.fallbacks = [other(bench.clock, "never asked")]
    cut = reply(say("so "), fault="cut")
    result = bench.run(cut, reply(call("nowhere")), cut, cut, reply(call("elsewhere")), "done")
    assert (result.text, result.steps, instead(bench)) == ("done", 3, [])


def slow(*pieces: str) -> Reply:
    """Something to hear every 20 seconds, so that nobody is silent for too long."""
    return reply(*(part for piece in pieces for part in (delay(20), say(piece))))


@pytest.mark.spec("RT-06", "DX-47")
def test_whoever_takes_too_long_in_all_makes_room_for_another_who_goes_on() -> None:
    bench = Bench()
    crawling = other(bench.clock, *(slow(f"{each} ", f"{each + 1} ", "never heard") for each in (1, 3, 5)))
    bench.fallbacks = [replace(crawling, within=50.0), other(bench.clock, "7", model="three")]
    assert bench.run(fails(AuthFailed("x"))).text == "1 2 3 4 5 6 7"
    assert instead(bench) == ["scripted/two", "scripted/three"]
    errors = [event.error for event in bench.events if isinstance(event, ModelRetried)]
    assert errors == ["ProviderTimeout: scripted/two was not done within 50 s"] * 2


def test_who_is_given_no_time_has_as_much_as_the_turn() -> None:
    bench = Bench()
    assert bench.run(slow(*["so "] * 12)).text == "so " * 12


@pytest.mark.parametrize("kind", [AuthFailed, QuotaExceeded])
def test_another_key_is_taken_when_one_is_refused(kind: type[ProviderError]) -> None:
    bench = Bench()
    bench.fallbacks = [other(bench.clock, "with the second key", credential="second", model="one")]
    assert bench.run(fails(kind("x"))).text == "with the second key"


def test_what_is_wrong_with_the_request_is_wrong_everywhere() -> None:
    bench = Bench()
    bench.fallbacks = [other(bench.clock, "never asked")]
    with pytest.raises(BadRequest):
        bench.run(fails(BadRequest("x")))
    assert instead(bench) == []


def test_when_nobody_answers_the_last_failure_is_told() -> None:
    bench = Bench()
    bench.fallbacks = [other(bench.clock, fails(AuthFailed("no key")))]
    with pytest.raises(AuthFailed, match="no key"):
        bench.run(fails(QuotaExceeded("no money")))


# ── what was said is not said again ─────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("DX-47")
def test_a_cut_answer_is_gone_on_with() -> None:
    bench = Bench()
    result = bench.run(reply(say("half an ans", chunks=3), fault="cut"), "wer.")
    assert result.text == "half an answer."
    streamed = "".join(event.text for event in bench.events if isinstance(event, TextStreamed))
    assert streamed == "half an answer.", "everything was told once"
    assert bench.provider is not None
    _, second = bench.provider.requests
    assert [(each.role, each.text) for each in second.messages[-2:]] == [("assistant", "half an ans"), ("user", GO_ON)]
    assert [each.text for each in result.messages] == ["go", "half an answer."], "the reminder is not kept"
    assert sum(result.messages[-1].metadata["chunks"]) == len("half an answer.")


@pytest.mark.spec("DX-47")
def test_a_cut_answer_is_gone_on_with_by_another_model() -> None:
    bench = Bench()
    bench.fallbacks = [other(bench.clock, " three")]
    half = reply(say("one"), fault=Overloaded("x"))
    result = bench.run(half, reply(say(" two"), fault=Overloaded("x")), fails(Overloaded("x")))
    assert result.text == "one two three"


def test_a_call_that_was_cut_off_is_asked_for_again_and_run_once() -> None:
    bench = Bench()
    cut = reply(say("I look. "), call("nowhere", {"text": "x"}), fault="cut")
    result = bench.run(cut, reply(call("nowhere", {"text": "x"})), "done")
    assert result.text == "done"
    assert [each.text for each in result.messages] == ["go", "I look. ", "", "done"]
    assert len(bench.results) == 1


def test_thinking_stays_in_front() -> None:
    bench = Bench()
    result = bench.run(reply(say("half"), fault="cut"), reply(think("hm"), say(" more")))
    message = result.messages[-1]
    assert isinstance(message.blocks[0], Thinking)
    assert message.text == "half more"


class CutOff:
    """Tells what it costs, says half a word, and is gone; the second time it goes on."""

    name = "scripted"

    def __init__(self) -> None:
        self._lines = iter([(Usage(50, 3), "half", False), (Usage(70, 5), " more", True)])

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        usage, text, whole = next(self._lines)
        yield UsageReport(usage)
        yield TextDelta(text)
        if whole:
            yield Done()

    async def close(self) -> None:
        pass


@pytest.mark.spec("DX-47", "N-01")
def test_what_a_failed_try_has_cost_is_counted() -> None:
    bench = Bench()
    bench.fallbacks = [ModelRoute(CutOff(), Model("scripted", "two", price=Price(input=Decimal(1_000_000))))]
    result = bench.run(fails(QuotaExceeded("x")))
    assert (result.text, result.usage) == ("half more", Usage(120, 8))
    assert result.messages[-1].metadata["cost"] == "120"
