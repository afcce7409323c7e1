"""The message window: old exchanges leave, whole, and what is left can always be sent."""

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builtins.extended import extended
from tests.support.api_rules import violations
from tests.walks.house import House, crash, in_virtual_time
from tests.walks.tools import Desk

from finclaw.agent.settings import AgentSettings, ExtensionRef
from finclaw.builtins.message_window import WindowSettings, window_start
from finclaw.kernel.message import Message, Role, Source, Text, ToolCall, ToolResult
from finclaw.testing import call, reply
from finclaw.transcript.integrity import calls_of, match_results

NOW = datetime(2025, 1, 6, tzinfo=UTC)


@pytest.mark.spec("MW-31", "CP-21")
@in_virtual_time
async def test_a_long_conversation_keeps_its_last_messages(house: House) -> None:
    script = (f"answer {number}" for number in range(8))
    async with extended(house, "message-window", *script, settings={"limit": 6, "keep": 4}) as gateway:
        seen: list[list[str]] = []
        for number in range(8):
            await gateway.ask(f"question {number}")
            seen.append([message.text for message in gateway.seen])
        assert max(map(len, seen)) == 5
        assert seen[-1][-1] == "question 7"
        assert all(each[0].startswith("question") for each in seen)
        beginnings = [each[0] for each in seen]
        assert len(set(beginnings)) < len(beginnings) - 2, "it must not begin anew every turn"


@in_virtual_time
async def test_what_left_is_gone_after_a_restart_too(house: House) -> None:
    settings = {"limit": 2}
    async with extended(house, "message-window", "one", "two", settings=settings) as gateway:
        await gateway.ask("first")
        await gateway.ask("second")
    async with extended(house, "message-window", "three", settings=settings) as gateway:
        await gateway.ask("third")
        assert [message.text for message in gateway.seen] == ["third"]


@in_virtual_time
async def test_notes_that_pass_are_not_counted(house: House) -> None:
    agent = AgentSettings(extensions=("context-message", ExtensionRef("message-window", {"limit": 3})))
    async with house.open("one", "two", agent=agent) as gateway:
        await gateway.ask("first")
        await gateway.ask("second")
        assert [message.text for message in gateway.seen if not message.passing] == ["first", "one", "second"]


@pytest.mark.spec("DX-63")
@in_virtual_time
async def test_a_call_is_never_parted_from_its_result(house: House) -> None:
    desk = Desk()
    script = [line for _ in range(5) for line in (reply(call("look")), "seen")]
    async with extended(
        house, "message-window", *script, settings={"limit": 5, "keep": 5}, tools=[desk.tool("look")]
    ) as gateway:
        for number in range(5):
            await gateway.ask(f"question {number}")
            for request in gateway.provider.requests:
                assert violations(request.messages, "anthropic") == ()
                assert violations(request.messages, "openai") == ()
        assert gateway.seen[0].text == "question 3"


@in_virtual_time
async def test_a_turn_with_more_messages_than_the_window_keeps_its_question(house: House) -> None:
    desk = Desk()
    settings = {"limit": 1}
    agent = AgentSettings(extensions=(ExtensionRef("message-window", settings),))
    look = [reply(call("look", {"text": str(number)})) for number in range(3)]
    await crash(house, "tools:started", *look, n=3, agent=agent, tools=[desk.tool("look")])
    async with house.open("found", agent=agent, tools=[desk.tool("look")]) as gateway:
        await gateway.app.idle()
        assert gateway.seen[0].text == "buy"
        assert len(gateway.results) == 3
        assert gateway.said == ["found"]


@pytest.mark.parametrize(("settings", "kept"), [((200,), 150), ((1,), 1), ((3,), 3), ((8, 2), 2), ((8, 20), 8)])
def test_three_quarters_are_left_unless_it_says_otherwise(settings: tuple[int, ...], kept: int) -> None:
    assert WindowSettings(*settings).kept_messages == kept


@pytest.mark.parametrize("settings", [{"limit": 0}, {"limits": 3}, {"limit": "many"}])
@in_virtual_time
async def test_a_setting_that_does_not_fit_is_said_at_the_start(house: House, settings: dict[str, object]) -> None:
    with pytest.raises(Exception, match=r"'message-window'.*its settings do not fit.*there are: limit, keep"):
        async with extended(house, "message-window", settings=settings):
            raise AssertionError("it started")


# ── whatever the conversation ───────────────────────────────────────────────────────────────────────────────


class Writing:
    """Makes conversations, good and bad ones."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    def add(self, role: Role, *blocks: Text | ToolCall | ToolResult) -> Message:
        message = Message(f"m{len(self.messages)}", role, blocks, Source("user"), NOW)
        self.messages.append(message)
        return message

    def exchange(self, steps: Sequence[int], note: bool, answered: bool) -> None:
        self.add("user", Text("question"))
        if note:
            self.add("system", Text("note"))
        for calls in steps:
            ids = [f"c{len(self.messages)}-{number}" for number in range(calls)]
            self.add("assistant", Text("look"), *(ToolCall(id, "look") for id in ids))
            self.add("tool", *(ToolResult(id, "look", "found") for id in ids))
        if answered:
            self.add("assistant", Text("answer"))


exchanges = st.lists(st.tuples(st.lists(st.integers(1, 3), max_size=3), st.booleans(), st.booleans()), max_size=12)


@pytest.mark.spec("DX-63")
@given(exchanges, st.integers(1, 30))
def test_a_window_over_a_valid_conversation_is_a_valid_request(
    made: list[tuple[list[int], bool, bool]], keep: int
) -> None:
    writing = Writing()
    for steps, note, answered in made:
        writing.exchange(steps, note, answered)
    current = writing.add("user", Text("now"))
    start = window_start(writing.messages, keep, current.id)
    window = writing.messages[start:]
    assert violations(window, "anthropic") == ()
    assert violations(window, "openai") == ()
    assert window[0].role == "user"
    assert current in window
    assert len(window) <= keep or start == 0


blocks = {
    "user": st.just(Text("words")),
    "system": st.just(Text("words")),
    "assistant": st.one_of(st.just(Text("words")), st.builds(ToolCall, st.sampled_from("abc"), st.just("look"))),
    "tool": st.builds(ToolResult, st.sampled_from("abc"), st.just("look"), st.just("found")),
}
wild = st.lists(
    st.sampled_from(sorted(blocks)).flatmap(
        lambda role: st.tuples(st.just(role), st.lists(blocks[role], min_size=1, max_size=3))
    ),
    min_size=1,
    max_size=20,
)


@given(wild, st.integers(1, 20), st.data())
def test_even_a_broken_conversation_is_cut_at_a_persons_words_and_between_pairs(
    made: list[tuple[Role, list[Text | ToolCall | ToolResult]]], keep: int, data: st.DataObject
) -> None:
    writing = Writing()
    for role, contents in made:
        writing.add(role, *contents)
    current = data.draw(st.sampled_from(writing.messages))
    start = window_start(writing.messages, keep, current.id)
    assert start == 0 or writing.messages[start].role == "user"
    assert current in writing.messages[start:]
    for found in match_results(writing.messages, calls_of(writing.messages)):
        if found.call is not None:
            assert (found.call.place < start) == (found.place < start)
