"""All of our extensions at once: every request can be sent, and a crash anywhere changes nothing of that."""

from pathlib import Path

import pytest
from tests.support.api_rules import violations
from tests.walks.house import Gateway, House, crash, in_virtual_time
from tests.walks.tools import Desk

from finclaw.agent.settings import AgentSettings, ExtensionRef
from finclaw.builtins.tool_search import NAME
from finclaw.kernel.event import SessionRepaired
from finclaw.kernel.port import Tool
from finclaw.testing import call, reply

SCRIPT = (
    "I think it is 5.",
    reply(call(NAME, {"query": "look"})),
    reply(),
    reply(call("look"), call("look", {"text": "2"})),
    "It is 7.",
)


@pytest.fixture
def agent(tmp_path: Path) -> AgentSettings:
    (tmp_path / "skills").mkdir()
    (tmp_path / "skills" / "style.md").write_text("Be brief.", encoding="utf-8")
    return AgentSettings(
        extensions=(
            "timing",
            ExtensionRef("message-window", {"limit": 6}),
            ExtensionRef("tool-search", {"limit": 5, "always": []}),
            ExtensionRef("required-tools", {"tools": ["look"]}),
            "context-message",
            "message-integrity",
            ExtensionRef("skills", {"directory": str(tmp_path / "skills")}),
        )
    )


def tools() -> list[Tool]:
    return [Desk().tool("look")]


def assert_sendable(gateway: Gateway) -> None:
    for request in gateway.provider.requests:
        assert violations(request.messages, "anthropic") == ()
        assert violations(request.messages, "openai") == ()


@in_virtual_time
async def test_a_long_talk_stays_sendable_and_small(house: House, agent: AgentSettings) -> None:
    script = [*SCRIPT, *(line for _ in range(6) for line in (reply(call("look")), "It is 7."))]
    async with house.open(*script, agent=agent, tools=tools()) as gateway:
        for number in range(7):
            assert (await gateway.ask(f"how much, {number}?")).reply == "It is 7."
        assert_sendable(gateway)
        assert [each.passing for each in gateway.seen if each.passing] == ["context-message", "skills/style"]
        assert len(gateway.seen) <= 6 + 2 + 2
        assert not [event for event in gateway.events if isinstance(event, SessionRepaired)]


NOT_FOUND_YET = {("model:ended", 1), ("model:ended", 2), ("tools:before_commit", 1)}
"""Crashes before the search for the tool was on disk: the script goes on as if it had been, so `look` is not there."""


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize(
    "point", ["model:ended", "tools:before_commit", "tools:started", "tools:ended", "results:after_commit"]
)
@in_virtual_time
async def test_a_crash_anywhere_ends_in_one_answer(house: House, agent: AgentSettings, point: str, n: int) -> None:
    await crash(house, point, *SCRIPT, n=n, agent=agent, tools=tools())
    rest = [reply(call("look")), "It is 7.", "It is 7.", "It is 7."]
    async with house.open(*rest, agent=agent, tools=tools()) as gateway:
        await gateway.app.idle()
        assert len(gateway.said) == 1
        assert (gateway.said == ["It is 7."]) is ((point, n) not in NOT_FOUND_YET)
        assert ("rather not answer" in gateway.said[0]) is ((point, n) in NOT_FOUND_YET)
        assert_sendable(gateway)
        assert not [event for event in gateway.events if isinstance(event, SessionRepaired)]
