"""A refusal without a word that code may read: by our own count it is known whether the request was too long."""

import pytest
from tests.agent.bench import Bench
from tests.agent.test_room import assert_whole, talked

from finclaw.agent.asking import ModelRoute
from finclaw.agent.compaction.prompt import BEGIN
from finclaw.agent.tokens import Estimator
from finclaw.errors import BadRequest, ContextTooLong, Overloaded, ProviderError
from finclaw.kernel.chunk import Model, ModelRequest
from finclaw.kernel.event import ContextCompacted
from finclaw.testing import Reply, ScriptedProvider, fails, reply

TALK = talked(120)
TOKENS = sum(map(Estimator("o200k").tokens_of, TALK))


def filled_to(part: float) -> Model:
    """A model of whose room for requests the talk fills such a part; a quarter of its window is for the answer."""
    return Model("scripted", "one", window=int(TOKENS / part / 0.75 * 0.95), max_output=1_000)


class Picky:
    """Takes so many messages; for more it has an error that says nothing."""

    def __init__(self, takes: int, error: type[ProviderError] = BadRequest) -> None:
        self.asked: list[ModelRequest] = []
        self._takes = takes
        self._error = error

    def __call__(self, request: ModelRequest) -> Reply:
        if BEGIN in request.messages[-1].text:
            return reply("They spoke about order 4711.")
        self.asked.append(request)
        return fails(self._error("no")) if len(request.messages) > self._takes else reply("done")


def compacted(bench: Bench) -> int:
    return sum(isinstance(event, ContextCompacted) for event in bench.events)


@pytest.mark.spec("DX-47")
def test_a_refusal_of_what_nearly_fills_the_window_is_shortened_and_tried_again() -> None:
    bench, model = Bench(model=filled_to(0.82), base=TALK), Picky(takes=100)
    assert bench.run(model).text == "done"
    before, after = model.asked
    assert len(before.messages) == 121
    assert len(after.messages) <= 100
    assert compacted(bench) == 1
    assert_whole(after.messages)


@pytest.mark.spec("RT-02")
@pytest.mark.parametrize("part", [0.1, 0.5, 0.7])
def test_a_refusal_of_what_fits_well_is_what_it_says(part: float) -> None:
    bench, model = Bench(model=filled_to(part), base=TALK), Picky(takes=100)
    with pytest.raises(BadRequest):
        bench.run(model)
    assert len(model.asked) == 1
    assert compacted(bench) == 0


def test_one_that_is_refused_for_another_reason_is_not_asked_for_ever() -> None:
    bench, model = Bench(model=filled_to(0.82), base=TALK), Picky(takes=0)
    with pytest.raises(BadRequest):
        bench.run(model)
    assert len(model.asked) == 2, "once it is short, it was something else"


@pytest.mark.parametrize("error", [BadRequest, ContextTooLong])
def test_a_fallback_of_a_smaller_window_gets_what_fits_into_it(error: type[ProviderError]) -> None:
    bench, picky = Bench(model=filled_to(0.1), base=TALK), Picky(60, error)
    small = Model("scripted", "two", window=8_000, max_output=1_000)
    bench.fallbacks = [ModelRoute(ScriptedProvider(picky, clock=bench.clock), small)]
    result = bench.run(*[fails(Overloaded("x"))] * 3)
    assert (result.text, result.messages[-1].metadata["instead_of"]) == ("done", "scripted/one")
    assert [len(request.messages) > 60 for request in picky.asked][-1] is False
    assert len(picky.asked) <= 3
