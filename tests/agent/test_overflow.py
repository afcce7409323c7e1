"""A refusal without a word that code may read: by our own count it is known whether the request was too long."""

import pytest
from tests.agent.bench import Bench
from tests.agent.long_talk import assert_whole, talked

from finclaw.agent.model.failover import ModelRoute
from finclaw.agent.window.compaction.summary import BEGIN
from finclaw.agent.window.tokens import Estimator
from finclaw.errors import BadRequest, ContextTooLong, Overloaded, ProviderError
from finclaw.kernel.chunk import Model, ModelRequest, Vocabulary
from finclaw.kernel.event import ContextCompacted, ModelFellBack
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


# ── a chain of windows ──────────────────────────────────────────────────────────────────────────────────────

LARGE = Model("scripted", "one", window=200_000, max_output=1_000)
DOWN = fails(Overloaded("x"))


def chain(bench: Bench, *models: Model) -> list[Picky]:
    """Each with a mind of its own, which refuses nothing: whoever gets too much takes it and forgets."""
    minds = [Picky(10_000) for _ in models]
    bench.fallbacks = [
        ModelRoute(ScriptedProvider(mind, clock=bench.clock), model) for mind, model in zip(minds, models, strict=True)
    ]
    return minds


def tokens_of(request: ModelRequest) -> int:
    return sum(map(Estimator(request.model.vocabulary).tokens_of, request.messages))


@pytest.mark.spec("DX-47", "RT-06")
@pytest.mark.parametrize("vocabulary", ["o200k", "claude"])
def test_a_smaller_fallback_is_never_asked_for_more_than_it_takes(vocabulary: Vocabulary) -> None:
    bench = Bench(model=LARGE, base=talked(600))
    small = Model("other", "two", window=8_000, max_output=1_000, vocabulary=vocabulary)
    (mind,) = chain(bench, small)
    result = bench.run(DOWN, DOWN, DOWN)
    assert (result.text, result.messages[-1].metadata["instead_of"]) == ("done", "scripted/one")
    (request,) = mind.asked
    assert tokens_of(request) + request.max_tokens <= small.window
    assert request.messages[-1].text == "go"
    assert compacted(bench) == 1
    assert_whole(request.messages)


def test_a_fallback_that_is_not_needed_shortens_nothing() -> None:
    bench = Bench(model=LARGE, base=talked(600))
    (mind,) = chain(bench, Model("other", "two", window=8_000, max_output=1_000))
    assert bench.run("here").text == "here"
    assert (mind.asked, compacted(bench)) == ([], 0)
    assert bench.provider is not None
    assert len(bench.provider.requests[0].messages) == 601


def test_the_summary_for_a_small_fallback_is_asked_in_pieces_that_it_can_read() -> None:
    bench = Bench(model=LARGE, base=talked(600))
    asked: list[ModelRequest] = []

    def small(request: ModelRequest) -> Reply:
        asked.append(request)
        return reply("They spoke about order 4711." if BEGIN in request.messages[-1].text else "done")

    model = Model("other", "two", window=8_000, max_output=1_000)
    bench.fallbacks = [ModelRoute(ScriptedProvider(small, clock=bench.clock), model)]
    assert bench.run(DOWN, DOWN, DOWN).text == "done"
    assert len(asked) > 1
    assert all(tokens_of(each) + each.max_tokens <= model.window for each in asked)


@pytest.mark.spec("RT-06")
def test_one_too_small_for_what_must_be_sent_is_passed_over_for_the_next() -> None:
    bench = Bench(model=LARGE, base=talked(4))
    tiny, wide = Model("other", "tiny", window=4, max_output=1), Model("other", "wide", window=32_000)
    none, mind = chain(bench, tiny, wide)
    assert bench.run(DOWN, DOWN, DOWN).text == "done"
    assert (len(none.asked), len(mind.asked)) == (0, 1)
    assert len(mind.asked[0].messages) == 5, "nothing was forgotten for one that was not asked"
    assert [event.instead for event in bench.events if isinstance(event, ModelFellBack)] == ["other/wide"]


@pytest.mark.spec("RT-06")
def test_a_larger_fallback_takes_what_the_chosen_one_cannot() -> None:
    bench = Bench(model=Model("scripted", "tiny", window=4, max_output=1), base=talked(4))
    (mind,) = chain(bench, LARGE)
    assert bench.run("never").text == "done"
    assert len(mind.asked) == 1
    assert bench.provider is not None
    assert not bench.provider.requests


def test_where_only_too_small_ones_are_left_the_first_failure_is_told() -> None:
    bench = Bench(model=LARGE, base=talked(4))
    (mind,) = chain(bench, Model("other", "tiny", window=4, max_output=1))
    with pytest.raises(Overloaded):
        bench.run(DOWN, DOWN, DOWN)
    assert not mind.asked
