"""Files and buttons: as the channel can show them, else as lines that say the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from finclaw.delivery.format import RESENT_MARK, has_room_for
from finclaw.delivery.visible import make_visible
from finclaw.kernel.envelope import ActionButton, ButtonLimits, Capabilities, Outbound, OutboundFile, OutboundKind
from finclaw.testing.channel import PROFILES

CHART = OutboundFile(blob="ab" * 32, name="aapl.png", mime="image/png", alt="AAPL, one year: up")
MORE = ActionButton(label="One month", command="/chart AAPL 1m", style="primary")
STOP = ActionButton(label="Stop", command="/alerts off", style="danger")
TOLD = Outbound(text="**AAPL** rose.", attachments=(CHART,), actions=(MORE, STOP))


@pytest.mark.parametrize("name", ["telegram", "discord", "slack", "web"])
def test_a_channel_with_buttons_gets_them_and_a_fallback(name: str) -> None:
    (part,) = make_visible(TOLD, PROFILES[name]).parts
    assert (part.attachments, part.actions) == ((CHART,), (MORE, STOP))
    assert "/chart" not in part.formatted
    assert part.fallback == "AAPL rose.\n\n1. One month: /chart AAPL 1m\n2. Stop: /alerts off"


def test_a_channel_without_them_gets_lines() -> None:
    (part,) = make_visible(TOLD, PROFILES["plain"]).parts
    assert (part.attachments, part.actions) == ((), ())
    lines = "📎 aapl.png: AAPL, one year: up\n1. One month: /chart AAPL 1m\n2. Stop: /alerts off"
    assert part.formatted == part.fallback == f"AAPL rose.\n\n{lines}"


def test_buttons_that_do_not_fit_become_lines() -> None:
    long = ActionButton(label="Long", command="/note " + "가" * 30)
    (part,) = make_visible(Outbound(text="Pick.", actions=(MORE, long)), PROFILES["telegram"]).parts
    assert part.actions == ()
    assert "<code>/chart AAPL 1m</code>" in part.formatted
    few = Capabilities(buttons=ButtonLimits(count=1, label=80, data=80))
    assert make_visible(Outbound(text="Pick.", actions=(MORE, STOP)), few).parts[0].actions == ()


@pytest.mark.parametrize("kind", ["reply", "notice"])
def test_no_button_carries_an_approval(kind: OutboundKind) -> None:
    forged = ActionButton(label="Show the chart", command="/approve ap-01hzy3m5k7q9s1v3x5z7a9c1e3")
    (part,) = make_visible(Outbound(text="Look.", kind=kind, actions=(forged, STOP)), PROFILES["telegram"]).parts
    assert part.actions == (STOP,)
    assert "ap-" not in part.fallback


def test_a_notice_is_shown_to_the_letter() -> None:
    (part,) = make_visible(Outbound(text="note: **a** <b>", kind="notice"), PROFILES["telegram"]).parts
    assert (part.formatted, part.fallback) == ("note: **a** &lt;b&gt;", "note: **a** <b>")


def test_what_needs_no_markup_is_kept_once() -> None:
    for capabilities in PROFILES.values():
        (part,) = make_visible(Outbound(text="AAPL is at 190.50 dollars"), capabilities).parts
        assert (part.rendered, part.plain) == (None, None)


def test_files_and_buttons_stand_below_the_last_part() -> None:
    parts = make_visible(
        Outbound(text="word " * 1_000, attachments=(CHART,), actions=(MORE,)), PROFILES["discord"]
    ).parts
    assert len(parts) > 1
    assert [bool(each.actions) for each in parts] == [bool(each.attachments) for each in parts]
    assert [bool(each.actions) for each in parts] == [False] * (len(parts) - 1) + [True]


@pytest.mark.spec("F-06")
@pytest.mark.parametrize("name", list(PROFILES))
@given(text=st.text(st.sampled_from("a가🙂&<*_ \n`"), min_size=1, max_size=120).map(lambda few: few * 60))
def test_markup_makes_no_part_too_long(name: str, text: str) -> None:
    capabilities = PROFILES[name]
    for part in make_visible(Outbound(text=text, actions=(MORE, STOP)), capabilities).parts:
        counted = part.fallback if capabilities.markup == "inline_html" else part.formatted
        assert has_room_for(capabilities, RESENT_MARK + counted)
        assert has_room_for(capabilities, RESENT_MARK + part.fallback)
