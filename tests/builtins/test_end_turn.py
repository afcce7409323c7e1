"""The tool that ends a turn, with the model's words or without."""

import pytest
from tests.walks.house import House, crash, in_virtual_time
from tests.walks.tools import Desk

from finclaw.agent.settings import AgentSettings, ExtensionRef
from finclaw.testing import Reply, call, reply, say

SILENT = call("end_turn", {"reply": False, "reason": "only thanks"})


@pytest.mark.spec("P-41", "K-03")
@in_virtual_time
async def test_nobody_is_answered_and_the_conversation_goes_on(house: House) -> None:
    async with house.open(reply(SILENT), "Hello!") as gateway:
        outcome = await gateway.ask("고마워요")
        assert (outcome.kind, outcome.reason) == ("skipped", "the model chose not to answer: NO_REPLY")
        assert len(gateway.provider.requests) == 1
        assert (await gateway.ask("hi")).reply == "Hello!"
        assert gateway.said == ["Hello!"]
        assert [message.role for message in gateway.seen] == ["user", "assistant", "tool", "user"]


@in_virtual_time
async def test_what_was_said_beside_it_is_the_answer(house: House) -> None:
    script = reply(say("It is 7."), call("end_turn", {"reply": True}))
    async with house.open(script, "next") as gateway:
        outcome = await gateway.ask("how much?")
        assert (outcome.kind, outcome.reply, gateway.said) == ("answered", "It is 7.", ["It is 7."])
        assert len(gateway.provider.requests) == 1
        assert (await gateway.ask("and now?")).reply == "next"


@in_virtual_time
async def test_a_promise_of_words_without_any_does_not_end_it(house: House) -> None:
    async with house.open(reply(call("end_turn", {"reply": True})), "It is 7.") as gateway:
        assert (await gateway.ask("how much?")).reply == "It is 7."
        assert "say it now" in gateway.results[0].content


@in_virtual_time
async def test_a_call_that_was_wrong_ends_nothing(house: House) -> None:
    async with house.open(reply(call("end_turn", {"reply": "perhaps"})), "It is 7.") as gateway:
        assert (await gateway.ask("how much?")).reply == "It is 7."
        assert gateway.results[0].status == "invalid"


@in_virtual_time
async def test_what_was_called_beside_it_still_runs(house: House) -> None:
    desk = Desk()
    async with house.open(reply(call("look"), SILENT), tools=[desk.tool("look")]) as gateway:
        outcome = await gateway.ask("note this")
        assert outcome.kind == "skipped"
        assert [use.name for use in outcome.tools] == ["look", "end_turn"]


@in_virtual_time
async def test_it_is_no_way_around_a_look_that_is_required(house: House) -> None:
    required = ExtensionRef("required-tools", settings={"tools": ["look"]})
    agent = AgentSettings(extensions=(required,))
    script = reply(say("It is 5."), call("end_turn", {"reply": True}))
    async with house.open(script, agent=agent, tools=[Desk().tool("look")]) as gateway:
        assert "could not look this up" in ((await gateway.ask("how much?")).reply or "")


@pytest.mark.spec("P-41")
@pytest.mark.parametrize(
    ("script", "said"),
    [(reply(SILENT), []), (reply(say("It is 7."), call("end_turn", {"reply": True})), ["It is 7."])],
)
@pytest.mark.parametrize("point", ["tools:ended", "results:after_commit"])
def test_a_crash_behind_it_asks_the_model_nothing_more(
    house: House, script: Reply, said: list[str], point: str
) -> None:
    async def walk() -> None:
        accepted = await crash(house, point, script)
        async with house.open() as gateway:
            outcome = await gateway.outcome(accepted)
            await gateway.app.idle()
            assert (outcome.kind, gateway.said) == ("answered" if said else "skipped", said)
            assert gateway.provider.requests == []

    house.clock.run(walk())


@in_virtual_time
async def test_whoever_writes_after_a_crash_behind_it_is_answered(house: House) -> None:
    """What ended one turn ends no other: the next one begins with a message of its own."""
    await crash(house, "results:after_commit", reply(SILENT))
    async with house.open("Hello!") as gateway:
        assert (await gateway.ask("hi")).reply == "Hello!"
        assert len(gateway.provider.requests) == 1


@in_virtual_time
async def test_a_crash_is_no_way_around_a_look_that_is_required(house: House) -> None:
    agent = AgentSettings(extensions=(ExtensionRef("required-tools", settings={"tools": ["look"]}),))
    tools = [Desk().tool("look")]
    script = reply(say("It is 5."), call("end_turn", {"reply": True}))
    accepted = await crash(house, "results:after_commit", script, agent=agent, tools=tools)
    async with house.open(agent=agent, tools=tools) as gateway:
        assert "could not look this up" in ((await gateway.outcome(accepted)).reply or "")
