"""Required tools: no answer before the look it needs, and a plain word when the model will not look."""

from typing import Any

import pytest
from tests.builtins.extended import extended
from tests.walks.house import House, crash, in_virtual_time
from tests.walks.tools import Desk

from finclaw.agent.settings import AgentSettings, ExtensionRef
from finclaw.errors import ToolError
from finclaw.kernel.event import PreviewUpdated
from finclaw.kernel.scope import StepContext, StepResult
from finclaw.testing import call, reply

LOOK = {"tools": ["look"]}


@pytest.mark.spec("MW-31", "DX-57", "RT-07")
@in_virtual_time
async def test_an_answer_that_came_too_early_is_asked_for_again(house: House) -> None:
    desk = Desk()
    script = ("I guess it is 5.", reply(call("look")), "It is 7.", "No need to look.")
    async with extended(house, "required-tools", *script, settings=LOOK, tools=[desk.tool("look")]) as gateway:
        assert (await gateway.ask("how much?")).reply == "It is 7."
        asked_again = gateway.provider.requests[1].messages
        assert [message.role for message in asked_again] == ["user", "system"]
        assert asked_again[-1].text.endswith("call: look")
        assert gateway.said == ["It is 7."]
        await gateway.ask("thanks")  # and what nobody saw is not part of the conversation
        texts = [message.text for message in gateway.provider.requests[3].messages]
        assert texts == ["how much?", "", "", "It is 7.", "thanks"]


@in_virtual_time
async def test_a_model_that_will_not_look_is_given_up_with_a_plain_word(house: House) -> None:
    desk = Desk()
    script = ("5", "5!", "5!!", "아마 5")
    settings = {"rules": [{"when": "price|주가", "tools": ["look"]}], "tries": 2}
    async with extended(house, "required-tools", *script, settings=settings, tools=[desk.tool("look")]) as gateway:
        outcome = await gateway.ask("the price?")
        assert len(gateway.provider.requests) == 3
        assert outcome.kind == "answered"
        assert outcome.reply == "Sorry, I could not look this up, so I would rather not answer. Please ask again."
        assert (await gateway.ask("thanks")).reply == "아마 5"
        assert [message.text for message in gateway.seen] == ["the price?", outcome.reply, "thanks"]


@in_virtual_time
async def test_korean_is_answered_in_korean_or_in_the_operators_words(house: House) -> None:
    desk = Desk()
    parts: dict[str, Any] = {"tools": [desk.tool("look")], "settings": {**LOOK, "tries": 0}}
    async with extended(house, "required-tools", "5", **parts) as gateway:
        assert "다시 물어봐 주세요" in ((await gateway.ask("얼마예요?")).reply or "")
    parts["settings"] = {**LOOK, "tries": 0, "given_up": "Call the desk."}
    async with extended(house, "required-tools", "5", **parts) as gateway:
        assert (await gateway.ask("얼마예요?")).reply == "Call the desk."


@in_virtual_time
async def test_the_answer_that_closes_a_turn_without_steps_left_is_held_to_it_too(house: House) -> None:
    desk = Desk()
    script = (reply(call("other")), reply(call("other", {"text": "2"})), "it must be 5")
    tools = [desk.tool("look"), desk.tool("other")]
    async with extended(house, "required-tools", *script, settings=LOOK, max_steps=2, tools=tools) as gateway:
        assert "rather not answer" in ((await gateway.ask("how much?")).reply or "")


@pytest.mark.parametrize(
    ("rule", "calls", "allowed"),
    [
        ({"tools": ["look", "other"]}, ["look"], False),
        ({"tools": ["look", "other"]}, ["look", "other"], True),
        ({"tools": ["look", "other"], "any": True}, ["other"], True),
        ({"tools": ["look", "other"], "any": True}, [], False),
        ({"tools": ["look"], "when": "weather"}, [], True),
        ({"tools": ["no__such"]}, [], True),
        ({"tools": ["no__such", "look"], "any": True}, [], False),
        ({"tools": ["broken"]}, ["broken"], True),
        ({"tools": ["forbidden"]}, ["forbidden"], False),
    ],
    ids=str,
)
@in_virtual_time
async def test_rules_say_what_is_needed(house: House, rule: dict[str, Any], calls: list[str], allowed: bool) -> None:
    async def broken(text: str, scope: Any) -> str:
        raise ToolError("the market is closed")

    desk = Desk()
    tools = [desk.tool("look"), desk.tool("other"), desk.tool("broken", broken)]
    tools.append(desk.tool("forbidden", transactional=True))
    script = [*([reply(*(call(name) for name in calls))] if calls else []), "answer"]
    settings = {"rules": [rule], "tries": 0}
    async with extended(house, "required-tools", *script, settings=settings, tools=tools) as gateway:
        assert ((await gateway.ask("how much?")).reply == "answer") == allowed


@in_virtual_time
async def test_a_call_with_arguments_that_do_not_fit_is_no_look(house: House) -> None:
    script = (reply(call("look", {"text": 5})), "answer")
    settings = {**LOOK, "tries": 0}
    async with extended(house, "required-tools", *script, settings=settings, tools=[Desk().tool("look")]) as gateway:
        assert (await gateway.ask("how much?")).reply != "answer"


@in_virtual_time
async def test_a_call_of_a_tool_that_is_not_shown_is_no_look(house: House) -> None:
    async def hide(ctx: StepContext) -> StepResult:
        ctx.tool_catalog = tuple(spec for spec in ctx.tool_catalog if spec.name != "look")
        return await ctx.next()

    desk = Desk()
    parts: dict[str, Any] = {"settings": {**LOOK, "tries": 0}, "tools": [desk.tool("look")], "layers": [("step", hide)]}
    async with extended(house, "required-tools", reply(call("look")), "It is 5.", **parts) as gateway:
        assert (await gateway.ask("how much?")).reply != "It is 5."
        assert desk.runs == []
        assert gateway.results[0].is_error


@in_virtual_time
async def test_tries_are_counted_across_a_crash(house: House) -> None:
    desk = Desk()
    agent = AgentSettings(extensions=(ExtensionRef("required-tools", LOOK),))
    tools = [desk.tool("look"), desk.tool("other")]
    await crash(house, "tools:ended", "5", reply(call("other")), agent=agent, tools=tools)
    async with house.open("5", "5", agent=agent, tools=tools) as gateway:
        await gateway.app.idle()
        assert len(gateway.provider.requests) == 2
        assert gateway.said == ["Sorry, I could not look this up, so I would rather not answer. Please ask again."]


@in_virtual_time
async def test_the_preview_begins_anew_with_the_new_answer(house: House) -> None:
    script = ("I guess it is 5. Really.", reply(call("look")), "It is 7. Truly.")
    async with extended(house, "required-tools", *script, settings=LOOK, tools=[Desk().tool("look")]) as gateway:
        await gateway.ask("how much?")
        previews = [event for event in gateway.events if isinstance(event, PreviewUpdated)]
        shown = ""
        for event in previews:
            shown = shown[: event.at] + event.text
        assert "5" not in shown


@in_virtual_time
async def test_a_broken_rule_is_said_at_the_start(house: House) -> None:
    with pytest.raises(Exception, match=r"'required-tools'.*the rule '\(' is no regular expression"):
        async with extended(house, "required-tools", settings={"rules": [{"when": "(", "tools": ["look"]}]}):
            raise AssertionError("it started")
