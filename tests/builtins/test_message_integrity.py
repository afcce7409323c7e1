"""Message integrity: no request that an API would refuse, and no answer that is none."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builtins.extended import extended
from tests.support.api_rules import violations
from tests.walks.house import AnyRegistration, Gateway, House, crash, in_virtual_time
from tests.walks.tools import Desk

from finclaw.agent.settings import AgentSettings, ExtensionRef
from finclaw.agent.turn_state.turn_log import as_layer_event
from finclaw.builtins.message_integrity import changes, made_whole
from finclaw.ids import new_id
from finclaw.kernel.event import SessionRepaired
from finclaw.kernel.message import (
    Append,
    Block,
    Message,
    MessageEvent,
    Remove,
    Role,
    Source,
    Text,
    ToolCall,
    ToolResult,
    Truncate,
)
from finclaw.kernel.scope import StepContext, StepResult
from finclaw.testing import call, reply
from finclaw.transcript.conversation import Conversation

NOW = datetime(2025, 1, 6, tzinfo=UTC)


def words(role: Role, *blocks: Block, id: str = "") -> Message:
    return Message(id or new_id(), role, blocks, Source("extension"), NOW)


def breaking(*events: MessageEvent | type[Remove]) -> list[AnyRegistration]:
    """A layer that does something foolish to the conversation before the second step. `Remove`: of the tool results."""

    async def foolish(ctx: StepContext) -> StepResult:
        if ctx.index == 1:
            for event in events:
                results = [each.id for each in ctx.conversation.next_messages if each.role == "tool"]
                ctx.emit_message_event(Remove(results[-1]) if isinstance(event, type) else event)
        return await ctx.next()

    return [("step", foolish)]


def is_sendable(gateway: Gateway) -> bool:
    seen = [request.messages for request in gateway.provider.requests]
    return not any(violations(each, "anthropic") or violations(each, "openai") for each in seen)


@pytest.mark.parametrize(
    "layers",
    [
        breaking(Remove),
        breaking(Truncate(2)),
        breaking(Truncate(1)),
        breaking(Append(words("user"))),
        breaking(Append(words("user", Text("  ")))),
        breaking(Append(words("assistant", ToolCall("ghost", "look")))),
        breaking(Append(words("tool", ToolResult("ghost", "look", "boo")))),
        breaking(Remove, Append(words("user", Text("by the way")))),
    ],
    ids=["result gone", "call first", "result first", "empty", "blank", "open call", "orphan", "a note instead"],
)
@in_virtual_time
async def test_what_another_layer_breaks_is_mended_and_told(house: House, layers: list[AnyRegistration]) -> None:
    desk = Desk()
    script = (reply(call("look")), "seen", "hello")
    parts: dict[str, Any] = {"layers": layers, "tools": [desk.tool("look")]}
    async with extended(house, "message-integrity", *script, **parts) as gateway:
        assert (await gateway.ask("look!")).reply == "seen"
        assert (await gateway.ask("hi")).reply == "hello"
        assert is_sendable(gateway)
        told = [event for event in gateway.events if isinstance(event, SessionRepaired)]
        assert len(told) == 1
        assert told[0].turn_id
        assert told[0].findings
    async with extended(house, "message-integrity", "still here", **parts) as gateway:  # and it lasts
        await gateway.ask("hi")
        assert is_sendable(gateway)
        assert not [event for event in gateway.events if isinstance(event, SessionRepaired)]


@in_virtual_time
async def test_a_whole_conversation_is_left_as_it_is(house: House) -> None:
    desk = Desk()
    script = (reply(call("look"), call("look", {"text": "2"})), "seen", "hello")
    async with extended(house, "message-integrity", *script, tools=[desk.tool("look")]) as gateway:
        await gateway.ask("look!")
        await gateway.ask("hi")
        assert not [event for event in gateway.events if isinstance(event, SessionRepaired)]
        assert [message.source.kind for message in gateway.seen] == ["user", "assistant", "tool", "assistant", "user"]


@in_virtual_time
async def test_calls_that_a_crash_left_open_are_run_and_not_called_lost(house: House) -> None:
    desk = Desk()
    agent = AgentSettings(extensions=(ExtensionRef("message-integrity"),))
    await crash(house, "tools:started", reply(call("look")), agent=agent, tools=[desk.tool("look")])
    async with house.open("seen", agent=agent, tools=[desk.tool("look")]) as gateway:
        await gateway.app.idle()
        assert [result.content for result in gateway.results] == ["look: "]
        assert is_sendable(gateway)
        assert gateway.said == ["seen"]


@pytest.mark.spec("RT-07")
@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (reply(), "it was empty"),
        (reply(" \n"), "it was empty"),
        (reply("Let me look.", stop="tool_use"), "announced a tool call and made none"),
        (reply('<tool_call>{"name": "look"}</tool_call>'), "wrote a tool call as text"),
    ],
)
@in_virtual_time
async def test_an_answer_that_is_none_is_asked_for_again(house: House, bad: Any, why: str) -> None:
    async with extended(house, "message-integrity", bad, "Here you are.", "hello") as gateway:
        assert (await gateway.ask("hi")).reply == "Here you are."
        assert why in gateway.provider.requests[1].messages[-1].text
        await gateway.ask("thanks")
        assert [message.text for message in gateway.seen] == ["hi", "Here you are.", "thanks"]


@in_virtual_time
async def test_a_model_that_has_nothing_to_say_is_not_asked_for_ever(house: House) -> None:
    async with extended(house, "message-integrity", *[reply()] * 3) as gateway:
        outcome = await gateway.ask("hi")
        assert len(gateway.provider.requests) == 3
        assert outcome.kind == "answered"
        assert "I came to no answer" in (outcome.reply or "")


@pytest.mark.parametrize(
    "good", [reply("no", stop="refusal"), reply(stop="refusal"), reply("half an", stop="max_tokens")]
)
@in_virtual_time
async def test_a_refusal_and_a_long_answer_are_answers(house: House, good: Any) -> None:
    async with extended(house, "message-integrity", good) as gateway:
        await gateway.ask("hi")
        assert len(gateway.provider.requests) == 1


# ── whatever the conversation ───────────────────────────────────────────────────────────────────────────────

ids = st.sampled_from(["a", "b", "c", "d"])
texts = st.sampled_from(["words", "", "  "]).map(Text)
calls = ids.map(lambda id: ToolCall(id, "look"))
results = ids.map(lambda id: ToolResult(id, "look", "found"))
any_blocks = st.lists(st.one_of(texts, calls, results), max_size=3).map(tuple)
roles: st.SearchStrategy[Role] = st.sampled_from(["user", "assistant", "tool", "system"])
conversations = st.lists(st.tuples(roles, any_blocks, st.booleans()), max_size=14)


def written(made: Sequence[tuple[Role, tuple[Block, ...], bool]]) -> list[Message]:
    return [
        Message(f"m{place}", role, blocks, Source("user"), NOW, passing=f"k{place}" if passing else "")
        for place, (role, blocks, passing) in enumerate(made)
    ]


@given(conversations)
def test_the_events_make_exactly_the_messages_that_were_wanted(made: list[Any]) -> None:
    old = [*written(made), words("user", Text("now"), id="input")]
    whole, _ = made_whole(old)
    conversation = Conversation(old)
    for event in changes(old, whole):
        conversation.push(as_layer_event(event))
    assert [(each.id, each.role, each.blocks) for each in conversation.next_messages] == [
        (each.id, each.role, each.blocks) for each in whole
    ]
    assert made_whole(conversation.next_messages)[1] == []


@given(conversations)
def test_whatever_was_broken_only_names_are_left_to_the_provider(made: list[Any]) -> None:
    whole, _ = made_whole([*written(made), words("user", Text("now"), id="input")])
    for rules in ("anthropic", "openai"):
        left = [each.text for each in violations(whole, rules)]
        assert all("is used twice" in text or "two calls have one id" in text or "visible" in text for text in left)


def test_a_message_that_is_there_twice_is_there_once_afterwards() -> None:
    said, corrected = (words("user", Text(text), id="same") for text in ("agian", "again"))
    old = [words("user", Text("first")), said, words("assistant", Text("yes")), corrected]
    whole, findings = made_whole(old)
    conversation = Conversation(old)
    for event in changes(old, whole):
        conversation.push(as_layer_event(event))
    assert findings
    assert [each.text for each in conversation.next_messages] == ["first", "again", "yes"]
