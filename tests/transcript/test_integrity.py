"""Mending: all five kinds found and mended, nothing invented, nothing said lost, and twice is the same as once."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.machine import examples
from tests.ports.nouns import AT
from tests.support.api_rules import violations

from finclaw.kernel.message import Block, Message, Role, Source, Text, Thinking, ToolCall, ToolResult
from finclaw.providers.anthropic.message import write_blocks
from finclaw.transcript.integrity import ABORTED, UNAVAILABLE, mend
from finclaw.transcript.request_sanitizer import OPENING, legal_name, sanitize_request


def entry(id: str, role: Role, *blocks: Block | str) -> Message:
    made = tuple(Text(each) if isinstance(each, str) else each for each in blocks)
    return Message(id, role, made, Source(role), AT)


def call(id: str = "a", **args: Any) -> ToolCall:
    return ToolCall(id, "quote", args)


def result(id: str = "a", content: str = "190.50") -> ToolResult:
    return ToolResult(id, "quote", content)


HI = entry("hi", "user", "what does it cost?")
ASK = entry("ask", "assistant", call())
TOLD = entry("told", "tool", result())
SO = entry("so", "assistant", "190.50")
THANKS = entry("thanks", "user", "thanks")
WHOLE = (HI, ASK, TOLD, SO, THANKS)


def kinds(messages: Sequence[Message]) -> list[str]:
    return [finding.kind for finding in mend(messages).findings]


def judge(messages: Sequence[Message]) -> None:
    assert violations(messages, "anthropic") == ()
    assert violations(messages, "openai") == ()


# ── each kind by itself ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("TR-12")
def test_a_whole_conversation_is_left_alone() -> None:
    mended = mend(WHOLE)
    assert mended.findings == ()
    assert [id(one) for one in mended.messages] == [id(one) for one in WHOLE]


@pytest.mark.spec("TR-02", "TR-05", "DX-34")
def test_a_message_that_is_there_twice_is_kept_once() -> None:
    assert mend((*WHOLE, SO)).messages == WHOLE
    assert kinds((*WHOLE, SO)) == ["duplicate-entry"]


@pytest.mark.spec("DX-34", "DX-60")
def test_a_whole_turn_that_was_folded_twice_is_kept_once() -> None:
    assert mend((*WHOLE, *WHOLE)).messages == WHOLE


def test_of_two_messages_with_one_id_the_later_words_stand_at_the_earlier_place() -> None:
    corrected = entry("so", "assistant", "190.55")
    assert mend((*WHOLE, corrected)).messages == (HI, ASK, TOLD, corrected, THANKS)


@pytest.mark.spec("TR-05", "DX-34")
def test_a_person_may_say_yes_twice_in_the_same_millisecond() -> None:
    twice = (entry("1", "user", "yes"), entry("2", "user", "yes"))
    assert mend(twice).messages == twice
    assert kinds(twice) == []


@pytest.mark.spec("DX-34")
def test_an_equal_call_of_the_same_id_right_behind_is_one() -> None:
    again = msgspec.structs.replace(ASK, id="ask-again")
    assert mend((HI, ASK, again, TOLD)).messages == (HI, ASK, TOLD)
    assert kinds((HI, ASK, again, TOLD)) == ["duplicate-entry"]


def test_a_call_that_stands_twice_in_its_message_is_one() -> None:
    mended = mend((HI, entry("ask", "assistant", call(), call()), TOLD))
    assert mended.messages == (HI, ASK, TOLD)
    assert [finding.kind for finding in mended.findings] == ["duplicate-entry"]


@pytest.mark.spec("DX-34")
def test_a_result_that_was_written_twice_is_kept_once() -> None:
    again = msgspec.structs.replace(TOLD, id="told-again")
    assert mend((HI, ASK, TOLD, again, SO)).messages == (HI, ASK, TOLD, SO)
    assert kinds((HI, ASK, TOLD, again, SO)) == ["duplicate-entry"]


@pytest.mark.spec("TR-02", "TR-06", "DX-36")
def test_a_result_without_its_call_is_quoted_and_no_call_is_invented() -> None:
    mended = mend((HI, TOLD, SO))
    note = mended.messages[1]
    assert (note.id, note.role, note.source.kind) == ("told", "system", "system")
    assert "190.50" in note.text
    assert not any(message.tool_calls or message.tool_results for message in mended.messages)
    assert [(finding.kind, finding.message_id) for finding in mended.findings] == [("orphan-tool-result", "told")]


@pytest.mark.spec("TR-06")
def test_a_result_without_its_call_and_without_words_is_dropped() -> None:
    assert mend((HI, entry("told", "tool", result(content=" ")), SO)).messages == (HI, SO)


def test_a_second_and_different_result_is_quoted_behind_the_first() -> None:
    other = entry("other", "tool", result(content="200"))
    *rest, note = mend((HI, ASK, TOLD, other)).messages
    assert rest == [HI, ASK, TOLD]
    assert "200" in note.text


@pytest.mark.spec("TR-02", "TR-07", "DX-36")
def test_a_call_without_its_result_gets_one_that_says_so() -> None:
    mended = mend((HI, ASK, THANKS))
    (stand_in,) = mended.messages[2].tool_results
    assert (stand_in.call_id, stand_in.content, stand_in.status) == ("a", UNAVAILABLE, "unknown")
    assert mended.messages[-1] is THANKS
    assert [(finding.kind, finding.message_id) for finding in mended.findings] == [("missing-tool-result", "ask")]


@pytest.mark.spec("TR-10")
def test_a_run_that_broke_off_is_closed_as_aborted() -> None:
    both = entry("ask", "assistant", call("a"), call("b"))
    *_, last = mend((HI, both, TOLD)).messages
    assert [(one.call_id, one.content, one.status) for one in last.tool_results] == [("b", ABORTED, "skipped")]


@pytest.mark.spec("TR-10", "DX-36")
def test_a_last_call_is_not_called_aborted_where_its_result_may_have_been_lost() -> None:
    *_, last = mend((HI, ASK), records_lost=True).messages
    assert [(one.content, one.status) for one in last.tool_results] == [(UNAVAILABLE, "unknown")]


@pytest.mark.spec("TR-11", "DX-36")
@pytest.mark.parametrize("status", ["ok", "error", "skipped", "unknown"])
def test_an_empty_result_is_complete(status: Any) -> None:
    empty = (HI, ASK, entry("told", "tool", ToolResult("a", "quote", "", status=status)), THANKS)
    assert mend(empty).messages == empty
    assert kinds(empty) == []


@pytest.mark.spec("TR-02", "TR-08")
@pytest.mark.parametrize("between", [THANKS, SO, entry("note", "system", "it is Monday")])
def test_a_result_that_came_late_is_brought_to_its_call(between: Message) -> None:
    mended = mend((HI, ASK, between, TOLD))
    assert mended.messages == (HI, ASK, TOLD, between)
    assert mended.messages[2] is TOLD
    assert [finding.kind for finding in mended.findings] == ["invalid-role-sequence"]


@pytest.mark.spec("TR-08")
def test_a_result_that_came_before_its_call_is_brought_to_it() -> None:
    assert mend((HI, TOLD, ASK, SO)).messages == (HI, ASK, TOLD, SO)


@pytest.mark.spec("TR-08")
def test_results_of_two_calls_in_one_late_message_are_parted() -> None:
    second = entry("ask2", "assistant", call("b"))
    mended = mend((HI, ASK, second, entry("told", "tool", result("a"), result("b")))).messages
    assert [message.role for message in mended] == ["user", "assistant", "tool", "assistant", "tool"]
    assert [one.call_id for message in mended for one in message.tool_results] == ["a", "b"]
    assert len({message.id for message in mended}) == 5


@pytest.mark.spec("TR-08")
def test_a_result_in_a_persons_message_is_taken_out_and_their_words_stay_theirs() -> None:
    mended = mend((HI, ASK, entry("mixed", "user", "go on", result()))).messages
    assert [(message.id, message.role) for message in mended[2:]] == [("mixed~2", "tool"), ("mixed", "user")]
    assert mended[3].blocks == (Text("go on"),)


def test_words_in_a_tool_message_become_a_note_behind_the_results() -> None:
    mended = mend((HI, ASK, entry("told", "tool", "by the way", result()))).messages
    assert [(message.id, message.role) for message in mended[2:]] == [("told", "tool"), ("told~2", "system")]


def test_a_call_in_a_persons_message_is_removed() -> None:
    mended = mend((entry("hi", "user", "hello", call()), TOLD))
    assert mended.messages[0].blocks == (Text("hello"),)
    assert [finding.kind for finding in mended.findings] == ["invalid-role-sequence", "orphan-tool-result"]


@pytest.mark.spec("DX-36")
def test_ids_that_a_model_uses_again_are_paired_by_place() -> None:
    """Some models count their calls anew in every answer: an old call must not get a new call's result."""
    again = (entry("ask2", "assistant", call(day=2)), entry("told2", "tool", result(content="2")))
    assert mend((*WHOLE, *again)).messages == (*WHOLE, *again)
    lost = mend((HI, ASK, *again)).messages
    assert [one.content for message in lost for one in message.tool_results] == [UNAVAILABLE, "2"]


