"""A recorded turn in which not the chosen model answered: whoever it was, the record answers, and nobody is asked."""

from pathlib import Path

import pytest
from msgspec import structs
from tests.cli.recorded_turns import Recorder

from finclaw.agent.settings import AgentSettings
from finclaw.cli.commands.replay import replay
from finclaw.errors import Overloaded
from finclaw.kernel.envelope import Limits, TurnOptions
from finclaw.kernel.message import Text
from finclaw.providers.settings import ProviderSettings
from finclaw.redaction import Secret
from finclaw.testing import fails

DEAR = "anthropic/claude-sonnet-4-6"


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    return Recorder(tmp_path / "state", AgentSettings(model=DEAR, fallbacks=("offline/demo",)))


def test_a_turn_of_a_picked_model_is_answered_by_the_record(recorder: Recorder) -> None:
    """Not by that model, though it would answer here: what it said then is what counts."""
    story = recorder.record("hello", "never asked", wishes=TurnOptions(model="offline/demo"))
    asked, answer = story.messages
    other = structs.replace(answer, blocks=(Text("something else"),), metadata={**answer.metadata, "chunks": []})
    (found,) = replay(recorder.settings, structs.replace(story, messages=(asked, other)))
    assert (found.part, found.now) == ("reply", "something else")
    assert replay(recorder.settings, story) == []


def test_a_picked_model_needs_no_key_to_be_replayed(recorder: Recorder) -> None:
    recorder.agent = AgentSettings()
    story = recorder.record("hello", "picked", wishes=TurnOptions(model="offline/demo"))
    inbound = structs.replace(story.inbound, limits=Limits(wishes=TurnOptions(model=DEAR)))
    assert replay(recorder.settings, structs.replace(story, inbound=inbound)) == []


def test_a_turn_that_nobody_answered_fails_again_in_the_same_words(recorder: Recorder) -> None:
    recorder.agent = AgentSettings(model=DEAR, fallbacks=("anthropic/claude-haiku-4-5",))
    recorder.providers = {"anthropic": ProviderSettings(base_url="http://127.0.0.1:9", key=Secret("k"))}
    story = recorder.record("hello", *[fails(Overloaded("x"))] * 3)
    assert story.outcome is not None
    assert story.outcome.kind == "failed"
    assert replay(recorder.settings, story) == []
