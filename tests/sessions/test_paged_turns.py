"""A turn over a conversation in pages goes exactly as over one in memory, and opens pages only where it must."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.machine import examples
from tests.ports.nouns import said
from tests.ports.paged import paged
from tests.sessions.streams import BASES, STREAMS

from finclaw.errors import SessionError
from finclaw.ids import new_id
from finclaw.kernel.event import Event
from finclaw.kernel.message import Append, Message, Patch, Remove, Replace, Truncate, TurnEvent
from finclaw.transcript.conversation import Conversation, RecentConversations, weigh
from finclaw.transcript.history import PagedHistory


def pushed(conversation: Conversation, event: TurnEvent) -> str:
    try:
        conversation.push(event)
    except SessionError as error:
        return str(error)
    return ""


@pytest.mark.spec("CS-01", "CS-05", "CS-07")
@given(BASES, STREAMS, st.data())
@settings(max_examples=examples(150), deadline=None)
def test_pages_and_a_tuple_go_through_any_events_alike(
    base: list[Message], stream: list[TurnEvent], data: st.DataObject
) -> None:
    ends = data.draw(st.lists(st.integers(0, len(base)), max_size=3))
    told: tuple[list[Event], list[Event]] = [], []
    history = paged(base, *ends)
    in_pages, in_memory = Conversation(history, emit=told[0].append), Conversation(base, emit=told[1].append)
    for event in stream:
        assert pushed(in_pages, event) == pushed(in_memory, event)
        assert in_pages.next_messages == in_memory.next_messages
        assert in_pages.lasting_messages == in_memory.lasting_messages
        assert in_pages.to_llm_messages() == in_memory.to_llm_messages()
    assert (in_pages.events, in_pages.base_messages) == (in_memory.events, in_memory.base_messages)
    assert told[0] == told[1]


def long(messages: int = 40) -> PagedHistory:
    return paged([said(f"m{number}") for number in range(messages)], 10, messages - 10)


def test_a_turn_that_only_adds_opens_nothing() -> None:
    history = long()
    conversation = Conversation(history, since=new_id())
    for number in range(3):
        added = said(new_id(), f"{number}")
        conversation.push(Append(added))
        conversation.push(Patch(added.id, {"seen": True}))
        conversation.push(Replace(added.id, said(added.id, "better")))
    conversation.push(Append(replace(said(new_id()), passing="note")))
    assert (len(conversation.next_messages), len(conversation.lasting_messages)) == (44, 43)
    assert history.open_count == 10


@pytest.mark.parametrize("event", [Remove("m3"), Patch("m3", {"a": 1}), Truncate(12), Replace("m3", said("m3", "b"))])
def test_an_event_that_reaches_a_page_changes_the_turn_and_not_the_base(event: TurnEvent) -> None:
    history = long()
    conversation = Conversation(history)
    conversation.push(event)
    assert conversation.next_messages != history
    assert conversation.base_messages is history
    assert [each.id for each in history] == [f"m{at}" for at in range(40)]


@pytest.mark.spec("DX-33")
def test_an_open_page_weighs_more_when_it_is_kept_again() -> None:
    history, rest = long(), said("other")
    room = 10 * weigh(rest) + sum(page.size for page in history.pages) + weigh(rest)
    recent = RecentConversations(weight=room)
    recent.keep("b", 1, (rest,))
    recent.keep("a", 1, history)
    assert recent.get("b") is not None
    assert history[0].id == "m0"
    assert history[15].id == "m15"
    recent.keep("a", 2, history)
    assert recent.get("b") is None
    assert recent.get("a") == (2, history)


def test_what_a_conversation_in_pages_weighs_is_reckoned_alike_however_it_came_about() -> None:
    history, news = long(), said("news", "x" * 100)
    grown = Conversation(history, [Append(news)]).lasting_messages
    step_by_step, at_once = RecentConversations(), RecentConversations()
    step_by_step.keep("a", 1, history)
    step_by_step.keep("a", 2, grown)
    at_once.keep("a", 2, grown)
    assert step_by_step.get("a") == at_once.get("a")
    assert [each._weight for each in (step_by_step, at_once)] == [step_by_step._weight] * 2  # pyright: ignore[reportPrivateUsage]