def test_of_two_calls_with_one_id_the_first_gets_the_only_result() -> None:
    both = entry("ask", "assistant", ToolCall("a", "quote"), ToolCall("a", "history"))
    *_, last = mend((HI, both, TOLD, THANKS)).messages[:-1]
    assert [one.name for one in last.tool_results] == ["history"]


def test_a_result_before_two_calls_that_it_could_mean_is_given_to_neither() -> None:
    mended = mend((HI, TOLD, ASK, THANKS, entry("ask2", "assistant", call(day=2)), SO)).messages
    assert [one.content for message in mended for one in message.tool_results] == [UNAVAILABLE, UNAVAILABLE]
    assert "190.50" in mended[1].text


@pytest.mark.spec("TR-03")
def test_findings_name_messages_by_id_and_not_by_a_place_that_shifts() -> None:
    found = mend((HI, HI, ASK, THANKS, entry("x", "tool", result("x")))).findings
    assert {(finding.kind, finding.message_id) for finding in found} == {
        ("duplicate-entry", "hi"),
        ("missing-tool-result", "ask"),
        ("orphan-tool-result", "x"),
    }
    assert all(finding.text for finding in found)


# ── only in the request ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("TR-09", "DX-35")
def test_the_name_of_a_vanished_tool_stays_in_history_and_is_legal_in_the_request() -> None:
    gone = ToolCall("call.1", "old plugin/quote", {"symbol": "AAPL"})
    stored = (HI, entry("ask", "assistant", gone), entry("told", "tool", ToolResult("call.1", gone.name, "190.50")))
    assert mend(stored).messages == stored
    sent = sanitize_request(stored)
    assert sent[1].tool_calls == (ToolCall("call_1", "old_plugin_quote", {"symbol": "AAPL"}),)
    assert sent[2].tool_results[0].call_id == "call_1"
    judge(sent)


