"""One function names a session, and no two conversations get one name."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from finclaw.kernel.envelope import Inbound, Sender
from finclaw.sessions.session_key import place_of, session_key

_id = st.text(st.sampled_from("ab:+%/2B é\ud83d"), max_size=4)
_inbound = st.builds(
    Inbound,
    text=st.just("x"),
    message_id=st.just("m"),
    channel=_id,
    account=_id,
    conversation=_id,
    chat_type=st.sampled_from(["direct", "group", "channel"]),
    thread=st.none() | _id,
    sender=st.builds(Sender, _id),
)


def identity(agent: str, inbound: Inbound) -> tuple[object, ...]:
    """What a conversation is: in a shared one, everybody's; in a direct one, the peer's."""
    peer = inbound.sender.id if inbound.chat_type == "direct" else None
    return (agent, inbound.channel, inbound.account, inbound.chat_type, inbound.conversation, peer, inbound.thread)


@pytest.mark.spec("RO-02", "RO-06", "RO-07", "DX-14", "DX-66", "M-27", "M-74", "M-81")
@given(_id, _inbound, _id, _inbound)
@example(
    "a",
    Inbound(text="", conversation="a", sender=Sender("b")),
    "a",
    Inbound(text="", conversation="a+b", sender=Sender("a+b")),
)
@example("a:b", Inbound(text="", channel="c"), "a", Inbound(text="", channel="b:c"))
def test_two_keys_are_equal_only_for_one_conversation(agent: str, one: Inbound, other_agent: str, two: Inbound) -> None:
    same = identity(agent, one) == identity(other_agent, two)
    assert (session_key(agent, one) == session_key(other_agent, two)) is same


@given(_id, _inbound)
def test_a_key_is_printable_and_has_as_many_parts_as_it_says(agent: str, inbound: Inbound) -> None:
    key = session_key(agent, inbound)
    assert key.isascii()
    assert not any(letter.isspace() for letter in key)
    assert key.count(":") == (4 if inbound.thread is None else 5)


def test_a_key_can_be_read_by_people() -> None:
    inbound = Inbound(text="", channel="telegram", account="bot", conversation="42", sender=Sender("42"), thread="7")
    assert session_key("main", inbound) == "main:telegram:bot:direct:42:7"


@pytest.mark.spec("M-04")
def test_text_time_name_and_roles_have_no_part_in_it() -> None:
    one = Inbound(text="a", sender=Sender("u", "Ada", ("admin",)), message_id="1")
    two = Inbound(text="b", sender=Sender("u", "Bob"), message_id="2", reply_to="1", mentions_us=True)
    assert session_key("main", one) == session_key("main", two)


# ── and back ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("RO-02")
@given(_id, _inbound)
def test_a_key_tells_its_place(agent: str, inbound: Inbound) -> None:
    place = place_of(session_key(agent, inbound))
    assert place is not None
    assert (place.agent, place.channel, place.account, place.chat_type, place.conversation, place.thread) == (
        agent,
        inbound.channel,
        inbound.account,
        inbound.chat_type,
        inbound.conversation,
        inbound.thread,
    )
    assert place.peer == (inbound.sender.id if inbound.chat_type == "direct" else None)
    assert session_key(place.agent, place.inbound("x", "m")) == session_key(agent, inbound)


@given(st.text(st.sampled_from("ab:+%2Bdirect é\ud83d"), max_size=30) | st.text())
@example("")
@example("main:web:owner:direct:main")
@example("main:web:owner:secret:main")
@example("main:web:owner:direct:a b")
@example("main:web:owner:direct:%e9")
@example("main:web:owner:direct:%FF")
@example("main:web:owner:group:a+b")
@example("main:web:owner:direct:a+a")
@example("main:web:owner:direct:a:b:c")
def test_what_names_no_session_is_not_taken_for_one(text: str) -> None:
    place = place_of(text)
    assert place is None or session_key(place.agent, place.inbound()) == text
