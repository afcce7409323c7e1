"""A long conversation's request is the same bytes whether its beginning was kept in one piece or written anew."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.machine import examples
from tests.ports.paged import paged

from finclaw.ids import new_id
from finclaw.kernel.chunk import Features, Model, ModelRequest
from finclaw.kernel.message import Block, Image, Message, Role, Source, Text, Thinking, ToolCall, ToolResult
from finclaw.providers.anthropic.request import AnthropicRequestWriter as AnthropicWriter
from finclaw.providers.http.prefix_cache import SHORT, RequestPrefix, RequestPrefixCache
from finclaw.providers.openai.request import OpenAIRequestWriter as OpenAIWriter
from finclaw.transcript.history import Messages

AT = datetime(2026, 1, 5, tzinfo=UTC)
KEPT = 8_000_000
ROLES: tuple[Role, ...] = ("user", "assistant")
WRITERS: dict[str, Callable[[], AnthropicWriter | OpenAIWriter]] = {
    "anthropic": lambda: AnthropicWriter(KEPT),
    "openai": lambda: OpenAIWriter(KEPT, "max_tokens"),
}
Change = Callable[[list[Message]], None]


def message(role: Role = "user", text: str = "a", passing: str = "") -> Message:
    return Message(new_id(), role, (Text(text),), Source("user"), AT, passing=passing)


def dialogue(length: int) -> list[Message]:
    return [message("assistant" if place % 2 else "user", f"word {place}") for place in range(length)]


def called(call_id: str) -> list[Message]:
    """By an id that other calls may have as well: some servers number them anew for every answer."""
    call = Message(new_id(), "assistant", (ToolCall(call_id, "look", {}),), Source("assistant"), AT)
    return [message(), call, Message(new_id(), "tool", (ToolResult(call_id, "look", "seen"),), Source("tool"), AT)]


def request(messages: list[Message], *, seeing: bool = False) -> ModelRequest:
    return asked_with(tuple(messages), seeing=seeing)


def asked_with(messages: Messages, *, seeing: bool = False, system: str = "s") -> ModelRequest:
    model = Model("p", "m", features=Features(images=seeing))
    return ModelRequest(model=model, system=system, messages=messages)


@st.composite
def changes(draw: st.DrawFn) -> Change:
    place = draw(st.integers(0, 200))
    what = draw(
        st.sampled_from(["append", "replace", "remove", "passing", "cut", "picture", "lengthen", "empty", "call"])
    )
    role: Role = draw(st.sampled_from(ROLES))

    def change(messages: list[Message]) -> None:
        at = place % len(messages)
        match what:
            case "append":
                messages.append(message(role))
            case "replace":
                messages[at] = message(messages[at].role, "other")
            case "remove":
                del messages[at]
            case "passing":
                messages.append(message("system", "note", passing="k"))
            case "cut":
                del messages[: len(messages) // 3]
            case "picture":
                messages.append(Message(new_id(), "user", (Image("image/png", b"x"),), Source("user"), AT))
            case "empty":
                messages.append(message(role, ""))
            case "call":
                messages.extend(called(f"call_{place % 3}"))
            case _:
                messages.extend(dialogue(SHORT + 2))
        messages.append(message())  # and it is the person who asks

    return change


@pytest.mark.parametrize("writer", WRITERS)
@given(steps=st.lists(changes(), min_size=2, max_size=8), seeing=st.booleans())
@settings(max_examples=examples(60), deadline=None)
def test_whatever_changes_the_bytes_are_those_of_a_new_writer(writer: str, steps: list[Change], seeing: bool) -> None:
    kept, messages = WRITERS[writer](), [*dialogue(2 * SHORT), message()]
    for step in steps:
        for _ in ("for the first time", "and once more"):
            asked = request(messages, seeing=seeing)
            assert kept.write(asked) == WRITERS[writer]().write(asked)
        step(messages)


@pytest.mark.parametrize("writer", WRITERS)
def test_who_sees_images_gets_them_though_the_last_reader_did_not(writer: str) -> None:
    picture = Message(new_id(), "user", (Image("image/png", b"x"),), Source("user"), AT)
    kept, messages = WRITERS[writer](), [picture, *dialogue(2 * SHORT), message()]
    for seeing in (False, True, False):
        asked = request(messages, seeing=seeing)
        assert kept.write(asked) == WRITERS[writer]().write(asked)


def test_calls_of_one_id_elsewhere_do_not_make_a_long_conversation_dear() -> None:
    kept, long = AnthropicWriter(KEPT), [*dialogue(2 * SHORT), *called("call_1"), *dialogue(2 * SHORT), message()]
    kept.write(request([*called("call_1"), message()]))
    (_, one, _), (_, other, _) = kept.parts(request(long)), kept.parts(request(long))
    assert one is other
    assert len(one) > 1_000


def test_a_repeated_call_id_is_noticed_though_the_first_is_in_the_kept_beginning() -> None:
    kept, messages = AnthropicWriter(KEPT), [*called("call_1"), *dialogue(4 * SHORT), message()]
    kept.write(request(messages))
    messages += [*called("call_1"), message()]
    assert kept.write(request(messages)) == AnthropicWriter(KEPT).write(request(messages))
    assert kept.write(request(messages)).count(b'"call_1"') == 2


def test_prefixes_take_no_more_room_than_they_may() -> None:
    prefixes, long = RequestPrefixCache(limit=100), [tuple(dialogue(SHORT + 1)) for _ in range(3)]
    for messages in long:
        prefixes.store(RequestPrefix(messages, b"x" * 40))
    assert [bool(prefixes.find(messages).joined) for messages in long] == [False, True, True]
    prefixes.store(RequestPrefix(long[1], b"x" * 101))
    assert not any(prefixes.find(messages).joined for messages in long)


def test_a_conversation_that_was_read_anew_is_written_anew() -> None:
    """Equal is not the same: comparing thousands of messages word by word would cost more than writing them."""
    prefixes, messages = RequestPrefixCache(limit=100), tuple(dialogue(SHORT + 1))
    prefixes.store(RequestPrefix(messages, b"x"))
    again = tuple(Message(each.id, each.role, each.blocks, each.source, AT) for each in messages)
    assert prefixes.find(messages).joined == b"x"
    assert not prefixes.find(again).joined


# ── in pages, as a store reads them ─────────────────────────────────────────────────────────────────────────

WORDS = st.sampled_from(["", " ", "\n\u2003", "a", "반갑습니다", 'say "}],"source":{', "\\", "\x00\x1f"])
BLOCKS: st.SearchStrategy[Block] = (
    st.builds(Text, WORDS)
    | st.builds(Thinking, WORDS, st.sampled_from(["", "signed"]))
    | st.builds(ToolCall, st.sampled_from(["c1", "c2", "not legal!"]), st.just("look"), st.just({"text": "x"}))
    | st.builds(ToolResult, st.just("c1"), st.just("look"), WORDS)
    | st.builds(Image, st.just("image/png"), st.just(b"x"))
)
ODD = st.builds(
    Message,
    st.builds(new_id),
    st.sampled_from(["user", "assistant", "tool", "system"]),
    st.lists(BLOCKS, max_size=3).map(tuple),
    st.just(Source("user")),
    st.just(AT),
    st.fixed_dictionaries({"model": st.sampled_from(["p/m", "other/m", 7])}),
)


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("system", ["s", ""])
@given(odd=st.lists(st.tuples(st.integers(0, 120), ODD), max_size=6), seeing=st.booleans(), open_one=st.booleans())
@settings(max_examples=examples(60), deadline=None)
def test_pages_are_written_as_their_messages_would_be(
    writer: str, system: str, odd: list[tuple[int, Message]], seeing: bool, open_one: bool
) -> None:
    messages = [*dialogue(2 * SHORT), message()]
    for place, each in odd:
        messages.insert(place, each)
    history = paged(messages, 30, 90)
    if open_one:
        assert history[40] == messages[40]
    fresh = WRITERS[writer]().write(asked_with(tuple(messages), seeing=seeing, system=system))
    kept = WRITERS[writer]()
    for _ in ("for the first time", "and once more"):
        assert kept.write(asked_with(history, seeing=seeing, system=system)) == fresh


@pytest.mark.parametrize("writer", WRITERS)
def test_who_writes_a_request_leaves_the_pages_closed(writer: str) -> None:
    messages = [*dialogue(20), *called("call_of_twenty_characters"), *dialogue(200), message()]
    history, kept = paged(messages, 10, 100, 190), WRITERS[writer]()
    for _ in range(2):
        kept.write(asked_with(history))
    assert history.open_count == len(messages) - 190 + 10, "all but the first page, which names the conversation"


@pytest.mark.parametrize("writer", WRITERS)
def test_the_long_beginning_is_handed_on_as_it_is_kept(writer: str) -> None:
    kept, messages = WRITERS[writer](), (*dialogue(4 * SHORT), message())
    (_, one, _), (_, other, _) = kept.parts(asked_with(messages)), kept.parts(asked_with(messages))
    assert one is other
    assert len(one) > 1_000
