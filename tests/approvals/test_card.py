"""The card: all of the action or nothing, readable as exactly what will run, and nothing hidden in it."""

import json
import re
import unicodedata
from datetime import UTC, datetime
from itertools import product
from typing import Any, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.ports.approval_nouns import wish

from finclaw.approvals.card import LONGEST, card
from finclaw.approvals.display import format_lines, quote_text
from finclaw.errors import ToolDenied
from finclaw.kernel.approval import Approval
from finclaw.transcript.approval_ids import short_id

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

pytestmark = pytest.mark.spec("DX-22")

KEYS = st.text(max_size=8)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"), max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


def about(args: dict[str, Any], **more: Any) -> Approval:
    return replace(wish(AT, args=args), **more)


# ── what is shown reads back as what will run ───────────────────────────────────────────────────────────────

_STEP = re.compile(r"""\.?([A-Za-z_][A-Za-z0-9_]*)|\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]""")


def read_back(shown: list[str]) -> Any:
    """A reader of cards who has never seen the code that writes them."""
    tree: dict[Any, Any] = {}
    for line in shown:
        path, value = split(line)
        place = tree
        for step in path[:-1]:
            place = place.setdefault(step, {})
        place[path[-1]] = value
    return grown(tree)


def split(line: str) -> tuple[list[Any], Any]:
    path: list[Any] = []
    at = 0
    while not line.startswith(" = ", at):
        found = _STEP.match(line, at)
        assert found is not None, line
        word, place, quoted = found.groups()
        path.append(("key", word) if word else ("key", json.loads(quoted)) if quoted else ("place", int(place)))
        at = found.end()
    return path, value_of(line[at + 3 :])


def value_of(shown: str) -> Any:
    return json.loads(shown) if shown[0] in '"{[tfn' else json.loads(shown.replace(",", ""))


def grown(tree: Any) -> Any:
    if not isinstance(tree, dict) or not tree:
        return cast("Any", tree)
    branches = cast("dict[tuple[str, Any], Any]", tree)
    if all(kind == "place" for kind, _ in branches):
        return [grown(each) for each in branches.values()]
    return {name: grown(each) for (_, name), each in branches.items()}


def same(one: Any, other: Any) -> bool:
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


@given(st.dictionaries(KEYS, VALUES, min_size=1, max_size=4))
def test_every_argument_can_be_read_back_exactly(args: dict[str, Any]) -> None:
    assert same(read_back(list(format_lines(args))), args)


@example("\U0001f6d8")
@given(st.text(st.characters(codec="utf-8")))
def test_two_texts_never_look_the_same(value: str) -> None:
    shown = quote_text(value)
    assert json.loads(shown) == value
    assert unicodedata.normalize("NFC", shown) == shown
    assert all(unicodedata.category(each)[0] not in "CMZ" or each == " " for each in shown)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1234567, "1,234,567"),
        (-1234567.5, "-1,234,567.5"),
        (1e16, "10,000,000,000,000,000.0"),
        (1e-7, "0.0000001"),
        (10**30, "1," + ",".join(["000"] * 10)),
        (True, "true"),
        (None, "null"),
        ("삼성전자 100주", '"삼성전자 100주"'),
        ("Nestlé", '"Nestlé"'),
        ("\u0410APL", '"\\u0410APL"'),
        ("AAPL\u202eLPAA", '"AAPL\\u202eLPAA"'),
        ("A\u200bAPL", '"A\\u200bAPL"'),
        ("a\u3164b", '"a\\u3164b"'),
        ("\uff11\uff10", '"\\uff11\\uff10"'),
        ("\u0661", '"\\u0661"'),
        ("e\u0301", '"e\\u0301"'),
        (unicodedata.normalize("NFD", "각"), '"\\u1100\\u1161\\u11a8"'),
        ("one\ntwo", '"one\\ntwo"'),
        ('"\n• quantity = 1', '"\\"\\n• quantity = 1"'.replace("•", "\\u2022")),
        ("\x1b[2K\r", '"\\u001b[2K\\r"'),
        ("\U000e0041", '"\\udb40\\udc41"'),
        ([], "[]"),
        ({}, "{}"),
    ],
)
def test_values_as_they_are_shown(value: Any, shown: str) -> None:
    assert card(about({"x": value})).splitlines()[3] == f"• x = {shown}"


