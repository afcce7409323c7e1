"""What an extension forbids is never shown, whatever part of a message it stands in; the rest of the message is."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from finclaw.delivery.visible import Check, apply_visibility_checks, make_visible
from finclaw.kernel.envelope import Capabilities, Embed, Outbound
from finclaw.kernel.scope import Draft, DraftFinding

ABOUT = Draft("", "final")
CARDS = Capabilities(embeds=True)
NOTE = "\n\n(A part of this answer was left out: it says 6 letters)"


def forbids(word: str, replacement: str | None = None) -> Check:
    def look(draft: Draft) -> list[DraftFinding]:
        found = re.finditer(re.escape(word), draft.text)
        return [DraftFinding(each.start(), each.end(), f"it says {len(word)} letters", replacement) for each in found]

    return Check("mine", look)


def seen_of(text: str, *checks: Check) -> str:
    return apply_visibility_checks(Outbound(text=text), CARDS, checks, ABOUT).text


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("One is fine. Two is sesame. Three is fine.", "One is fine. Three is fine."),
        ("Say sesame! Then go.", "Then go."),
        ("It opens. The word is sesame", "It opens."),
        ("# Head\n- a point\n- sesame, a point\n- the last", "# Head\n- a point\n- the last"),
        ("sesame. Fine. sesame? Fine again.", "Fine. Fine again."),
        ("값은 10원입니다. 단어는 sesame입니다. 끝입니다.", "값은 10원입니다. 끝입니다."),
    ],
)
def test_a_sentence_is_left_out_and_the_others_stay(text: str, rest: str) -> None:
    assert seen_of(text, forbids("sesame")) == rest + NOTE


def test_a_replacement_changes_that_place_and_nothing_else() -> None:
    assert (
        seen_of("It is 12 dollars, or 12 euros. Fine.", forbids("12", "13")) == "It is 13 dollars, or 13 euros. Fine."
    )


def test_a_replacement_that_is_forbidden_goes_with_its_sentence() -> None:
    assert seen_of("It is 12. Fine.", forbids("12", "sesame"), forbids("sesame")) == f"Fine.{NOTE}"
    assert seen_of("It is 12. Fine.", forbids("12", "12 or 12")).startswith("Fine.")


def test_of_two_findings_at_one_place_the_stricter_wins() -> None:
    assert seen_of("It is sesame. Fine.", forbids("sesame", "x"), forbids("is sesame")).startswith("Fine.\n")


def test_where_nothing_is_left_the_reason_is_told() -> None:
    seen = apply_visibility_checks(Outbound(text="sesame", reply_to="m", thread="t"), CARDS, [forbids("sesame")], ABOUT)
    assert seen.parts == (
        Outbound(text="This answer was withheld: it says 6 letters", kind="notice", reply_to="m", thread="t"),
    )


def test_a_reason_that_must_not_be_seen_is_not_told() -> None:
    check = Check("mine", lambda draft: [DraftFinding(at, at + 1, "an x") for at in [draft.text.find("x")] if at >= 0])
    assert seen_of("x. Fine.", check) == "Fine.\n\n(A part of this answer was left out.)"
    assert seen_of("x", check) == "This answer was withheld."


@pytest.mark.parametrize(
    "card", [Embed(title="sesame"), Embed(title="t", text="open sesame"), Embed(title="t", url="http://x/sesame")]
)
def test_a_card_is_left_out_as_a_whole(card: Embed) -> None:
    outbound = Outbound(text="fine", embeds=(card, Embed(title="other")), perishable=True)
    seen = apply_visibility_checks(outbound, CARDS, [forbids("sesame")], ABOUT)
    assert seen.parts == (Outbound(text=f"fine{NOTE}", embeds=(Embed(title="other"),), perishable=True),)
    as_text = apply_visibility_checks(outbound, Capabilities(), [forbids("sesame")], ABOUT)
    assert "sesame" not in as_text.text
    assert as_text.text.startswith("fine")


def test_a_word_across_two_parts_is_found() -> None:
    outbound = Outbound(text="aaaa " * 20 + "open sesame")
    capabilities = Capabilities(max_length=20)
    whole = make_visible(outbound, capabilities)
    assert not any("open sesame" in part.text for part in whole.parts)
    seen = apply_visibility_checks(outbound, capabilities, [forbids("open sesame")], ABOUT)
    assert "".join(part.text for part in seen.parts).startswith("This")


def test_what_nobody_will_see_is_not_looked_at() -> None:
    never = Check("mine", lambda draft: [DraftFinding(0, 1, "never")])
    assert apply_visibility_checks(Outbound(text="<<NO_REPLY>>"), CARDS, [never], ABOUT).parts == ()


@pytest.mark.parametrize(
    "found", [["no"], [DraftFinding(0, 99, "")], [DraftFinding(-1, 2, "")], [DraftFinding(2, 2, "")], 5]
)
def test_what_is_no_finding_keeps_everything_back(found: object) -> None:
    check = Check("mine", lambda draft: found if draft.text == "fine" else [])  # pyright: ignore[reportArgumentType]
    assert seen_of("fine", check) == "This answer was withheld: a check of mine failed"


@given(st.text(), st.text(min_size=1, max_size=3), st.none() | st.text(max_size=3))
def test_no_forbidden_word_gets_through(text: str, word: str, replacement: str | None) -> None:
    seen = apply_visibility_checks(Outbound(text=text, kind="notice"), CARDS, [forbids(word, replacement)], ABOUT)
    said, _, _ = seen.text.partition("(A part of this answer was left out")
    assert word not in said or said.startswith("This answer was withheld")


@given(st.text())
def test_without_a_finding_nothing_changes(text: str) -> None:
    outbound = Outbound(text=text)
    assert apply_visibility_checks(outbound, CARDS, [Check("mine", lambda _: [])], ABOUT) == make_visible(
        outbound, CARDS
    )
