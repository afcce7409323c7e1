"""What an extension forbids is never shown, whatever part of a message it stands in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from finclaw.delivery.checks import Check, apply_visibility_checks
from finclaw.delivery.visible import make_visible
from finclaw.kernel.envelope import Capabilities, Embed, Inbound, Outbound

ASKED = Inbound(text="hi")
CARDS = Capabilities(embeds=True)


def forbids(word: str) -> Check:
    return Check("mine", lambda text: f"it says {len(word)} letters" if word in text else None)


@pytest.mark.parametrize("embeds", [True, False])
@pytest.mark.parametrize(
    "card", [Embed(title="sesame"), Embed(title="t", text="open sesame"), Embed(title="t", url="http://x/sesame")]
)
def test_a_card_is_looked_at_too(card: Embed, embeds: bool) -> None:
    outbound = Outbound(text="fine", embeds=(card,), reply_to="m", thread="t", perishable=True)
    seen = apply_visibility_checks(outbound, Capabilities(embeds=embeds), [forbids("sesame")], ASKED)
    assert seen.parts == (
        Outbound(text="This answer was withheld: it says 6 letters", kind="notice", reply_to="m", thread="t"),
    )


def test_a_word_across_two_parts_is_found() -> None:
    outbound = Outbound(text="aaaa " * 20 + "open sesame")
    capabilities = Capabilities(max_length=20)
    whole = make_visible(outbound, capabilities)
    assert not any("open sesame" in part.text for part in whole.parts)
    seen = apply_visibility_checks(outbound, capabilities, [forbids("open sesame")], ASKED)
    assert "".join(part.text for part in seen.parts).startswith("This")


def test_what_nobody_will_see_is_not_looked_at() -> None:
    seen = apply_visibility_checks(Outbound(text="<<NO_REPLY>>"), CARDS, [Check("mine", lambda _: "never")], ASKED)
    assert seen.parts == ()


@given(st.text(), st.text(min_size=1, max_size=3))
def test_no_forbidden_word_gets_through(text: str, word: str) -> None:
    seen = apply_visibility_checks(Outbound(text=text, kind="notice"), CARDS, [forbids(word)], ASKED)
    withheld = seen.text.startswith("This answer was withheld")
    assert withheld or word not in seen.text


@given(st.text())
def test_without_objection_nothing_changes(text: str) -> None:
    outbound = Outbound(text=text)
    assert apply_visibility_checks(outbound, CARDS, [Check("mine", lambda _: None)], ASKED) == make_visible(
        outbound, CARDS
    )
