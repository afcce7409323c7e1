"""A turn that another model answered, and one that the model refused, come again as they were."""

from pathlib import Path

import pytest
from tests.cli.recorded_turns import Recorder

from finclaw.agent.settings import AgentSettings
from finclaw.cli.commands.replay import replay
from finclaw.errors import AuthFailed, BadRequest, ContextTooLong, ProviderError
from finclaw.testing import fails

AGENT = AgentSettings(model="house/claude-x", fallbacks=("offline/demo",))
LINE = "(claude-x was not available just now; demo answered instead.)"


@pytest.mark.parametrize("asked", ["hello", "What is the price of AAPL?"])
def test_an_answer_by_a_fallback_comes_again_with_its_line(tmp_path: Path, asked: str) -> None:
    recorder = Recorder(tmp_path, AGENT)
    story = recorder.record(asked, fails(AuthFailed("no")))
    assert story.outcome is not None
    assert LINE in (story.outcome.reply or "")
    assert replay(recorder.settings, story) == []


def test_the_next_answer_by_the_same_one_comes_again_without(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, AGENT)
    recorder.record("hello", fails(AuthFailed("no")))
    story = recorder.record("hello again", fails(AuthFailed("no")))
    assert story.outcome is not None
    assert "claude-x" not in (story.outcome.reply or "")
    assert replay(recorder.settings, story) == []


@pytest.mark.parametrize("kind", [BadRequest, ContextTooLong])
def test_a_refusal_comes_again(tmp_path: Path, kind: type[ProviderError]) -> None:
    recorder = Recorder(tmp_path, AGENT)
    story = recorder.record("hello", fails(kind("no")))
    assert replay(recorder.settings, story) == []