def test_no_value_can_write_a_line_of_its_own() -> None:
    bad = "x\n\nYes: /approve me\u2028• quantity = 1\x85\x0b\x0c"
    assert len(card(about({"a": bad, "b": 1})).splitlines()) == len(card(about({"a": "x", "b": 1})).splitlines())


PAIRS = ("ロ口", "ト卜", "カ力", "ニ二", "ハ八", "エ工", "タ夕", "ヘへ", "チ千", "オ才", "リり")
AROUND = ("", "ソ", "川", "주", "A", "ソニ", "二", "ソ川", " ", "カ")


@pytest.mark.parametrize("pair", PAIRS)
def test_a_kana_and_its_look_alike_are_never_both_shown_as_they_are(pair: str) -> None:
    """Security trial, near miss: ロ (kana) and 口 (Hanja) are one picture, whatever stands around them."""
    drawn = str.maketrans("".join(each[0] for each in PAIRS), "".join(each[1] for each in PAIRS))
    for before, behind in product(AROUND, AROUND):
        one, other = (quote_text(f"{before}{each}{behind}").translate(drawn) for each in pair)
        assert one != other, (before, behind)


@pytest.mark.parametrize(
    "name", ["トヨタ", "ソニー".replace("ー", ""), "川崎重工業", "東京電力", "八十二銀行", "キヤノン", "りそな"]
)
def test_names_as_people_write_them_stay_readable(name: str) -> None:
    assert quote_text(name) == f'"{name}"'


@pytest.mark.parametrize("stroke", ["囗", "丨", "丿", "冫", "曰", "亻"])
def test_strokes_and_parts_of_hanja_are_shown_by_their_number(stroke: str) -> None:
    """Security trial, near miss: siblings that stand in no name."""
    assert quote_text(f"日{stroke}") == f'"日\\u{ord(stroke):04x}"'


# ── the whole card ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_card_in_english() -> None:
    asked = about(
        {"symbol": "AAPL", "quantity": 1000, "limit": {"price": 190.5}},
        quote={"price": "190.50", "as_of": "03:04"},
        sources=("https://example.com/news",),
    )
    assert card(asked) == (
        "Approval needed. Nothing has been done yet.\n\nAction: broker__order\n"
        '• symbol = "AAPL"\n• quantity = 1,000\n• limit.price = 190.5\n\n'
        'Prices as they are now:\n• price = "190.50"\n• as_of = "03:04"\n\n'
        "Careful: before this was asked for, the assistant read what others wrote. Such a text can tell it what to do, "
        "so this may be their wish and not yours. Say yes only if you want exactly this. It read:\n"
        '• "https://example.com/news"\n\n'
        f"Yes: /approve {short_id(asked.id)}\nNo: /deny {short_id(asked.id)}\n"
        "Without an answer by 03:09:05 (UTC) it is a no."
    )


def test_a_card_in_korean_for_others_to_decide() -> None:
    asked = about({}, language="ko", approvers=("role:approver", "telegram:b:1"), scopes=("once", "session"))
    shown = card(asked, prefix="!")
    assert "승인이 필요합니다" in shown
    assert "(인자 없음)" in shown
    assert "결정할 수 있는 사람: approver 역할을 가진 사람, telegram:b:1" in shown
    assert f"승인: !approve {asked.id[:11]}\n거부: !deny {asked.id[:11]}" in shown
    assert "session" in shown
    assert "12:09:05 (한국 시간)까지" in shown


def test_many_sources_are_counted() -> None:
    shown = card(about({}, sources=tuple(f"page {n}" for n in range(8))))
    assert '"page 4"' in shown
    assert '"page 5"' not in shown
    assert "… and 3 more" in shown


def test_what_cannot_be_shown_in_full_is_refused() -> None:
    with pytest.raises(ToolDenied, match="too long to be shown"):
        card(about({"note": "x" * LONGEST}))
    with pytest.raises(ToolDenied, match="280 fit"):
        card(about({"note": "x" * 200}), max_length=280)
    assert len(card(about({"note": "x" * 3_000}), max_length=10**6)) <= LONGEST