@pytest.mark.parametrize(("name", "sent"), [("quote", "quote"), ("[unknown-tool]", "_unknown-tool_"), ("", "unnamed")])
def test_a_stand_in_is_as_near_to_the_name_as_it_may(name: str, sent: str) -> None:
    assert legal_name(name) == sent


def test_ids_used_again_are_unique_in_the_request() -> None:
    sent = sanitize_request((*WHOLE, entry("ask2", "assistant", call()), entry("told2", "tool", result(content="2"))))
    assert [one.id for message in sent for one in message.tool_calls] == ["a", "a-2"]
    assert [one.call_id for message in sent for one in message.tool_results] == ["a", "a-2"]


def test_an_assistant_that_spoke_first_is_introduced_in_the_request_only() -> None:
    stored = (SO, THANKS)
    assert mend(stored).messages == stored
    assert [message.text for message in sanitize_request(stored)] == [OPENING, "190.50", "thanks"]


@pytest.mark.spec("DX-77")
def test_a_request_without_faults_is_the_same_objects() -> None:
    assert [id(one) for one in sanitize_request(WHOLE)] == [id(one) for one in WHOLE]


# ── whatever may come ───────────────────────────────────────────────────────────────────────────────────────

FEW = st.sampled_from(["a", "b", "c", "", "a.b", "x" * 60])
WORDS = st.sampled_from(["", " ", "yes", "190.50 ", "\x00", "한글"])
ARGS: st.SearchStrategy[dict[str, Any]] = st.sampled_from([{}, {"n": 1}])
CALLS = st.builds(ToolCall, FEW, st.sampled_from(["quote", "[unknown-tool]", "n" * 70, ""]), ARGS)
RESULTS = st.builds(ToolResult, FEW, st.just("quote"), WORDS)
BLOCKS = st.builds(Text, WORDS) | st.builds(Thinking, WORDS, st.sampled_from(["", "s"])) | CALLS | RESULTS
ROLES = st.sampled_from(["user", "assistant", "tool", "system"])
SOUP = st.lists(
    st.builds(
        Message,
        st.sampled_from([f"m{number}" for number in range(12)] + ["m1~2", "m2~2"]),
        ROLES,
        st.lists(BLOCKS, max_size=4).map(tuple),
        st.just(Source("user")),
        st.just(AT),
    ),
    max_size=12,
)


