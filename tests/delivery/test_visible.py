"""The one gate: what leaves it is what a person gets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from finclaw.delivery.format import RESENT_MARK
from finclaw.delivery.visible import make_visible
from finclaw.kernel.envelope import Capabilities, Embed, Outbound, OutboundKind


def out(text: str, kind: OutboundKind = "reply") -> Outbound:
    return Outbound(text=text, kind=kind, reply_to="m", thread="t", ephemeral=True, perishable=True)


def test_tokens_are_taken_out_of_the_models_words() -> None:
    visible = make_visible(out("Hello\n<<NEED_INPUT>>"), Capabilities())
    assert (visible.text, visible.tokens) == ("Hello", ("NEED_INPUT",))
    assert visible.parts == (out("Hello"),)


def test_the_gateways_own_words_have_no_tokens_to_give() -> None:
    visible = make_visible(out("<<NO_REPLY>>", "notice"), Capabilities())
    assert visible.parts == (out("<<NO_REPLY>>", "notice"),)


@pytest.mark.parametrize("token", ["NO_REPLY", "SILENT_REPLY"])
def test_silence_has_no_parts_whatever_stands_beside_it(token: str) -> None:
    assert make_visible(out(f"some words\n<<{token}>>"), Capabilities()).parts == ()


@pytest.mark.spec("DX-21d")
@pytest.mark.parametrize("text", ["", " \n ", "<<HEARTBEAT_OK>>"])
def test_empty_is_not_sent(text: str) -> None:
    assert make_visible(out(text), Capabilities()).parts == ()


@pytest.mark.spec("DX-21d", "P-46")
@given(st.text(st.sampled_from("ab \n"), min_size=1, max_size=300), st.integers(1, 40))
def test_only_the_first_part_answers_and_all_keep_the_rest(text: str, limit: int) -> None:
    visible = make_visible(out(text), Capabilities(max_length=limit))
    for place, part in enumerate(visible.parts):
        assert part.reply_to == ("m" if place == 0 else None)
        assert (part.thread, part.ephemeral, part.perishable) == ("t", True, True)
        assert len(part.formatted) <= max(1, limit - len(RESENT_MARK))


def test_a_part_has_room_for_the_mark_of_a_repeat() -> None:
    visible = make_visible(out("x" * 1000), Capabilities(max_length=100))
    assert all(len(RESENT_MARK + part.text) <= 100 for part in visible.parts)


@pytest.mark.spec("P-46", "M-13")
def test_cards_alone_are_something_to_send() -> None:
    card = Embed(title="AAPL", text="up")
    shown = make_visible(Outbound(text="", embeds=(card,)), Capabilities(embeds=True))
    assert shown.parts == (Outbound(text="", embeds=(card,)),)
    told = make_visible(Outbound(text="", embeds=(card,)), Capabilities())
    assert [part.text for part in told.parts] == ["AAPL\nup"]
    assert told.text == "AAPL\nup"
