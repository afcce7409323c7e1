"""The prompt on its way to a model: the same system bytes in every turn, and what changes behind the input."""

from pathlib import Path
from typing import Any

import pytest
from tests.walks.house import House, in_virtual_time

import finclaw
from finclaw.agent.settings import AgentSettings
from finclaw.errors import ConfigError
from finclaw.kernel.context import Context
from finclaw.kernel.extension import ExtensionApi
from finclaw.testing import MemoryChannel, ScriptedProvider


class Remembers:
    name = "remembers"

    def __init__(self) -> None:
        self._asked = 0

    def register(self, api: ExtensionApi) -> None:
        api.context.provide("memory", self.recall)
        api.prompt.section("Second", "low", priority=-1)
        api.prompt.section("First", "high", priority=1)

    async def recall(self, context: Context) -> Any:
        self._asked += 1
        return f"asked {self._asked} times"


@pytest.mark.spec("DX-42", "DX-77", "PC-01", "SP-02")
@in_virtual_time
async def test_what_changes_is_told_behind_the_input_and_the_system_bytes_stay(house: House) -> None:
    channel, provider = MemoryChannel(house.clock), ScriptedProvider("one", "two", clock=house.clock)
    settings = finclaw.Settings(state=house.state, agent=AgentSettings(instructions="Be brief."))
    parts: dict[str, Any] = {"channels": [channel], "provider": provider, "clock": house.clock, "threaded": False}
    async with finclaw.build(settings, extensions=[Remembers()], **parts) as app:
        for words in ("hello", "again"):
            await app.wait((await channel.write(words)).id, float("inf"))
            await house.clock.sleep(86_400)
    first, second = provider.requests
    assert first.system.encode() == second.system.encode()
    assert first.system.index("## First\nhigh") < first.system.index("## Second\nlow")
    assert "market__quote" in first.system
    assert [message.passing for message in first.messages] == ["", "moment"]
    assert [message.text for message in second.messages if not message.passing] == ["hello", "one", "again"]
    assert "asked 1 times" in first.messages[-1].text
    assert "asked 2 times" in second.messages[-1].text


@in_virtual_time
async def test_where_there_is_nothing_to_tell_there_is_no_note(house: House) -> None:
    async with house.open("one") as gateway:
        await gateway.ask("hello")
        assert [message.text for message in gateway.seen] == ["hello"]


@pytest.mark.spec("SP-07", "DX-42")
async def test_a_budget_that_cannot_be_kept_refuses_the_start(tmp_path: Path) -> None:
    settings = finclaw.Settings(state=tmp_path, agent=AgentSettings(prompt_tokens=50))
    with pytest.raises(ConfigError, match=r"agent.prompt_tokens is 50; raise it"):
        async with finclaw.build(settings):
            pass


@pytest.mark.spec("SP-06", "SP-08")
@in_virtual_time
async def test_the_mode_and_the_level_are_settings(house: House) -> None:
    agent = AgentSettings(prompt_mode="none", compliance="institutional")
    async with house.open("one", agent=agent) as gateway:
        await gateway.ask("hello")
        (request,) = gateway.provider.requests
    assert "acts for an institution" in request.system
    assert "## Risk" in request.system
    assert "## Market data" in request.system, "an extension's required section"
    assert "FinClaw" not in request.system