@st.composite
def wholes(draw: st.DrawFn) -> tuple[Message, ...]:
    """Conversations that both APIs take."""
    messages: list[Message] = [HI]
    ids = (f"c{number}" for number in range(1000))
    for number in range(draw(st.integers(0, 6))):
        shape = draw(st.sampled_from(["user", "assistant", "system", "calls"]))
        if shape != "calls":
            messages.append(entry(f"m{number}", draw(st.sampled_from(["user", "assistant", "system"])), "yes"))
            continue
        asked = [call(next(ids)) for _ in range(draw(st.integers(1, 4)))]
        words: list[Block] = draw(st.sampled_from([[], [Text("I look")], [Thinking("hm", "s")]]))
        messages.append(entry(f"m{number}", "assistant", *words, *asked))
        told = [result(one.id, draw(st.sampled_from(["", "190.50"]))) for one in draw(st.permutations(asked))]
        cut = draw(st.integers(0, len(told) - 1))
        parts = [part for part in (told[:cut], told[cut:]) if part]
        messages += [entry(f"m{number}.{place}", "tool", *part) for place, part in enumerate(parts)]
    return tuple(messages)


@pytest.mark.spec("TR-12", "DX-36")
@settings(max_examples=examples(200))
@given(wholes())
def test_what_both_apis_take_is_left_alone(messages: tuple[Message, ...]) -> None:
    judge(messages)
    mended = mend(messages)
    assert mended.findings == ()
    assert [id(one) for one in mended.messages] == [id(one) for one in messages]
    assert [id(one) for one in sanitize_request(messages)] == [id(one) for one in messages]


@pytest.mark.spec("TR-08", "TR-12", "DX-36")
@settings(max_examples=examples(500))
@example(
    [
        entry("m1", "assistant", call(n=1), call(n=2)),
        entry("m2", "tool", result()),
        THANKS,
        entry("m3", "tool", result()),
    ]
)
@given(SOUP)
def test_any_soup_is_mended_once_and_for_all(soup: list[Message]) -> None:
    mended = mend(soup)
    again = mend(mended.messages)
    assert again.messages == mended.messages
    assert again.findings == ()
    assert [id(one) for one in again.messages] == [id(one) for one in mended.messages]
    assert len({message.id for message in mended.messages}) == len(mended.messages)
    assert mended.findings or [*mended.messages] == soup


@pytest.mark.spec("TR-08", "TR-09")
@settings(max_examples=examples(500))
@given(SOUP, st.booleans())
def test_any_soup_makes_a_request_that_both_apis_take(soup: list[Message], asked: bool) -> None:
    mended = mend(soup).messages
    request = sanitize_request((*mended, THANKS) if asked else mended)
    if request:
        judge(request)
    for message in request:
        written = msgspec.json.decode(b"[" + write_blocks(message) + b"]")
        assert len(written) == len(message.blocks)  # the writer leaves nothing more out


def test_an_echo_of_what_a_later_entry_replaces_is_kept() -> None:
    """The echo was dropped for the sake of its double, and then the double's words were replaced: both were gone."""
    calls = (ToolCall("a", "look", {}), Text("I look."))
    soup = [
        Message("m1", "assistant", calls, Source("assistant"), AT),
        Message("m2", "assistant", calls, Source("assistant"), AT),
        Message("m1", "user", (Text("never mind"),), Source("user"), AT),
    ]
    words = "".join(message.text for message in mend(soup).messages)
    assert "never mind" in words
    assert "I look." in words


@pytest.mark.spec("TR-05", "TR-06", "DX-36")
@settings(max_examples=examples(300))
@given(SOUP)
def test_mending_loses_no_words_and_invents_no_call(soup: list[Message]) -> None:
    mended = mend(soup).messages
    last = {message.id: message for message in soup}.values()
    said = "\n".join(
        block.text if isinstance(block, Text) else block.content
        for message in mended
        for block in message.blocks
        if isinstance(block, Text | ToolResult)
    )
    for message in last:
        assert all(block.text in said for block in message.blocks if isinstance(block, Text))
        assert all(one.content.strip() in said for one in message.tool_results)
    theirs = [one for message in last if message.role == "assistant" for one in message.tool_calls]
    assert all(one in theirs for message in mended for one in message.tool_calls)
