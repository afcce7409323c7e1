"""A conversation that outgrows its model goes on: shortened in time, told to observers, and valid all the while."""

import pytest
from msgspec import Struct
from tests.agent.bench import Bench
from tests.agent.long_talk import SMALL, Mind, assert_whole, talked

from finclaw.agent.window.compaction.options import is_summary
from finclaw.agent.window.compaction.summary import BEGIN
from finclaw.errors import ContextTooLong
from finclaw.kernel.chunk import Model, ModelRequest, Usage
from finclaw.kernel.event import (
    CompactionFellBack,
    ContextCompacted,
    ContextThresholdCrossed,
    TextStreamed,
    UsageUpdated,
)
from finclaw.kernel.port import ToolOutput, ToolScope
from finclaw.testing import Reply, call, reply
from finclaw.tools.define import tool


@tool("look", "Looks.")
async def look(args: Struct, scope: ToolScope) -> ToolOutput:
    return ToolOutput("seen")


@pytest.mark.spec("M-33")
@pytest.mark.parametrize(("measured", "condensed"), [(3_200, 0), (5_600, 1)])
def test_what_the_model_measured_corrects_what_was_estimated(measured: int, condensed: int) -> None:
    """The same talk: by our estimate there is room for it, and then the model says how much it really read."""
    bench = Bench(model=SMALL, base=talked(40), tools=[look])
    seen: list[str] = []

    def model(request: ModelRequest) -> Reply:
        if BEGIN in request.messages[-1].text:
            seen.append("condense")
            return reply("They spoke about order 4711.")
        seen.append("ask")
        if seen.count("ask") == 1:
            return reply(call("look"), usage=Usage(measured, 10))
        return reply("done")

    assert bench.run(model).text == "done"
    assert seen == ["ask", *["condense"] * condensed, "ask"]
    sizes = [event.before for event in bench.events if isinstance(event, ContextCompacted)]
    assert len(sizes) == condensed


@pytest.mark.spec("M-33")
def test_the_size_is_estimated_before_anything_was_measured() -> None:
    bench, mind = Bench(model=SMALL, base=talked(120)), Mind()
    bench.run(mind)
    names = [event.name for event in bench.events]
    assert names.index(ContextThresholdCrossed.name) < names.index(UsageUpdated.name), "before the first call"


@pytest.mark.spec("W-05", "CP-20", "E-15")
def test_a_long_talk_is_condensed_before_it_is_too_long() -> None:
    bench, mind = Bench(model=SMALL, base=talked(120)), Mind()
    result = bench.run(mind)
    assert result.text == "done"
    assert mind.condensed >= 1
    (request,) = mind.asked
    assert any(is_summary(message) for message in request.messages)
    assert request.messages[-1].text == "go"
    assert len(request.messages) < 60
    assert_whole(request.messages)
    (told,) = [event for event in bench.events if isinstance(event, ContextCompacted)]
    assert told.after < told.before
    assert [event for event in bench.events if isinstance(event, ContextThresholdCrossed)]
    said = "".join(event.text for event in bench.events if isinstance(event, TextStreamed))
    assert said == "done", "the summary is nobody's answer"
    assert result.usage.input == 100 * (1 + mind.condensed), "and is paid for like one"


@pytest.mark.spec("CP-16", "E-16")
def test_without_a_summariser_the_oldest_goes_and_the_turn_goes_on() -> None:
    bench, mind = Bench(model=SMALL, base=talked(120)), Mind(condenses=False)
    assert bench.run(mind).text == "done"
    assert [event for event in bench.events if isinstance(event, CompactionFellBack)]
    assert_whole(mind.asked[0].messages)


@pytest.mark.spec("DX-47")
def test_what_only_the_model_knew_to_be_too_long_is_shortened_and_tried_again() -> None:
    bench, mind = Bench(model=Model("scripted", "one", window=40_000), base=talked(120)), Mind(takes=100)
    assert bench.run(mind).text == "done"
    before, *_, after = mind.asked
    assert len(before.messages) == 121
    assert len(after.messages) <= 100


def test_what_cannot_be_made_to_fit_is_said() -> None:
    bench, mind = Bench(model=Model("scripted", "one", window=40_000), base=talked(8)), Mind(takes=0)
    with pytest.raises(ContextTooLong):
        bench.run(mind)
    assert len(mind.asked) <= 3


def test_a_short_talk_is_left_alone() -> None:
    bench, mind = Bench(model=SMALL, base=talked(10)), Mind()
    bench.run(mind)
    assert mind.condensed == 0
    assert len(mind.asked[0].messages) == 11
    assert not [event for event in bench.events if event.name.startswith("context:")]
