"""Options that were set for a session: on disk, in every turn until the session is reset, and nobody else's."""

from pathlib import Path

import pytest
from tests.walks.house import House, in_virtual_time

from finclaw.agent.settings import AgentSettings
from finclaw.kernel.envelope import TurnOptions
from finclaw.storage.kinds import StoreKind

THINKER = AgentSettings(model="anthropic/claude-haiku-4-5")


@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
def test_options_of_a_session_outlive_a_restart_and_end_with_a_reset(tmp_path: Path, kind: StoreKind) -> None:
    house = House(tmp_path, kind=kind)

    async def walk() -> None:
        async with house.open("one", agent=THINKER) as gateway:
            session = (await gateway.channel.write("hello")).session
            await gateway.app.idle()
            await gateway.app.options.keep(session, TurnOptions(thinking="high", queue="collect"))
        async with house.open("two", "three", "four", agent=THINKER) as gateway:
            await gateway.ask("mine")
            await gateway.ask("somebody else's", conversation="elsewhere")
            assert gateway.app.options.find(session).queue == "collect"
            await gateway.app.reset(session)
            await gateway.ask("anew")
            assert [each.thinking for each in gateway.provider.requests] == ["high", "off", "off"]
        async with house.open("five", agent=THINKER) as gateway:
            await gateway.ask("and after a restart")
            assert [each.thinking for each in gateway.provider.requests] == ["off"]

    house.clock.run(walk())


@in_virtual_time
async def test_a_kept_model_that_the_settings_lost_is_not_asked_for(house: House) -> None:
    async with house.open("one", agent=THINKER) as gateway:
        session = (await gateway.channel.write("hello")).session
        await gateway.app.idle()
        await gateway.app.options.keep(session, TurnOptions(model="gone/model-9", thinking="high"))
    async with house.open("two", agent=THINKER) as gateway:
        assert (await gateway.ask("again")).reply == "two"
        assert gateway.provider.requests[-1].thinking == "high"
