"""The tool that ends a turn, with the model's words or without."""

import pytest
from tests.walks.house import House, in_virtual_time
from tests.walks.tools import Desk

from finclaw.agent.settings import AgentSettings, ExtensionRef
from finclaw.testing import call, reply, say

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
