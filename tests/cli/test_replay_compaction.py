"""A recorded turn that compaction shortened: what it left is the record, and nobody is asked for a summary again."""

from pathlib import Path

import pytest
from tests.cli.recorded_turns import Recorder
from tests.walks.house import Parts
from tests.walks.tools import Desk

from finclaw.agent.settings import AgentSettings
from finclaw.agent.window.compaction.options import is_summary
from finclaw.agent.window.compaction.summary import BEGIN
from finclaw.cli.commands.replay import replay
from finclaw.errors import BadRequest, ConfigError, ContextTooLong, ProviderError
from finclaw.kernel.chunk import ModelRequest, Usage
from finclaw.kernel.message import Message
from finclaw.kernel.port import ToolScope
from finclaw.kernel.record import TurnTrace
from finclaw.providers.settings import ModelSettings
from finclaw.testing import Reply, call, delay, fails, reply, say

WORDS = "The order 4711 of 10 AAPL at 187.20 USD was placed on 2025-01-03 and is still open. "
SMALL = {"offline/demo": ModelSettings(window=16_000, max_output=1_000)}


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    agent = AgentSettings(max_tokens=1_000, max_steps=40)
    return Recorder(tmp_path / "state", agent, models=SMALL)


class Mind:
    """Calls its tool so often, then answers; condenses when it is asked to; tells how long the question was."""

    def __init__(self, calls: int = 0, words: str = "") -> None:
        self.condensed = 0
        self._left = calls
        self._words = words

    def __call__(self, request: ModelRequest) -> Reply:
        if BEGIN in request.messages[-1].text:
            self.condensed += 1
            return reply(delay(3), say("They spoke about order 4711."))
        self._left -= 1
        says = say("done") if self._left < 0 else call("note", {"text": f"{self._left} {self._words}"})
        return reply(delay(2), says, usage=Usage(input=_size(request), output=5))


def _size(request: ModelRequest) -> int:
    """About as a model would count it."""
    said = sum(
        len(message.text) + sum(len(each.content) for each in message.tool_results) + _asked(message)
        for message in request.messages
    )
    return (len(request.system) + sum(len(str(tool)) for tool in request.tools) + said) // 4


def _asked(message: Message) -> int:
    return sum(len(str(each.args)) for each in message.tool_calls)


def own_summaries(story: TurnTrace) -> list[Message]:
    return [message for message in story.messages if is_summary(message)]


def test_a_turn_before_which_the_talk_was_condensed_is_identical(recorder: Recorder) -> None:
    mind = Mind()
    stories = [recorder.record(f"{n} {WORDS * 60}", mind) for n in range(9)]
    assert mind.condensed > 0
    condensed = [story for story in stories if any(is_summary(message) for message in story.before)]
    assert condensed
    for story in condensed:
        if story.whole:
            assert replay(recorder.settings, story) == []


def test_a_turn_whose_results_were_shortened_while_it_ran_is_identical(recorder: Recorder) -> None:
    async def much(text: str, scope: ToolScope) -> str:
        return WORDS * 60

    tools = Parts(tools=[Desk().tool("note", much)])
    mind = Mind(calls=14)
    story = recorder.record("go", mind, extensions=[tools])
    contents = [result.content for message in story.messages for result in message.tool_results]
    assert any("characters left out]" in content for content in contents)
    assert replay(recorder.settings, story, [tools]) == []


def test_a_turn_that_condensed_its_own_steps_says_which_are_not_recorded(recorder: Recorder) -> None:
    tools = Parts(tools=[Desk().tool("note")])
    mind = Mind(calls=20, words=WORDS * 40)
    story = recorder.record("go", mind, extensions=[tools])
    assert mind.condensed > 0
    assert own_summaries(story)
    left = sum(message.source.kind == "assistant" for message in story.messages)
    with pytest.raises(
        ConfigError, match=f"{story.record.steps - left} of its {story.record.steps} steps were condensed"
    ):
        replay(recorder.settings, story, [tools])


def test_a_turn_of_which_a_later_one_made_a_summary_is_not_told_as_its_own_doing(recorder: Recorder) -> None:
    mind = Mind()
    first = recorder.record(f"first {WORDS * 60}", mind)
    for n in range(9):
        recorder.record(f"{n} {WORDS * 60}", mind)
    assert mind.condensed > 0
    with pytest.raises(ConfigError, match="not all there any more"):
        replay(recorder.settings, recorder.told(first.record.turn_id))


@pytest.mark.parametrize("kind", [ContextTooLong, BadRequest])
def test_what_the_model_refused_is_refused_again_in_the_same_words(
    recorder: Recorder, kind: type[ProviderError]
) -> None:
    story = recorder.record("hello", *[fails(kind("the prompt is too long"))] * 3)
    assert story.outcome is not None
    assert story.outcome.reason.startswith(kind.__name__)
    assert replay(recorder.settings, story) == []


def test_what_a_tool_asked_the_model_is_part_of_its_result_and_asked_of_nobody_again(recorder: Recorder) -> None:
    async def ponder(text: str, scope: ToolScope) -> str:
        assert scope.ask is not None
        form = {"type": "object", "properties": {"risk": {"type": "string"}}, "required": ["risk"]}
        return str((await scope.ask("How risky is it?", form))["risk"])

    tools = Parts(tools=[Desk().tool("note", ponder)])
    story = recorder.record("go", reply(call("note")), '{"risk": "high"}', "It is risky.", extensions=[tools])
    assert [each.content for message in story.messages for each in message.tool_results] == ["high"]
    assert replay(recorder.settings, story, [tools]) == []
